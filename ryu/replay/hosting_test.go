package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

func TestFollowsTheLog(t *testing.T) {
	b := begun(t, 3)
	for range 5 {
		b.packets(200, "packet")
		b.settle()
	}
	b.check()
	for _, n := range b.nodes {
		s := n.core.Status()
		if s.State != "running" || s.Generation != 1 || s.Inputs != 1002 || s.Executed != 1002 || s.Logged != 1002 ||
			s.Python != "3.11" || s.Identity != "same" || s.HistoryBytes == 0 {
			t.Errorf("status of controller %d: %+v", n.id, s)
		}
		if n.core.Behind() {
			t.Errorf("controller %d should not lead", n.id)
		}
		if len(n.begun) != 1 {
			t.Errorf("controller %d has begun %d hosts", n.id, len(n.begun))
		}
	}
}

func TestBoundsOfFeeding(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	for b.leader.ledger.Room() {
		b.packets(100, strings.Repeat("x", 100))
		n.turn()
		b.commit()
	}
	for range 3 {
		n.turn()
	}
	h := n.host()
	if len(h.frames) != framesOut {
		t.Fatalf("%d frames are with the host", len(h.frames))
	}
	n.core.given, h.frames, n.core.frames = n.core.executed, nil, nil // as if everything had been committed at once
	n.turn()
	if h.frames[0].count != frameInputs {
		t.Errorf("a frame has %d inputs", h.frames[0].count)
	}
	b.settle()
	if !n.ledger.Room() {
		t.Error("there is no room though nothing waits")
	}
	b.packets(100, strings.Repeat("x", 60_000))
	n.turn()
	b.commit()
	n.turn()
	for _, f := range h.frames {
		if len(f.inputs) > frameBytes+61_000 {
			t.Errorf("a frame has %d inputs, %d bytes", f.count, len(f.inputs))
		}
	}
	b.settle()
	b.check()
}

// The results of a host that are not logged yet are bounded in bytes. At the bound the host gets no inputs until
// they are logged.
func TestBoundOfHeld(t *testing.T) {
	b := begun(t, 2)
	slow, fast := b.nodes[0], b.nodes[1]
	fast.core.bounds.held = 1000
	b.packets(500, "packet")
	for range 20 {
		slow.turn()
		b.commit()
		fast.catchUp(len(b.log))
		fast.turn()
		fast.host().execute()
	}
	if c := fast.core; c.holding < 1000 || c.executed > 300 || len(fast.host().frames) > 0 {
		t.Errorf("%d bytes of %d results are held, %d executed, %d frames are out", c.holding, len(c.held), c.executed,
			len(fast.host().frames))
	}
	b.lead(fast) // the leader has room then
	b.settle()
	b.check()
}

// A follower may be ahead of the log. When it becomes leader, it logs the results that it has, and executes nothing
// again.
func TestTakeover(t *testing.T) {
	b := begun(t, 3)
	old, next := b.nodes[0], b.nodes[1]
	b.packets(100, "packet")
	old.turn()
	b.commit()
	next.catchUp(len(b.log))
	next.turn()
	for range 3 {
		next.host().execute()
		next.turn()
	}
	executed := next.core.executed
	if done := next.replayed.Committed(); executed != done.Input || len(next.core.held) != 100 ||
		done.Result != done.Input-100 {
		t.Fatalf("a follower holds %d results, has executed %d; committed: %+v", len(next.core.held), executed, done)
	}
	old.host().execute() // it has executed the inputs as well, and proposed the results, but they are not committed
	old.turn()
	b.lead(next)
	b.commit()
	next.turn()
	if done := next.replayed.Committed(); done.Result != executed || len(next.core.held) > 0 {
		t.Errorf("after takeover %d results are held; committed: %+v", len(next.core.held), done)
	}
	if len(next.begun) != 1 || len(next.host().frames) > 0 {
		t.Error("the new leader executes again what it had executed")
	}
	b.settle()
	b.check()
	if len(old.begun) != 1 {
		t.Errorf("the old leader's host was begun %d times", len(old.begun))
	}
}

// If a host differs from the log, it is restarted once. If it differs again, the operator is told.
func TestDivergence(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[1]
	n.wrong = true
	b.packets(10, "packet")
	b.step()
	for n.core.unlike == 0 {
		b.step()
	}
	if s := n.core.Status(); s.Diverged != 0 || n.core.rebuild == "" && len(n.begun) != 2 {
		t.Errorf("at the first difference: %+v", s)
	}
	b.settle()
	if s := n.core.Status(); s.Diverged == 0 || !n.core.distrust || !n.core.Behind() || len(n.begun) != 2 ||
		s.State != "running" {
		t.Errorf("after a replay: %+v, %d hosts were begun", s, len(n.begun))
	}
	b.packets(100, "packet")
	b.settle()
	if len(n.begun) != 2 {
		t.Errorf("%d hosts were begun: it is not compared any more", len(n.begun))
	}
	// If this controller has to lead, its results count.
	b.lead(n)
	b.packets(10, "packet")
	b.settle()
	if done := n.replayed.Committed(); done.Result != done.Input {
		t.Errorf("committed: %+v", done)
	}
	if !b.nodes[0].core.distrust {
		t.Error("the other is not told")
	}
	// After the applications begin again, the host is trusted.
	b.nodes[0].wrong, n.wrong = false, false
	n.core.bounds.history = 1
	b.step()
	n.core.bounds.history = usual.history
	b.settle()
	b.check()
}

// A host that differed only once is correct after its replay.
func TestDivergenceOnce(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[1]
	n.wrong = true
	b.packets(10, "packet")
	for n.core.unlike == 0 {
		b.step()
	}
	n.wrong = false
	b.settle()
	if n.core.distrust || n.core.Status().Diverged != 0 || len(n.begun) != 2 {
		t.Errorf("%d hosts were begun; status %+v", len(n.begun), n.core.Status())
	}
	n.core.unlike = 0
	b.check()
}

// A controller that detects a divergence of its host while it becomes leader logs no results of that host.
func TestDivergenceAtTakeover(t *testing.T) {
	b := begun(t, 2)
	old, n := b.nodes[0], b.nodes[1]
	b.packets(100, "packet")
	old.turn()
	b.commit()
	n.catchUp(len(b.log))
	n.turn()
	n.wrong = true
	n.host().execute() // 64 results that differ
	n.host().execute()
	n.wrong = false
	old.turn()
	old.host().execute()
	old.turn() // 64 results are in the log
	b.commit()
	b.lead(n)
	b.settle()
	n.core.unlike = 0
	b.check()
}

func TestOtherApplications(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[1]
	n.identity = "other"
	n.start()
	n.catchUp(len(b.log))
	n.turn()
	if s := n.core.Status(); s.State != "other applications" || n.host() != nil || !n.core.Behind() ||
		s.Identity != "same" {
		t.Errorf("status %+v", s)
	}
	// It becomes leader before the loop has had a turn.
	n.start()
	b.lead(n)
	if n.host() != nil {
		t.Error("it executes old inputs with new applications")
	}
	if _, ok := n.replayed.Committed(), n.core.beginning; !ok {
		t.Error("the applications do not begin")
	}
	b.commit()
	n.turn()
	if s := n.core.Status(); s.Generation != 2 || s.State != "starting" || s.Identity != "other" {
		t.Errorf("status %+v", s)
	}
	if s := b.nodes[0]; s.core.Status().State != "running" {
		t.Errorf("status of the other, which has not heard of it: %+v", s.core.Status())
	}
	b.step()
	if s := b.nodes[0].core.Status(); s.State != "other applications" || b.nodes[0].host() != nil {
		t.Errorf("status of the other: %+v", s)
	}
}

// A beginning that is not committed is undone with the leadership, and the next leader begins.
func TestBeginIsUndone(t *testing.T) {
	b := newBed(t, 2)
	b.lead(b.nodes[0])
	if !b.nodes[0].core.beginning || b.nodes[0].host() != nil {
		t.Fatal("it has begun before that is committed")
	}
	b.lead(b.nodes[1])
	b.lead(b.nodes[0])
	b.lead(b.nodes[0]) // in a later term, without being a follower in between
	b.up()
	b.settle()
	b.check()
	if s := b.nodes[0].core.Status(); s.Generation != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestHistoryIsTooLarge(t *testing.T) {
	b := begun(t, 2)
	b.nodes[0].core.bounds.history = 4000
	b.packets(100, "packet")
	b.settle()
	if s := b.nodes[0].core.Status(); s.Generation < 2 || s.HistoryBytes > 4000 {
		t.Errorf("status %+v", s)
	}
	b.check()
}

// While a snapshot waits for the entries in flight, nothing is given to the ledger.
func TestHold(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	b.packets(10, "packet")
	n.turn()
	b.commit()
	n.turn()
	n.host().execute()
	asked := &answers{}
	n.core.Request(get, asked.done)
	n.turnHolding(true)
	if !n.ledger.Quiet() || len(n.proposed) > 0 {
		t.Error("something is executed though it holds")
	}
	n.core.death = death{input: 15, times: 2}
	n.core.bounds.history = 1
	n.turnHolding(true)
	n.core.death, n.core.bounds = death{}, usual
	if !n.ledger.Quiet() {
		t.Error("something is left out, or begins, though it holds")
	}
	b.settle()
	b.check()
	asked.want(t, "13")
}

// A snapshot that is ahead of the host contains the inputs that it lacks. If its history begins after the host's
// position, the host is restarted.
func TestSnapshot(t *testing.T) {
	b := begun(t, 2)
	n := b.nodes[1]
	b.nodes = b.nodes[:1]
	b.packets(300, "packet")
	b.settle()
	b.restore(n)
	b.nodes = append(b.nodes, n)
	b.settle()
	b.check()
	if len(n.begun) != 1 {
		t.Errorf("%d hosts were begun", len(n.begun))
	}

	b.nodes = b.nodes[:1]
	b.packets(300, "packet")
	b.settle()
	h := b.nodes[0].host()
	state := h.state.bytes()
	b.nodes[0].replayed.Trim(h.state.number, state)
	b.packets(50, "packet")
	b.settle()
	b.restore(n)
	b.nodes = append(b.nodes, n)
	b.settle()
	b.check()
	if len(n.begun) != 2 || n.begun[1].Number != b.nodes[0].core.executed-50 || len(n.begun[1].State) == 0 {
		t.Errorf("begun: %+v", n.begun)
	}
}

// restore replaces the state of a node by a snapshot of the leader.
func (b *bed) restore(n *node) {
	b.t.Helper()
	state, err := b.leader.ledger.Snapshot()
	b.must(err)
	b.must(n.ledger.Restore(state))
	n.applied = len(b.log)
}

// The host of the only controller is dead. In the end there is no room, and everything continues when the host is
// back.
func TestNoRoom(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	n.host().die(End{Reason: "crashed"})
	n.core.again = b.now.Add(time.Hour)
	for n.ledger.Room() {
		b.packets(100, "packet")
		b.step()
	}
	asked := &answers{}
	n.core.Request(get, asked.done)
	b.step()
	asked.want(t)
	b.now = b.now.Add(time.Hour)
	b.settle()
	b.check()
	if len(asked.got) != 1 {
		t.Errorf("answers: %v", asked.got)
	}
}

// Frames of a host that was stopped are ignored.
func TestStrangers(t *testing.T) {
	b := begun(t, 1)
	n := b.nodes[0]
	before := n.core.Status()
	for _, life := range []uint64{0, 99} {
		n.core.Ready(life, wire.Ready{})
		n.core.Results(life, []wire.Result{{Number: 1}})
		n.core.Checkpointed(life, 2, []byte("x"), "")
		n.core.Ended(b.now, life, End{Reason: "hung", Input: 1})
	}
	if after := n.core.Status(); after != before {
		t.Errorf("status %+v, before %+v", after, before)
	}
	n.core.Stop()
	if len(n.lives) > 0 {
		t.Error("a host outlives its owner")
	}
}

// No application of the ledger may have the reserved name.
func TestNameIsTaken(t *testing.T) {
	l, err := ledger.New([]ledger.Application{native{Name}}, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLog(l, "x"); err == nil || !strings.Contains(err.Error(), `"ryu" is there twice`) {
		t.Errorf("a ledger that runs it too: %v", err)
	}
}

// native is an application of the ledger that does nothing.
type native struct{ name string }

func (n native) Name() string                           { return n.name }
func (n native) Handle(*ledger.Tx, *ledger.Input) error { return nil }
