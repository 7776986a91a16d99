package ledger_test

import (
	"bytes"
	"errors"
	"math"
	"slices"

	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

// simNode is a controller.
type simNode struct {
	c        *cluster
	id       int
	core     *Core
	log      *replay.Log
	host     simHost
	applied  int
	skew     int64
	encode   Frozen // encodes the snapshot that is being taken
	frozenAt int
	read     map[string]reading // by application; see compareRows
	frames   []*Frame           // of other groups, not executed yet
	behind   bool               // it leads, and its directory stays behind for a while
}

// step delivers one thing from consensus to the node: an entry, or its role.
func (n *simNode) step() {
	c := n.c
	term, leading := n.core.Leading()
	lost := leading && term != c.term
	switch {
	case lost && (n.applied >= c.barrier || n.foreign() || c.rng.IntN(4) == 0):
		n.must(n.core.Follow())
		n.frames = nil
		n.compare()
	case n.applied < c.committed:
		n.must(n.core.Commit(c.log[n.applied]))
		n.applied++
	case !leading && c.leader == n.id && n.applied >= c.barrier:
		n.must(n.core.Lead(c.term, c.now+n.skew))
		n.behind = c.site != nil && c.rng.IntN(2) == 0
		for _, s := range c.switches {
			n.attached(s)
		}
	}
}

// foreign reports whether the next committed entry is not one of this leader's term.
func (n *simNode) foreign() bool {
	if n.applied >= n.c.committed {
		return false
	}
	term, _ := n.core.Leading()
	h, _ := Walk(n.c.log[n.applied][:HeaderLen(n.c.log[n.applied])], nil)
	return h.Term != term
}

// turn does what the loop of a controller does.
func (n *simNode) turn() {
	term, leading := n.core.Leading()
	if !leading {
		n.passOn()
		return
	}
	n.core.Tick(n.c.now + n.skew)
	n.executeFrames()
	n.core.Moves()
	for _, r := range n.core.Immediate() {
		n.release(r)
	}
	cut := n.core.Cut
	if !n.c.quiet && n.c.rng.IntN(2) == 0 {
		cut = n.core.CutTransactions
	}
	for {
		entry, ok := cut()
		if !ok {
			break
		}
		if term == n.c.term {
			n.c.log = append(n.c.log, entry)
		}
	}
	for _, r := range n.core.Releases() {
		n.release(r)
	}
	for _, id := range n.core.Arrivals() {
		if s := n.c.sw(id); s != nil { // else it has moved on
			n.attached(s)
		}
	}
	if n.c.site != nil {
		n.core.Frames(n.c.site.send)
	}
}

func (n *simNode) release(r Release) {
	if r.BestEffortCount > 0 {
		n.c.released(r)
	}
	s := n.c.sw(r.Switch)
	if s == nil { // it has moved, and what its new leader sends has this, too
		return
	}
	l := &s.links[n.id]
	term := l.claimed
	if r.BestEffortCount > 0 {
		l.toAgent = append(l.toAgent, frame{kind: frameBestEffort, term: term, epoch: r.Epoch,
			data: slices.Clone(r.BestEffort)})
		return
	}
	l.toAgent = append(l.toAgent, frame{kind: frameAck, epoch: r.Epoch, seq: r.Acked})
	if r.Count > 0 {
		l.toAgent = append(l.toAgent, frame{kind: frameCommands, term: term, epoch: r.Epoch, seq: r.First,
			count: r.Count, data: slices.Clone(r.Commands)})
	}
	if r.Closed {
		l.toAgent = append(l.toAgent, frame{kind: frameRefuse, term: term, epoch: r.Epoch})
	}
}

// attached claims a switch that has a connection.
func (n *simNode) attached(s *simSwitch) {
	term, leading := n.core.Leading()
	if !leading || !n.core.Here(s.id) {
		return
	}
	at, _ := n.core.Assignment(Actor{Shard: AtSwitch(s.id)})
	l := &s.links[n.id]
	l.claimed = at.Version<<32 | term
	l.toAgent = append(l.toAgent, frame{kind: frameMaster, term: l.claimed})
	if r, ok := n.core.Resume(s.id); ok {
		n.core.Reachable(s.id, s.epoch)
		n.release(r)
	}
}

// receive accepts a frame of an agent, unless there is no room for it.
func (n *simNode) receive(s *simSwitch, f frame) bool {
	term, leading := n.core.Leading()
	l := &s.links[n.id]
	switch {
	case f.kind == frameRole:
		l.term = f.term
	case !leading || l.term != l.claimed || l.claimed&math.MaxUint32 != term:
	case f.kind == frameDone:
		n.must(n.core.Done(s.id, f.epoch, f.seq))
	case !n.core.Room():
		return false
	default:
		event := n.core.Event
		if (uint64(s.id)+n.c.seed)%3 > 0 {
			event = n.core.EventByDigest
		}
		err := event(s.id, f.epoch, f.seq, f.data)
		if errors.Is(err, ErrStaleEpoch) {
			if n.c.limits.QueueCommands == 0 {
				n.c.fatalf("node %d: %v", n.id, err)
			}
			n.c.stale++
			s.links[n.id].toAgent = append(s.links[n.id].toAgent, frame{kind: frameRefuse, term: l.claimed,
				epoch: f.epoch})
			return true
		}
		if errors.Is(err, ErrMoved) {
			return true
		}
		if errors.Is(err, ErrFull) {
			n.c.site.Full++
			return false
		}
		n.must(err)
	}
	return true
}

// restart is a crash: only a snapshot and the log survive.
func (n *simNode) restart() {
	n.applied = n.c.rng.IntN(n.c.committed + 1)
	if n.c.leader == n.id {
		n.c.elect()
	}
	n.core, n.log = n.c.newCore(n.c.limits, n.id)
	n.encode, n.host, n.frames = nil, simHost{n: n}, nil
	clear(n.read)
	n.must(n.core.Restore(n.c.oracle.snaps[n.applied]))
	for _, s := range n.c.switches {
		s.disconnect(n.id)
	}
}

// compare checks that the state of a replica is exactly what the entries say.
func (n *simNode) compare() {
	n.compareRows()
	if n.encode != nil {
		if !n.c.quiet && n.c.rng.IntN(4) != 0 {
			return // the node continues while its state is frozen
		}
		n.thaw()
	}
	if !n.core.Quiet() {
		return
	}
	if !n.c.quiet && n.c.rng.IntN(4) == 0 {
		encode, err := n.core.Freeze()
		n.must(err)
		n.encode, n.frozenAt = encode, n.applied
		return
	}
	got, err := n.core.Snapshot()
	n.must(err)
	if !bytes.Equal(got, n.c.oracle.snaps[n.applied]) {
		n.c.fatalf("node %d after %d entries differs from what these give:\n got %s\nwant %s", n.id, n.applied,
			Dump(got), Dump(n.c.oracle.snaps[n.applied]))
	}
	sum := n.digest()
	if was, known := n.c.digests[n.applied]; known && was != sum {
		n.c.fatalf("after %d entries node %d has digest %x, and another one has %x of the same state", n.applied, n.id,
			sum, was)
	}
	n.c.digests[n.applied] = sum
}

func (n *simNode) digest() uint64 {
	frozen, err := n.core.Freeze()
	n.must(err)
	_, sum := frozen()
	return sum
}

// thaw ends a snapshot in the background, and checks that it contains the state at its beginning.
func (n *simNode) thaw() {
	data, _ := n.encode()
	n.encode = nil
	again, _ := n.c.newCore(n.c.limits, n.id)
	n.must(again.Restore(data))
	got, err := again.Snapshot()
	n.must(err)
	if !bytes.Equal(got, n.c.oracle.snaps[n.frozenAt]) {
		n.c.fatalf("node %d froze after %d entries and encoded another state:\n got %s\nwant %s", n.id, n.frozenAt,
			Dump(got), Dump(n.c.oracle.snaps[n.frozenAt]))
	}
}

func (n *simNode) must(err error) {
	if err != nil {
		n.c.t.Helper()
		n.c.fatalf("node %d: %v", n.id, err)
	}
}
