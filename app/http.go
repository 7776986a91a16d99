package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

type (
	// Request is a request of an HTTP client to the application: its method, what the wildcards of the route have
	// matched, the query, and the body of at most 512 KiB.
	Request = httpcall.Request
	// Response is the answer: a status (0 is 200), a media type ("" is text/plain), and a body of at most 1 MiB.
	Response = httpcall.Response
)

// ReadJSON reads a value out of the body of a request. A field that the value does not have is an error.
func ReadJSON(r Request, value any) error {
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return fmt.Errorf("the body is not valid: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its end: send one value")
	}
	return nil
}

// JSON returns the answer that has a value; status 404 if it is not there.
func JSON(value any, there bool) (Response, error) {
	if !there {
		return Response{Status: http.StatusNotFound}, nil
	}
	body, err := json.Marshal(value)
	return Response{Type: "application/json", Body: body}, err
}

// BadRequest returns the answer to a request that the client must change: status 400 and why.
func BadRequest(why error) (Response, error) {
	return Response{Status: http.StatusBadRequest, Body: fmt.Appendln(nil, why)}, nil
}

// SwitchOf returns the switch that a request names as {switch} of its route. If what it names is no datapath id, the
// handler does not run, and the answer has status 400.
func SwitchOf(r Request) Switch {
	id, _ := openflow.ParseDatapathID(r.Values[switchValue])
	return id
}

const switchValue = "switch"

// refusal is why a request is not executed.
type refusal struct {
	status int
	why    string
}

func (r refusal) Error() string { return r.why }

// Refuse returns an error with which Respond answers a request: a status, such as 409, and why it is not executed.
func Refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Sprintf(format, args...)}
}

// Respond returns the answer to a request: its value as JSON, or status 204 if there is none, or the refusal that err
// is. With any other error the request fails. What the handler did before a refusal takes effect, so a handler that
// may refuse then uses Tx.Try.
func Respond(value any, err error) (Response, error) {
	var no refusal
	switch {
	case errors.As(err, &no):
		return Response{Status: no.status, Body: []byte(no.why + "\n")}, nil
	case err != nil || value == nil:
		return Response{Status: http.StatusNoContent}, err
	}
	return JSON(value, true)
}

// route is a handler over HTTP.
type route struct {
	function[Request]
	run func(*Tx, Request) (Response, error)
}

// relative is the form of routes: they name no host, since they are below the path of the application.
var relative = regexp.MustCompile(`^([A-Z]+ )?/`)

// HandleHTTP adds a handler for requests of HTTP clients to a route, which is a pattern of net/http.ServeMux such as
// "GET /hosts/{mac}". Controllers serve it below /apps/NAME at their address `rest`. Any controller takes a request;
// the one that leads the group with the cells executes it, and the client receives the answer after commit.
//
// An answered request was executed once, and what it did survives. If the client receives an error of a controller
// (status 503 or 504) or none, the request was executed once or not at all, and the text says which if that is known.
// A client that repeats such a request must expect both. If the handler fails, nothing that it did takes effect, and
// the client receives status 500 with the error.
//
// cells must depend on the request only: the controller that has the client calls it too, in another goroutine. Without
// it, the request is for the actor that has all cells without a switch or a key.
// A request has one answer, so it is not for Each actor, and not dropped. HandleHTTP panics if the route is not a
// pattern, or conflicts with another one.
func HandleHTTP(a *App, pattern string, cells func(Request) Cells, run func(*Tx, Request) (Response, error)) {
	if !relative.MatchString(pattern) {
		panic(fmt.Sprintf("application %s: route %q: use METHOD /path, as in GET /hosts/{mac}", a.name, pattern))
	}
	a.mux.Handle(pattern, http.NotFoundHandler()) // panics
	a.routes[pattern] = route{newFunction(a, cells), run}
	a.inputs[ledger.Called] = []handler{a.serve}
}

// Routes implements ledger.Server.
func (a *App) Routes() (patterns []string) {
	for p := range a.routes {
		patterns = append(patterns, p)
	}
	return patterns
}

// Callee implements ledger.Server.
func (a *App) Callee(pattern string, message []byte) (ledger.Shard, error) {
	r := a.routes[pattern]
	if r.cells == nil || a.tx.whole {
		return ledger.Shard{}, nil
	}
	q, err := httpcall.Decode[Request](message)
	if err != nil {
		return ledger.Shard{}, err
	}
	needs := r.cells(q)
	if needs.kind != needed {
		return ledger.Shard{}, fmt.Errorf("%s has one answer: it cannot be for Each actor, and not for none: use Need",
			r.handler)
	}
	at, ok := needs.of(ledger.Shard{})
	if !ok {
		at = needs.owners()[0]
	}
	return at, nil
}

func (r *route) answer(tx *Tx, q Request) (Response, error) {
	if text, named := q.Values[switchValue]; named {
		if _, err := openflow.ParseDatapathID(text); err != nil {
			return BadRequest(err)
		}
	}
	return r.run(tx, q)
}

// serve executes a request.
func (a *App) serve(tx *Tx, in *ledger.Input) error {
	if name, is := strings.CutPrefix(in.Name, emitPrefix); is {
		if !tx.ledger.Enter(tx.at) { // it is suspended
			return nil
		}
		return tx.ledger.Emit(name, in.Message)
	}
	r, known := a.routes[in.Name]
	if !known {
		return fmt.Errorf("%s has no route %q: run the same release at all controllers", a.name, in.Name)
	}
	q, err := httpcall.Decode[Request](in.Message)
	if err != nil {
		return err
	}
	run := func(tx *Tx, q Request) error {
		answer, err := r.answer(tx, q)
		if err != nil {
			return err
		}
		return tx.ledger.Reply(httpcall.Encode(answer))
	}
	if r.cells == nil {
		return r.addressed(tx, &q, run)
	}
	return r.handle(tx, &q, run)
}
