package queue

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holdfast-sdn/holdfast/app"
)

func full(format string, args ...any) error {
	return app.Refuse(http.StatusInsufficientStorage, format, args...)
}

func conflict(format string, args ...any) error {
	return app.Refuse(http.StatusConflict, format, args...)
}

// names of queues and clients.
var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// routes adds the handlers of requests.
func (q *queues) routes(a *app.App) {
	cells := func(r app.Request) app.Cells { return q.of(r.Values["queue"]) }
	app.HandleHTTP(a, "GET /{$}", func(app.Request) app.Cells { return app.Need(q.names.Cell(all)) }, q.list)
	app.HandleHTTP(a, "PUT /{queue}", cells, q.create)
	for pattern, run := range map[string]func(*app.Tx, string, *Status, app.Request) (any, error){
		"GET /{queue}":                       q.status,
		"DELETE /{queue}":                    q.drop,
		"POST /{queue}/messages":             q.post,
		"POST /{queue}/take":                 q.take,
		"DELETE /{queue}/messages/{message}": q.done,
		"GET /{queue}/clients/{client}":      q.known,
		"DELETE /{queue}/clients/{client}":   q.dismiss,
	} {
		app.HandleHTTP(a, pattern, cells, q.existing(run))
	}
}

// existing makes a handler of one for a queue that must exist, whose Status it may change, and whose answer is JSON.
// What is refused changes nothing.
func (q *queues) existing(run func(*app.Tx, string, *Status, app.Request) (any, error),
) func(*app.Tx, app.Request) (app.Response, error) {
	return func(tx *app.Tx, r app.Request) (app.Response, error) {
		name := r.Values["queue"]
		was, there := q.queues.Get(tx, name)
		if !there {
			return app.Respond(nil, app.Refuse(http.StatusNotFound, "there is no queue %q: create it with PUT", name))
		}
		s := was
		var value any
		err := tx.Try(func() (err error) {
			value, err = run(tx, name, &s, r)
			if _, there := q.queues.Get(tx, name); err == nil && there && s != was {
				q.queues.Put(tx, name, s)
			}
			return err
		})
		return app.Respond(value, err)
	}
}

func (q *queues) list(tx *app.Tx, _ app.Request) (app.Response, error) {
	list := []string{}
	for name := range q.names.All(tx, all) {
		list = append(list, name)
	}
	return app.JSON(list, true)
}

// create asks the actor of the names first, so that there are not too many queues.
func (q *queues) create(tx *app.Tx, r app.Request) (app.Response, error) {
	name := r.Values["queue"]
	if !names.MatchString(name) {
		return app.Respond(nil, app.Refuse(http.StatusBadRequest, "queue %q: use 1 to 64 letters, digits and ._-",
			name))
	}
	if _, there := q.queues.Get(tx, name); there {
		return app.Respond(nil, nil)
	}
	_, err := app.Ask[bool](tx, open{name}, time.Second)
	var no app.CallError
	if errors.As(err, &no) {
		err = full("%s", no)
	}
	switch {
	case err == nil:
		q.queues.Put(tx, name, Status{})
		err = app.Emit(tx, opened{name})
	case errors.Is(err, app.ErrLate):
		if err = app.Emit(tx, gone{name}); err == nil {
			err = app.Refuse(http.StatusServiceUnavailable, "the names of queues are not available: try again")
		}
	}
	return app.Respond(nil, err)
}

func (q *queues) drop(tx *app.Tx, name string, _ *Status, _ app.Request) (any, error) {
	q.clear(tx, name)
	q.queues.Delete(tx, name)
	return nil, app.Emit(tx, gone{name})
}

func (q *queues) status(_ *app.Tx, _ string, s *Status, _ app.Request) (any, error) { return *s, nil }

func (q *queues) post(tx *app.Tx, name string, s *Status, r app.Request) (any, error) {
	body := string(r.Body)
	switch {
	case len(body) > MaxBody:
		return nil, app.Refuse(http.StatusRequestEntityTooLarge, "the message has %d bytes, %d are possible", len(body),
			MaxBody)
	case !utf8.ValidString(body):
		return nil, app.Refuse(http.StatusBadRequest, "the message is not UTF-8: encode it, for example as base64")
	}
	client, number, err := numbered(r, "number")
	message := s.Put + 1
	switch {
	case err != nil:
		return nil, err
	case client != "":
		message, err = q.putOnce(tx, name, s, client, number, body)
	default:
		err = q.put(tx, name, s, body)
	}
	return map[string]uint64{"message": message}, err
}

func (q *queues) take(tx *app.Tx, name string, s *Status, r app.Request) (any, error) {
	client, after, err := numbered(r, "after")
	var t Taken
	switch {
	case err != nil:
		return nil, err
	case client != "":
		t, err = q.takeOnce(tx, name, s, client, after)
	default:
		seconds := uint64(30)
		if r.Query.Has("seconds") {
			seconds, err = number(r, "seconds")
		}
		if err == nil && (seconds == 0 || seconds > uint64(MaxLease/time.Second)) {
			err = app.Refuse(http.StatusBadRequest, "seconds=%d: use 1 to %d", seconds, MaxLease/time.Second)
		}
		if err == nil {
			t, err = q.lease(tx, name, s, time.Duration(seconds)*time.Second)
		}
	}
	if err != nil || t.Message == 0 {
		return nil, err
	}
	t.Body, _ = q.bodies.Get(tx, name, t.Message)
	return t, nil
}

func (q *queues) done(tx *app.Tx, name string, s *Status, r app.Request) (any, error) {
	message, err := strconv.ParseUint(r.Values["message"], 10, 64)
	if err != nil {
		return nil, app.Refuse(http.StatusBadRequest, "message %q is not a number", r.Values["message"])
	}
	take, err := number(r, "take")
	if err != nil {
		return nil, err
	}
	return nil, q.acknowledge(tx, name, s, message, take)
}

func (q *queues) known(tx *app.Tx, name string, _ *Status, r app.Request) (any, error) {
	c, known := q.clients.Get(tx, name, r.Values["client"])
	if !known {
		return nil, app.Refuse(http.StatusNotFound, "queue %s has no client %q", name, r.Values["client"])
	}
	return c, nil
}

func (q *queues) dismiss(tx *app.Tx, name string, s *Status, r app.Request) (any, error) {
	q.remove(tx, name, s, r.Values["client"])
	return nil, nil
}

// numbered returns the client that a request names, and its number of that name; no client if it has neither.
func numbered(r app.Request, of string) (client string, n uint64, err error) {
	if !r.Query.Has("client") && !r.Query.Has(of) {
		return "", 0, nil
	}
	if client = r.Query.Get("client"); !names.MatchString(client) {
		return "", 0, app.Refuse(http.StatusBadRequest, "client=%s: use 1 to 64 letters, digits and ._-", client)
	}
	n, err = number(r, of)
	return client, n, err
}

// number returns a number of the query.
func number(r app.Request, of string) (uint64, error) {
	n, err := strconv.ParseUint(r.Query.Get(of), 10, 64)
	if err != nil {
		return 0, app.Refuse(http.StatusBadRequest, "%s=%s is not a number", of, r.Query.Get(of))
	}
	return n, nil
}
