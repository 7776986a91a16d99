package controller

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A request is executed by the leader, whoever makes it. It is lost if there is none, or if it leads no more.
func TestRequests(t *testing.T) {
	s := newStand(t, CoreConfig{})
	var payloads [][]byte
	s.send = func(member uint64, payload []byte) bool {
		payloads = append(payloads, payload)
		return true
	}
	s.core.Ask("echoer", []byte("lost"))
	s.follow(2)
	s.core.Ask("echoer", []byte("sent"))
	s.turn()
	if len(payloads) == 0 || len(s.proposed) > 0 {
		t.Fatalf("%d payloads, %d proposals", len(payloads), len(s.proposed))
	}
	sent := payloads[len(payloads)-1]
	s.core.Payload(s.now, 2, sent) // it does not lead
	s.lead(3)
	s.saw()
	s.core.Payload(s.now, 2, sent)
	for end := range len("echoer") + 2 {
		s.core.Payload(s.now, 2, sent[:end]) // cut off
	}
	s.core.Ask("echoer", []byte("own"))
	s.core.Ask("nobody", []byte("dropped"))
	s.turn()
	s.saw("request sent", "request own")
	s.commit()
	s.core.Ask("echoer", []byte("late"))
	s.follow(4)
	s.lead(5)
	s.saw()
}

// Requests wait for room in the ledger, up to a bound.
func TestRequestsWait(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 2, InFlight: 1}})
	s.lead(1)
	for i := range maxRequests + 1 {
		s.core.Ask("echoer", fmt.Append(nil, i))
	}
	for range maxRequests/2 + 2 {
		s.turn()
		s.commit()
	}
	if n := len(s.app.seen); n != maxRequests || s.app.seen[n-1] != fmt.Sprint("request ", maxRequests-1) {
		t.Errorf("%d requests were executed, the last was %q", n, s.app.seen[n-1])
	}
}
