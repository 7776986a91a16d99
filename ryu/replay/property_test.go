package replay

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Whatever happens to three controllers and their hosts, the log contains one result for each input in the end,
// equal to those of a single host that never fails, and all hosts have its state.
func TestAsIfOneHostRan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(t, 3)
		b.deadly = holds("poison")
		for _, n := range b.nodes {
			n.core.bounds = drawnBounds(t)
		}
		b.lead(b.nodes[0])
		b.up()
		r := &random{t: t, bed: b, snapshots: map[int][]byte{}}
		t.Repeat(map[string]func(*rapid.T){
			"":         func(*rapid.T) {},
			"events":   r.events,
			"request":  r.request,
			"turn":     r.turn,
			"execute":  r.execute,
			"commit":   r.commit,
			"settle":   r.settle,
			"lead":     r.lead,
			"die":      r.die,
			"restart":  r.restart,
			"snapshot": r.snapshot,
		})
		b.settle()
		b.settle()
		b.check()
		if r.asked != r.answered {
			t.Fatalf("%d requests, %d of them got an answer or an error", r.asked, r.answered)
		}
	})
}

func drawnBounds(t *rapid.T) bounds {
	return bounds{
		held: rapid.SampledFrom([]int{500, usual.held}).Draw(t, "held"), history: usual.history,
		checkpointEvery: rapid.SampledFrom([]uint64{50, usual.checkpointEvery}).Draw(t, "every"), proofInputs: 20,
	}
}

// random makes random things happen.
type random struct {
	t *rapid.T
	*bed
	snapshots       map[int][]byte // by the number of entries in them
	asked, answered int
}

func (r *random) node(t *rapid.T) *node { return rapid.SampledFrom(r.nodes).Draw(t, "node") }

func (r *random) events(t *rapid.T) {
	if !r.leader.ledger.Room() {
		return
	}
	if r.bed.events == 0 {
		r.up()
	}
	if rapid.IntRange(0, 19).Draw(t, "poison") == 0 {
		r.packets(1, "poison")
	}
	r.packets(rapid.IntRange(1, 100).Draw(t, "count"), "packet")
}

func (r *random) request(*rapid.T) {
	r.asked++
	once := false
	r.leader.core.Request(get, func(wire.Answer, error) {
		if once {
			r.t.Fatal("a request is answered twice")
		}
		once = true
		r.answered++
	})
}

func (r *random) turn(t *rapid.T) {
	r.now = r.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "ms")) * time.Millisecond)
	n := r.node(t)
	n.catchUp(rapid.IntRange(n.applied, len(r.log)).Draw(t, "applied"))
	n.turnHolding(rapid.Bool().Draw(t, "hold"))
}

func (r *random) execute(t *rapid.T) {
	n := r.node(t)
	for _, life := range n.sorted() {
		if h := n.lives[life]; h != nil && rapid.Bool().Draw(t, "this") {
			h.execute()
		}
	}
}

func (r *random) commit(*rapid.T) { r.bed.commit() }

func (r *random) settle(*rapid.T) {
	for range 5 {
		r.step()
	}
}

func (r *random) lead(t *rapid.T) {
	// The proposals of the old leader may be committed all the same.
	n := rapid.IntRange(0, len(r.leader.proposed)).Draw(t, "committed")
	r.log = append(r.log, r.leader.proposed[:n]...)
	r.leader.proposed = nil
	r.leader.catchUp(len(r.log))
	r.bed.lead(r.node(t))
}

// die makes a host crash or hang, which has the same effect.
func (r *random) die(t *rapid.T) {
	n := r.node(t)
	lives := n.sorted()
	if len(lives) == 0 {
		return
	}
	h := n.lives[rapid.SampledFrom(lives).Draw(t, "life")]
	e := End{Reason: "crashed"}
	if len(h.frames) > 0 {
		if e.Input = h.state.number + 1; h.frames[0].count == 0 {
			e.Checkpoint = true
		}
	}
	h.die(e)
}

// restart kills a process, with its host and its proposals.
func (r *random) restart(t *rapid.T) {
	n := r.node(t)
	bounds := n.core.bounds
	if n == r.leader {
		r.leader = nil
	}
	n.core.Stop()
	n.start()
	n.core.bounds = bounds
	for to, state := range r.snapshots {
		if to > n.applied && rapid.Bool().Draw(t, "from snapshot") {
			r.must(n.ledger.Restore(state))
			n.applied = to
		}
	}
	if r.leader == nil {
		r.bed.lead(r.nodes[(n.id+1)%len(r.nodes)])
	}
}

func (r *random) snapshot(t *rapid.T) {
	n := r.node(t)
	if n == r.leader || !n.ledger.Quiet() {
		return
	}
	state, err := n.ledger.Snapshot()
	r.must(err)
	clear(r.snapshots)
	r.snapshots[n.applied] = state
}
