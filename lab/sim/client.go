package sim

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// callPatience is how long a client waits for an answer, as in package controller, and callPause how long a call that
// was not executed waits before it is sent again. That is longer than there, for the speed of a run without a leader.
const (
	callPatience = 5 * time.Second
	callPause    = 50 * time.Millisecond
)

// clientCall is a call of a client: the part of controller.Controller that has the client. It is lost with the process.
type clientCall struct {
	n     *controllerNode
	call  ledger.Call
	ended bool // nobody waits for the answer
	// done takes the reply, or an error if the client cannot know whether it was executed
	done func(reply []byte, err error)
}

// call lets a client call an actor by a controller.
func (n *controllerNode) call(q ledger.Call, done func([]byte, error)) {
	c := &clientCall{n: n, call: q, done: done}
	c.call.Caller = n.id
	n.p.after(0, c.send)
	n.p.after(callPatience, func() {
		n.calls.End(c.call.ID)
		c.ended = true
	})
}

// send sends the call to the group in which its actor lives, as far as that is known here.
func (c *clientCall) send() {
	if c.ended {
		return
	}
	group, known := c.n.groupOf(c.call.Actor)
	if !known {
		want := directory.Assign{Actors: []ledger.Actor{c.call.Actor}, Groups: c.n.homes()[:1]}
		c.n.replicas[0].AskDirectory(want.Append(nil))
		c.n.p.after(assignEvery, c.send)
		return
	}
	c.call.ID = c.n.calls.Begin(group, c.end)
	if !c.n.sendCall(group, controller.CallPayload(c.call)) {
		c.n.calls.End(c.call.ID)
		c.n.p.after(callPause, c.send)
	}
}

// end takes the outcome.
func (c *clientCall) end(o controller.Outcome) {
	if o.Again() {
		c.n.p.after(callPause, c.send)
		return
	}
	c.ended = true
	c.done(o.Reply())
}

// request is a request over HTTP to census.
type request struct {
	key      uint64
	answered bool
}

// requestOne lets a client of any controller call any actor with a key.
func (s *simulation) requestOne() {
	n, key := s.controllers[s.w.rand.IntN(len(s.controllers))], uint64(1+s.w.rand.IntN(census.Keys))
	if !n.p.up {
		return
	}
	r, floor := &request{key: key}, s.replies[key] // so many requests of the key were answered when it began
	s.requests = append(s.requests, r)
	n.call(census.Request(key, uint64(len(s.requests))), func(reply []byte, err error) {
		if err != nil {
			return // the client does not know whether it was executed
		}
		r.answered = true
		count, err := census.Requested(reply)
		n.check(err)
		if count <= floor {
			s.w.fail("a request of key %d is the one with number %d, and %d were answered before it began", key, count,
				floor)
		}
		s.replies[key]++
	})
}

// groupOf returns the group in which an actor lives.
func (n *controllerNode) groupOf(a ledger.Actor) (group uint64, known bool) {
	if len(n.s.groups) == 1 {
		return 0, true
	}
	at, known := n.s.groups[1].lives(n.assigned.view.Of)(a)
	return at.Group, known
}

// sendCall sends a call to the leader of a group, or to a controller that may know it. It reports false if it was not
// sent.
func (n *controllerNode) sendCall(group uint64, payload []byte) bool {
	switch at := n.replica(group); {
	case at == nil:
		return slices.ContainsFunc(n.s.groups[group].replicas, func(r *replica) bool {
			return n.members[r.n.id].sendPayload(group, payload)
		})
	case at.leader == n.id:
		at.put(func() { at.core.Payload(n.p.clock(), 0, payload) })
		return true
	default:
		return at.leader != 0 && at.SendPayload(at.leader, payload)
	}
}

// Answer implements controller.Outside. Without clients, nobody waits for the answers of those who were asked to move
// an actor.
func (r *replica) Answer(to uint64, answers []byte) {
	payload := controller.AnswerPayload(answers)
	switch {
	case r.n.s.scenario.CallEvery == 0 && r.n.s.scenario.StoreEvery == 0 && r.n.s.scenario.ForgetEvery == 0 &&
		r.n.s.scenario.Suite == "":
	case to == r.n.id:
		r.n.calls.Take(payload)
	default:
		r.n.replicas[0].SendPayload(to, payload)
	}
}

// checkRequests checks at the end that what was answered was executed once, and everything else at most once.
func (s *simulation) checkRequests() {
	executed := map[uint64]int{}
	for _, g := range s.groups {
		rows, err := g.leader().core.Ledger().Rows(census.Name, maxCensus)
		g.leader().n.check(err)
		for _, n := range census.Executed(rows) {
			executed[n]++
		}
	}
	for i, r := range s.requests {
		if n := executed[uint64(i+1)]; n > 1 || r.answered && n == 0 {
			s.w.fail("request %d, answered: %t, is executed %d times", i+1, r.answered, n)
		}
	}
}

// answered counts the requests that were answered.
func (s *simulation) answered() (n uint64) {
	for _, answered := range s.replies {
		n += answered
	}
	return n
}
