package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

func TestEpochsFollowEachOther(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, roleRequest(1))
	c.FromSwitch(packetIn(1, 0))
	c.SwitchDown(experimenter.ReasonSilent)
	if _, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err != nil {
		t.Fatal(err)
	}
	ids, _ := events(t, c.Take(p, nil))
	if got := strings.Join(ids, " "); got != "100/1 100/2 100/3 200/1" {
		t.Fatalf("got %q", got)
	}
	mustController(t, c, p, eventAck(100, 3))
	if c.events.Len() != 1 || len(c.epochs) != 1 {
		t.Fatalf("held %d, epochs %v", c.events.Len(), c.epochs)
	}
	mustController(t, c, p, concat(eventAck(100, 1), eventAck(200, 1)))
	if c.events.Len() != 0 {
		t.Fatalf("held %d", c.events.Len())
	}
	mustController(t, c, p, commands(1, 100, 1, command(99)))
	if c.count.Stale != 1 || len(c.commands.out) != 0 {
		t.Fatal("a command of the former epoch passed")
	}
}

func TestStaleEpochBeginsAnewAboveIt(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, roleRequest(1))
	if c.Stale(99) {
		t.Fatal("a refusal of an earlier epoch took away the newer one")
	}
	refusal := experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 5000}
	var no *Refused
	if err := c.FromController(p, refusal.Append(nil, 4)); !errors.As(err, &no) || no.Refuse != refusal {
		t.Fatalf("error %v", err)
	}
	if !c.Stale(no.Epoch) || c.Attachable() || c.Live() || c.Held() != 0 {
		t.Fatalf("it stays in epoch %d with %d events", c.Epoch(), c.Held())
	}
	// The agent is about to close this connection. Events that arrive until then are discarded.
	late := concat(packetIn(1, 0), message(4, 2, 1))
	if n, err := c.FromSwitch(late); n != len(late) || err != nil || c.Held() != 0 {
		t.Fatalf("took %d of %d bytes, %v, holds %d events of no epoch", n, len(late), err, c.Held())
	}
	c.Disconnect(p)
	c.SwitchDown(experimenter.ReasonConnectionLost)
	if epoch, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err != nil || epoch != 5001 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	q := c.Connect()
	mustController(t, c, q, concat(helloBytes, roleRequest(1)))
	if ids, _ := events(t, c.Take(q, nil)); strings.Join(ids, " ") != "5001/1" {
		t.Fatalf("the controller got %v", ids)
	}
	if c.Stale(5000) {
		t.Fatal("the same refusal, by another controller, took away the new epoch")
	}
}

func TestEpochsGrowWhateverTheClockSays(t *testing.T) {
	c := NewCore(64, 1<<16)
	var last uint64
	for _, now := range []uint64{1000, 1000, 5, 2000} {
		epoch, err := c.SwitchUp(now, 4, message(4, 6, 0), nil)
		if err != nil || epoch < now || epoch <= last || c.Epoch() != epoch {
			t.Fatalf("epoch %d after %d at %d: %v", epoch, last, now, err)
		}
		last = epoch
		c.SwitchDown(experimenter.ReasonSilent)
	}
	if last != 2000 {
		t.Fatalf("epoch %d, and the clock said 2000", last)
	}
}

func TestAnotherVersionOutdatesControllers(t *testing.T) {
	c, p := upCore(t)
	c.SwitchDown(experimenter.ReasonSilent)
	c.SwitchUp(200, 4, message(4, 6, 0), nil)
	if c.Outdated(p) {
		t.Fatal("the version is the same")
	}
	c.SwitchDown(experimenter.ReasonSilent)
	c.SwitchUp(300, 1, message(1, 6, 0), nil)
	if q := c.Connect(); !c.Outdated(p) || c.Outdated(q) {
		t.Fatalf("outdated: %v, new: %v", c.Outdated(p), c.Outdated(q))
	}
}

// A refusal ends all epochs up to the one it names. Events of a newer epoch are kept. Events of ended epochs are
// not sent again, because they would be refused each time.
func TestStaleForgetsOnlyWhatIsOver(t *testing.T) {
	c, p := upCore(t)
	c.FromSwitch(packetIn(1, 0))
	c.SwitchDown(experimenter.ReasonConnectionLost)
	if _, err := c.SwitchUp(200, 4, message(4, 6, 0), nil); err != nil {
		t.Fatal(err)
	}
	c.FromSwitch(packetIn(2, 0))
	mustController(t, c, p, roleRequest(1))
	if c.Stale(100) || !c.Live() || c.Epoch() != 200 {
		t.Fatalf("live %t, epoch %d", c.Live(), c.Epoch())
	}
	if got, want := c.attach(), (experimenter.Attach{Epoch: 200, FirstHeld: 1, NextEvent: 3}); got != want {
		t.Errorf("it attaches with %+v, want %+v", got, want)
	}
	if ids, _ := events(t, c.Take(p, nil)); strings.Join(ids, " ") != "200/1 200/2" {
		t.Errorf("the master gets %v", ids)
	}
}

// The agent restarts with a clock that was set back. A leader that does not know its epoch acknowledges events that
// this agent never had. The agent must keep its own events until it is refused; then it begins a higher epoch.
func TestAcknowledgedOfAnEpochBeforeTheAgent(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, concat(roleRequest(1), eventAck(5000, 7)))
	if ids, _ := events(t, c.Take(p, nil)); c.Held() != 1 || strings.Join(ids, " ") != "100/1" {
		t.Errorf("it holds %d events and sends %v", c.Held(), ids)
	}
}

// Controllers that have lost their logs lead in a low term again. The agent refuses them until they prove the loss,
// and follows them then only if no other controller leads the switch.
func TestYield(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after func(t *testing.T, c *Core, p *Peer) // runs after p, in term 3, was refused for an earlier term 9
		ticks int
		yield bool
	}{
		{"nobody else leads", nil, yieldAfter, true},
		{"somebody has led until just now", nil, yieldAfter - 1, false},
		{"another in its place has claimed a later term", func(t *testing.T, c *Core, _ *Peer) {
			q := c.Connect()
			mustController(t, c, q, concat(helloBytes, roleRequest(10)))
			c.Disconnect(q)
		}, yieldAfter, false},
		{"another has claimed a later term and is gone, and it claims again", func(t *testing.T, c *Core, p *Peer) {
			q := c.Connect()
			mustController(t, c, q, concat(helloBytes, roleRequest(10)))
			c.Disconnect(q)
			mustController(t, c, p, roleRequest(3))
			for range yieldAfter {
				c.Tick([]*Peer{p})
			}
		}, yieldAfter, false},
		{"it claims again", func(t *testing.T, c *Core, p *Peer) { mustController(t, c, p, roleRequest(3)) },
			yieldAfter, true},
		{"it is accepted after all", func(t *testing.T, c *Core, p *Peer) { mustController(t, c, p, roleRequest(9)) },
			yieldAfter, false},
		{"who led was back for a moment", func(t *testing.T, c *Core, _ *Peer) {
			q := c.Connect()
			mustController(t, c, q, concat(helloBytes, roleRequest(9)))
			c.Disconnect(q)
		}, yieldAfter, false},
		{"who led is back", func(t *testing.T, c *Core, _ *Peer) {
			mustController(t, c, c.Connect(), concat(helloBytes, roleRequest(9)))
		}, yieldAfter, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, old := upCore(t)
			mustController(t, c, old, concat(roleRequest(9), eventAck(100, 1)))
			c.Disconnect(old)
			p := c.Connect()
			mustController(t, c, p, concat(helloBytes, roleRequest(3)))
			for range tc.ticks {
				c.Tick([]*Peer{p})
			}
			if tc.after != nil {
				tc.after(t, c, p)
			}
			refusal := experimenter.Refuse{Reason: experimenter.ReasonLostLog, Epoch: 100}
			var no *Refused
			if err := c.FromController(p, refusal.Append(nil, 4)); !errors.As(err, &no) || no.Refuse != refusal {
				t.Fatalf("error %v", err)
			}
			if got := c.Yield(p); got != tc.yield || c.Attachable() == tc.yield {
				t.Fatalf("yields: %t, live: %t", got, c.Live())
			}
			if !tc.yield {
				return
			}
			c.Disconnect(p)
			c.SwitchDown(experimenter.ReasonConnectionLost)
			if epoch, err := c.SwitchUp(50, 4, message(4, 6, 0), nil); err != nil || epoch != 101 {
				t.Fatalf("epoch %d, %v", epoch, err)
			}
			for _, claim := range []struct {
				term     uint64
				accepted bool
			}{{2, false}, {3, true}, {4, true}, {3, false}} {
				q := c.Connect()
				mustController(t, c, q, concat(helloBytes, roleRequest(claim.term)))
				if accepted := c.Master() == q; accepted != claim.accepted {
					t.Errorf("term %d is accepted: %t", claim.term, accepted)
				}
			}
		})
	}
}
