package controller

import (
	"encoding/binary"
	"errors"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A call is a request of a client to an actor (ledger.Core.Call). The controller that has the client sends it to the
// leader of the actor's group:
//
//	callPayload u8 | hops u8 | controller uvarint | id uvarint | actor | length uvarint, name | message
//
// A resumePayload is the same, for a suspended actor that is to be resumed, and a forgetPayload for a switch that is to
// be forgotten.
// The leader executes it, and answers to the controller once that is committed, in a payload of the system group, of
// which each controller has a replica. Answers of a turn to one controller are one payload:
//
//	answerPayload u8 | (id uvarint | outcomeKind u8 | length uvarint, message)*
//
// A controller without the leadership passes a call on to the leader that it knows, at most maxHops times. Both kinds
// of payload may be lost. Then the client gets no answer in time, and nobody repeats the call.

// maxHops bounds how often a call is passed on.
const maxHops = 2

// maxCalls bounds the calls that wait for room in the ledger. Further ones are refused.
const maxCalls = 4096

// maxCallsTurn bounds the calls that one turn executes, so that they leave room for events.
const maxCallsTurn = 512

// outcomeKind is how a call has ended.
type outcomeKind uint8

const (
	replied   outcomeKind = iota // with what the application has replied
	failed                       // the application failed
	elsewhere                    // it was not executed: the actor, or the leader, is elsewhere
	busy                         // it was not executed: too many wait
	lost                         // it may have been executed: the leader has changed
	late                         // it may have been executed: there was no answer in time; not in payloads
)

// Outcome is the end of a call. Its message aliases the payload.
type Outcome struct {
	id      uint64
	kind    outcomeKind
	message []byte
}

// Again reports whether the call was certainly not executed, and may be executed elsewhere or later: then it is sent
// again. No other call is.
func (o Outcome) Again() bool { return o.kind == elsewhere }

// Reply returns what the application has replied, or why there is no reply. See Again first.
func (o Outcome) Reply() ([]byte, error) {
	switch o.kind {
	case failed:
		return nil, failedCall(o.message)
	case busy:
		return nil, errCallBusy
	case lost:
		return nil, errCallLost
	case late:
		return nil, errCallLate
	}
	return o.message, nil
}

func (o Outcome) append(b []byte) []byte {
	b = append(binary.AppendUvarint(b, o.id), byte(o.kind))
	return append(binary.AppendUvarint(b, uint64(len(o.message))), o.message...)
}

// nextOutcome decodes an answerPayload after its kind. The rest is nil at the end, or if it is damaged.
func nextOutcome(b []byte) (o Outcome, rest []byte) {
	id, n := binary.Uvarint(b)
	if n <= 0 || len(b) == n {
		return Outcome{kind: lost}, nil
	}
	o.id, o.kind, b = id, outcomeKind(b[n]), b[n+1:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) || o.kind > lost {
		return Outcome{kind: lost}, nil
	}
	b = b[n:]
	o.message = b[:size]
	return o, b[size:]
}

// CallPayload is the payload that brings a call to the leader of its actor's group.
func CallPayload(q ledger.Call) []byte {
	kind := byte(callPayload)
	switch {
	case q.Resumes:
		kind = resumePayload
	case q.Forgets:
		kind = forgetPayload
	}
	b := binary.AppendUvarint(binary.AppendUvarint([]byte{kind, 0}, q.Caller), q.ID)
	b = binary.AppendUvarint(q.Actor.Append(b), uint64(len(q.Name)))
	return append(append(b, q.Name...), q.Message...)
}

// parseCall is the inverse of CallPayload; false if the payload is damaged.
func parseCall(b []byte) (q ledger.Call, ok bool) {
	if len(b) < 2 {
		return q, false
	}
	q.Resumes, q.Forgets, b = b[0] == resumePayload, b[0] == forgetPayload, b[2:]
	var n, m int
	if q.Caller, n = binary.Uvarint(b); n <= 0 {
		return q, false
	}
	if q.ID, m = binary.Uvarint(b[n:]); m <= 0 {
		return q, false
	}
	var err error
	if q.Actor, b, err = ledger.ParseActor(b[n+m:]); err != nil {
		return q, false
	}
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return q, false
	}
	b = b[n:]
	q.Name, q.Message = string(b[:size]), b[size:]
	return q, true
}

// AnswerPayload is the payload that brings answers to the controller that waits for them; see Outside.Answer.
func AnswerPayload(answers []byte) []byte { return append([]byte{answerPayload}, answers...) }

// called takes a call, or passes it on to the leader.
func (c *Core) called(payload []byte) {
	q, ok := parseCall(payload)
	switch {
	case !ok: // the client gets no answer
	case !c.role.Leading:
		if payload[1] < maxHops && c.role.Leader != 0 {
			further := append([]byte{payload[0], payload[1] + 1}, payload[2:]...)
			if c.outside.SendPayload(c.role.Leader, further) {
				return
			}
		}
		c.refuse(q, elsewhere)
	case len(c.calls) >= maxCalls:
		c.refuse(q, busy)
	default:
		c.calls = append(c.calls, q)
	}
}

// refuse answers a call that is not executed.
func (c *Core) refuse(q ledger.Call, why outcomeKind) {
	c.outside.Answer(q.Caller, Outcome{id: q.ID, kind: why}.append(nil))
}

// refuseCalls refuses all calls that wait, because the leader has changed.
func (c *Core) refuseCalls() {
	for _, q := range c.calls {
		c.refuse(q, elsewhere)
	}
	c.calls = nil
}

// executeCalls executes waiting calls while the ledger has room.
func (c *Core) executeCalls() {
	n := 0
	for ; n < min(len(c.calls), maxCallsTurn) && !c.draining && c.room(); n++ {
		if c.refuseForget(c.calls[n]) {
			continue
		}
		switch err := c.ledger.Call(c.calls[n]); {
		case errors.Is(err, ledger.ErrFull):
			c.refuse(c.calls[n], busy)
		case err != nil:
			c.refuse(c.calls[n], elsewhere)
		}
	}
	if n == len(c.calls) {
		c.calls = nil
		return
	}
	clear(c.calls[:n])
	c.calls = c.calls[n:]
}

// answer sends the answers to calls that are committed.
func (c *Core) answer() {
	list := c.ledger.Answers()
	for len(list) > 0 {
		to, rest := list[0].Caller, list[:0]
		var b []byte
		for _, a := range list {
			if a.Caller != to || len(b) > maxAnswers {
				rest = append(rest, a)
				continue
			}
			o := Outcome{id: a.ID, message: a.Message}
			if a.Failed {
				o.kind = failed
			}
			b = o.append(b)
		}
		c.outside.Answer(to, b)
		list = rest
	}
}

// maxAnswers is the size from which answers to a controller begin another payload, in bytes.
const maxAnswers = 1 << 20
