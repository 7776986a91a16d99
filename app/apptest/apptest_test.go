package apptest_test

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A timer rings when its time has come, once, and what its handler sends comes out.
func TestAdvance(t *testing.T) {
	a := app.New("bell")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error { return tx.SetTimer("ring", time.Second, nil) })
	app.Handle(a, nil, func(tx *app.Tx, in app.Timer) error {
		tx.Send(1, &of13.BarrierRequest{})
		return nil
	})
	n := apptest.New(t, a)
	if sent := n.SwitchUp(1); len(sent) != 0 {
		t.Fatalf("sent %v before the time", sent)
	}
	if sent := n.Advance(999 * time.Millisecond); len(sent) != 0 {
		t.Fatalf("sent %v before the time", sent)
	}
	sent := n.Advance(time.Millisecond)
	if len(sent) != 1 || sent[0].Switch != 1 || sent[0].Message.Type() != of13.TypeBarrierRequest {
		t.Fatalf("sent %v, want one BARRIER_REQUEST", sent)
	}
	if sent := n.Advance(time.Hour); len(sent) != 0 {
		t.Fatalf("sent %v: it rang twice", sent)
	}
}
