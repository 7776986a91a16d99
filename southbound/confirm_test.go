package southbound

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// claimed returns a session that is the master in epoch, in which no event is held; the log has `events` of them.
func claimed(t *testing.T) (c *Core, epoch, events uint64) {
	p, m := steady(t, 1)
	c, epoch, events = m.core, m.core.epoch, p.state().events
	b := c.peer.(*bundles)
	c.Standby(0)
	if err := c.Claim(m.term+1, 2000, Resume{Epoch: epoch, Live: true, Events: events}); err != nil {
		t.Fatal(err)
	}
	if c.Logged(epoch, events+1, packetIn13(1)) || c.Skipped(epoch, events+1, 1) {
		t.Error("events are logged during a claim, and it takes them for its own")
	}
	b.markers = []marker{{epoch, 0}}
	b.decide(2000)
	if b.state != leading || c.Held() != 0 {
		t.Fatalf("state %d, %d events held", b.state, c.Held())
	}
	return c, epoch, events
}

// A session that is the master compares the log with the events that it has numbered: the number, the epoch and the
// content. It reports the first that differs, because the leader then uses another session.
func TestMasterComparesTheLog(t *testing.T) {
	reply := (&of13.Error{}).Append(nil, 5)
	for name, c := range map[string]struct {
		logged func(c *Core, epoch, n uint64) bool
		want   bool
	}{
		"its own": {func(c *Core, e, n uint64) bool {
			return c.Logged(e, n+1, packetIn13(1)) && c.Logged(e, n+2, reply) && c.Logged(e, n+3, packetIn13(2))
		}, true},
		"its own, only counted": {func(c *Core, e, n uint64) bool {
			return c.Logged(e, n+1, packetIn13(1)) && c.Skipped(e, n+3, 1)
		}, true},
		"those of an epoch that has ended": {func(c *Core, e, n uint64) bool {
			return c.Logged(e-1, n+9, packetIn13(9)) && c.Logged(e, n+1, packetIn13(1))
		}, true},
		"another event": {func(c *Core, e, n uint64) bool {
			return c.Logged(e, n+1, packetIn13(2))
		}, false},
		"an event that is left out": {func(c *Core, e, n uint64) bool { return c.Logged(e, n+2, reply) }, false},
		"another number of events":  {func(c *Core, e, n uint64) bool { return c.Skipped(e, n+3, 3) }, false},
		"an event that is not held": {func(c *Core, e, n uint64) bool { return c.Skipped(e, n+4, 2) }, false},
		"a newer epoch": {func(c *Core, e, n uint64) bool {
			return c.Logged(e+1, 1, packetIn13(1))
		}, false},
		"all that a snapshot has": {func(c *Core, e, n uint64) bool { return c.Skipped(e, n+3, Unknown) }, false},
		"an event for a second time": {func(c *Core, e, n uint64) bool {
			return c.Skipped(e, n+1, 1) && c.Logged(e, n+1, packetIn13(1))
		}, false},
	} {
		core, epoch, n := claimed(t)
		mustFeed(t, core, packetIn13(1), reply, packetIn13(2))
		if core.Held() != 3 {
			t.Fatalf("%d events held", core.Held())
		}
		if got := c.logged(core, epoch, n); got != c.want {
			t.Errorf("%s: reported as its own %t, want %t", name, got, c.want)
		}
	}
}

// The leader has changed to another session, to which a reply was sent, so equal numbers stand for different events.
// When the session becomes a standby, it matches the log without a gap.
func TestClaimEndsAtAnEventOfAnotherSession(t *testing.T) {
	c, epoch, n := claimed(t)
	mustFeed(t, c, packetIn13(1), packetIn13(2), packetIn13(3))
	log := [][]byte{packetIn13(1), (&of13.Error{}).Append(nil, 5), packetIn13(2)}
	var ours []bool
	for i, msg := range log {
		is := c.Logged(epoch, n+1+uint64(i), msg)
		if ours = append(ours, is); !is {
			c.Acknowledge(epoch, n+uint64(i))
			c.Standby(0)
			c.Logged(epoch, n+1+uint64(i), msg)
		}
	}
	if got := fmt.Sprint(ours, c.State().InSync, c.Held()); got != "[true false true] true 1" {
		t.Errorf("%s: the third packet-in is not in the log", got)
	}
}
