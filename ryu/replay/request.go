package replay

import (
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Errors of Request.
var (
	ErrNotLeading    = errors.New("this controller does not lead")
	ErrBusy          = errors.New("too many requests or inputs wait for the applications; try again")
	ErrRefused       = errors.New("the request is too large for the log, or malformed")
	ErrLeaderChanged = errors.New("the leadership has changed; whether the applications have taken the request is " +
		"not known")
	ErrLeftOut = errors.New("no host of the applications has survived this request: all controllers skip it")
	ErrBegun   = errors.New("the applications have begun anew; whether they had taken the request is not known")
)

// Bounds of requests.
const (
	maxRequests  = 1024    // not answered yet
	waitingBytes = 8 << 20 // of those that wait for room in the log
)

// requests are the requests that are not answered.
type requests struct {
	waiting  []*request // for room in the log
	bytes    int        // of waiting
	executed map[uint64]*request
}

type request struct {
	files  bool // body is a wire.FileSet, and not a request over HTTP
	body   []byte
	number uint64 // of its input, once that exists
	done   func(wire.Answer, error)
}

// Request passes an HTTP request, encoded by wire.HTTPRequest.Append, to the applications. done is called once, now or
// later, with the logged answer or an error. An application may never answer: the caller cancels with forget, after
// which done is not called.
func (c *Core) Request(body []byte, done func(wire.Answer, error)) (forget func()) {
	return c.ask(&request{body: body, done: done})
}

// Files passes configuration files, encoded by wire.FileSet.Append, to the applications, as Request passes a request.
// Every host answers at once.
func (c *Core) Files(body []byte, done func(error)) {
	c.ask(&request{files: true, body: body, done: func(_ wire.Answer, err error) { done(err) }})
}

func (c *Core) ask(r *request) (forget func()) {
	q := &c.requests
	switch {
	case !c.leading:
		r.done(wire.Answer{}, ErrNotLeading)
	case len(q.waiting)+len(q.executed) >= maxRequests || q.bytes+len(r.body) > waitingBytes || c.replayed.MustBegin():
		r.done(wire.Answer{}, ErrBusy)
	default:
		q.waiting = append(q.waiting, r)
		q.bytes += len(r.body)
		return func() { q.forget(r) }
	}
	return func() {}
}

// executeRequests executes waiting requests, as far as there is room.
func (c *Core) executeRequests() {
	q := &c.requests
	for len(q.waiting) > 0 && c.replayed.ledger.Room() {
		r := q.waiting[0]
		q.forget(r)
		add := c.replayed.Request
		if r.files {
			add = c.replayed.Files
		}
		if r.number = add(r.body); r.number == 0 {
			r.done(wire.Answer{}, ErrRefused)
			continue
		}
		r.body, q.executed[r.number] = nil, r
	}
}

func (q *requests) forget(r *request) {
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.bytes -= len(r.body)
	} else if q.executed[r.number] == r {
		delete(q.executed, r.number)
	}
}

// answer passes the answers in a logged result to their requests.
func (q *requests) answer(r *wire.Result) {
	for _, a := range r.Answers {
		if asked := q.executed[a.Request]; asked != nil {
			delete(q.executed, a.Request)
			asked.done(a, nil)
		}
	}
}

// leftOut ends the request whose input is skipped.
func (q *requests) leftOut(number uint64) {
	if r := q.executed[number]; r != nil {
		delete(q.executed, number)
		r.done(wire.Answer{}, ErrLeftOut)
	}
}

// refuse ends the requests that the applications may have received.
func (q *requests) refuse(why error) {
	for n, r := range q.executed {
		delete(q.executed, n)
		r.done(wire.Answer{}, why)
	}
}

// refuseWaiting ends the requests that they have not received.
func (q *requests) refuseWaiting() {
	waiting := q.waiting
	q.waiting, q.bytes = nil, 0
	for _, r := range waiting {
		r.done(wire.Answer{}, ErrNotLeading)
	}
}
