package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// ofTwo makes a ledger of group 0, with a switch 1, of two groups. Everything that belongs to no switch is in group 1.
func ofTwo(t *testing.T, limits Limits, app Application) *Core {
	t.Helper()
	c := mustNew(t, limits, app)
	c.Join(0, func(a Actor) (Assignment, bool) {
		if a.Switch != 0 {
			return Assignment{Group: 0, Version: 1}, true
		}
		return Assignment{Group: 1, Version: 1}, true
	})
	if err := c.Lead(1, 1000); err != nil {
		t.Fatal(err)
	}
	if err := c.Event(1, 1, 1, switchUp()); err != nil {
		t.Fatal(err)
	}
	return c
}

// Timers that are cancelled or set again while they are held are not kept as held.
func TestHeldTimersAreForgotten(t *testing.T) {
	change := func(tx *Tx) error { return nil }
	app := &script{name: "a", do: func(tx *Tx, in *Input) error {
		switch here := AtSwitch(1); in.Kind {
		case SwitchUp:
			tx.Enter(here)
			return errors.Join(tx.SetTimer("a", 1, nil), tx.SetTimer("b", 2, nil), tx.SetTimer("c", 3, nil))
		case Timer:
			tx.Enter(Shard{}) // in another group
		default:
			tx.Enter(here)
			return change(tx)
		}
		return nil
	}}
	c := ofTwo(t, Limits{OutboxItems: 1}, app)
	for {
		entry, ok := c.Cut()
		if !ok {
			break
		}
		if err := c.Commit(entry); err != nil {
			t.Fatal(err)
		}
	}
	c.Tick(2000) // the first fills the outbox
	if len(c.late) != 2 {
		t.Fatalf("%d timers are held, want 2", len(c.late))
	}
	change = func(tx *Tx) error {
		tx.CancelTimer("b")
		return tx.SetTimer("c", time.Hour, nil)
	}
	if err := c.Event(1, 1, 2, packetIn("x")); err != nil {
		t.Fatal(err)
	}
	if len(c.late) != 0 {
		t.Errorf("held are %v, though none is due", c.late)
	}
}

// A frame that is none leaves nothing behind.
func TestBadItemsLeaveNoStream(t *testing.T) {
	c := ofTwo(t, Limits{}, &script{name: "a"})
	for id := range openflow.DatapathID(10) {
		k := Link{Actor{App: "a", Shard: AtSwitch(id + 2)}, theSwitch(1)}
		if err := c.Receive(1, k, 1, []byte{1, 99}); err == nil {
			t.Error("it is taken for an item")
		}
	}
	if n := len(c.state.links.in); n != 0 {
		t.Errorf("there are %d streams", n)
	}
}
