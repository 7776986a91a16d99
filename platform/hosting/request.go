package hosting

import (
	"errors"

	"github.com/holdfast-sdn/holdfast/ryuhost/wire"
)

// Why a request gets no answer.
var (
	ErrNotLeading    = errors.New("this controller does not lead")
	ErrBusy          = errors.New("too much waits for the applications; ask again")
	ErrLeaderChanged = errors.New("the leadership has changed; whether the applications have taken the request is not known")
	ErrBegun         = errors.New("the applications have begun anew; whether they had taken the request is not known")
)

// Request gives the applications an HTTP request, as wire.HTTPRequest.Append makes it. done is called once, now or later,
// with the answer that the log has, or with why there is none. An application may let it wait for ever: the
// caller gives up when it likes.
func (c *Core) Request(request []byte, done func(wire.Answer, error)) {
	switch {
	case !c.leading:
		done(wire.Answer{}, ErrNotLeading)
	case len(c.requests) >= maxRequests || !c.ledger.Room() || c.ledger.Unhosted():
		done(wire.Answer{}, ErrBusy)
	default:
		c.requests[c.ledger.Request(request)] = done
	}
}

// answer hands out what a logged result answers.
func (c *Core) answer(r *wire.Result) {
	for _, a := range r.Answers {
		if done := c.requests[a.Request]; done != nil {
			delete(c.requests, a.Request)
			done(a, nil)
		}
	}
}

func (c *Core) refuse(why error) {
	for n, done := range c.requests {
		delete(c.requests, n)
		done(wire.Answer{}, why)
	}
}
