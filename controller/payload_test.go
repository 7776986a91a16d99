package controller

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// FuzzPayload has another controller send any payload to one that leads and to one that does not, and any answers to
// calls: they are taken or dropped.
func FuzzPayload(f *testing.F) {
	f.Add(CallPayload(ledger.Call{Actor: theSwitch(1), Forgets: true, Caller: 3, ID: 1}))
	f.Add(CallPayload(ledger.Call{Actor: ledger.Actor{App: "echoer"}, Name: "n", Message: []byte("m"), Caller: 3, ID: 1}))
	f.Add(FramePayload([]byte("a frame")))
	f.Add(ResendPayload(1))
	f.Add(append([]byte{digestPayload}, make([]byte, 16)...))
	f.Add([]byte{requestPayload, 6, 'e', 'c', 'h', 'o', 'e', 'r', 'x'})
	f.Add(AnswerPayload(Outcome{id: 1, message: []byte("m")}.append(nil)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if q, ok := parseCall(payload); ok {
			if again, ok := parseCall(CallPayload(q)); !ok || again.Actor != q.Actor || again.Name != q.Name {
				t.Errorf("%+v becomes %+v", q, again)
			}
		}
		NewCalls(0).Take(payload)
		s := newStand(t, CoreConfig{})
		s.core.Payload(s.now, 2, payload)
		s.turn()
		s.lead(1)
		s.up(1, 5)
		s.core.Payload(s.now, 2, payload)
		s.turn()
		s.settle()
	})
}
