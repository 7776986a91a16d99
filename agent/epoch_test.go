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
	if !c.Stale(no.Epoch) || c.Attachable() || c.live || c.Held() != 0 {
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
	if c.Stale(100) || !c.live || c.Epoch() != 200 {
		t.Fatalf("live %t, epoch %d", c.live, c.Epoch())
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

// Controllers whose log lacks events that were acknowledged are refused while another controller is master, and until
// there was none for some time. Then the switch begins a new epoch with them. Their term must not be stale.
func TestLostLogOfControllers(t *testing.T) {
	claim := func(term uint64, logged ...uint64) []byte {
		return concat(helloBytes, eventAck(logged[0], logged[1]), roleRequest(term))
	}
	for _, tc := range []struct {
		name   string
		live   bool // the old master is connected
		ticks  int  // after the first claim
		claim  []byte
		then   func(c *Core, p *Peer) []byte // the second claim; nil is roleRequest(12)
		master bool                          // accepted, as master
		lost   bool                          // accepted, and the switch begins a new epoch
	}{
		{"the log has all", true, 0, claim(12, 100, 2), nil, true, false},
		{"the log has a later epoch", true, 0, claim(12, 200, 1), nil, true, false},
		{"another leads", true, followAfter, claim(12, 100, 1), nil, false, false},
		{"another log, and another leads", true, followAfter, claim(12, 0, 0), nil, false, false},
		{"another has led until just now", false, followAfter - 1, claim(12, 100, 1), nil, false, false},
		{"nobody leads", false, followAfter, claim(12, 100, 1), nil, false, true},
		{"nobody leads, an earlier epoch", false, followAfter, claim(12, 99, 7), nil, false, true},
		{"nobody leads, in the same term", false, followAfter, claim(9, 0, 0),
			func(*Core, *Peer) []byte { return roleRequest(9) }, false, true},
		{"nobody leads, and the term is stale", false, 3 * followAfter, claim(8, 0, 0),
			func(*Core, *Peer) []byte { return roleRequest(8) }, false, false},
		{"the old master was back for a moment", false, followAfter, claim(12, 100, 1), func(c *Core, _ *Peer) []byte {
			q := c.Connect()
			mustController(t, c, q, claim(9, 100, 2))
			c.Disconnect(q)
			return roleRequest(12)
		}, false, false},
		{"it has all by now", false, 1, claim(12, 100, 1),
			func(*Core, *Peer) []byte { return concat(eventAck(100, 2), roleRequest(12)) }, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, old := upCore(t)
			c.FromSwitch(packetIn(1, 0))
			c.FromSwitch(packetIn(2, 0))
			mustController(t, c, old, concat(eventAck(100, 0), roleRequest(9), eventAck(100, 2)))
			p := c.Connect()
			if !tc.live {
				c.Disconnect(old)
			}
			mustController(t, c, p, tc.claim)
			for range tc.ticks {
				c.Tick([]*Peer{p})
			}
			again := roleRequest(12)
			if tc.then != nil {
				again = tc.then(c, p)
			}
			err := c.FromController(p, again)
			if lost := errors.Is(err, ErrLostLog); lost != tc.lost || !lost && err != nil {
				t.Fatalf("error %v", err)
			}
			if master := c.Master() == p; master != tc.master || tc.live && !master && c.Master() != old {
				t.Errorf("it is master: %t", master)
			}
			if c.Held() != 1 {
				t.Errorf("it holds %d events", c.Held())
			}
			if !tc.lost {
				return
			}
			c.BeginAnew()
			if c.Attachable() || c.Held() != 0 {
				t.Errorf("it holds %d events of the epoch before", c.Held())
			}
			c.Disconnect(p)
			c.SwitchDown(experimenter.ReasonConnectionLost)
			if epoch, err := c.SwitchUp(50, 4, message(4, 6, 0), nil); err != nil || epoch != 101 {
				t.Fatalf("epoch %d, %v", epoch, err)
			}
			term := c.generation
			for _, claimed := range []struct {
				term     uint64
				accepted bool
			}{{term - 1, false}, {term, true}, {term + 1, true}, {term, false}} {
				q := c.Connect()
				mustController(t, c, q, claim(claimed.term, 0, 0))
				if accepted := c.Master() == q; accepted != claimed.accepted {
					t.Errorf("term %d is accepted: %t", claimed.term, accepted)
				}
			}
		})
	}
}

// A refusal counts for as long as the claim is repeated. A leader that was refused and deposed claims no more.
func TestRefusalIsForgotten(t *testing.T) {
	c, old := upCore(t)
	mustController(t, c, old, roleRequest(9))
	p := c.Connect()
	mustController(t, c, p, concat(helloBytes, roleRequest(8)))
	c.Disconnect(old)
	ticks := func(n int) {
		for range n {
			c.Tick([]*Peer{p})
		}
	}
	if ticks(followAfter); p.refused != 8 || c.orphaned != followAfter {
		t.Errorf("the refusal is of term %d, %d ticks count", p.refused, c.orphaned)
	}
	if ticks(followAfter); p.refused != 0 || c.orphaned != followAfter {
		t.Errorf("when it claims no more, the refusal is of term %d, %d ticks count", p.refused, c.orphaned)
	}
	mustController(t, c, p, roleRequest(8))
	if ticks(followAfter); p.refused != 8 || c.orphaned != 2*followAfter {
		t.Errorf("when it claims again, the refusal is of term %d, %d ticks count", p.refused, c.orphaned)
	}
}

// A leader that acknowledged events, and claims again in the same connection, is not taken for one that lacks them.
func TestMasterClaimsAgain(t *testing.T) {
	c, p := upCore(t)
	mustController(t, c, p, concat(eventAck(0, 0), roleRequest(9), eventAck(100, 1), eventAck(90, 4), roleRequest(9)))
	if c.Master() != p {
		t.Error("the master is refused")
	}
}
