package ledger

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

func TestReleaseOnlyAfterCommit(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == Message {
			if xid := tx.Send(2, simCommand("one")); xid>>tagShift != 1 {
				t.Errorf("xid %x", xid)
			}
			tx.Send(2, simCommand("two"))
			if tx.Send(3, simCommand("void")) != 0 {
				t.Error("sent to a switch that is not up")
			}
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.up(2)
	p.commit()
	p.event(1, 1, 2, packetIn("x"))
	if r := p.leader.Releases(); len(r) != 0 {
		t.Errorf("released before commit: %+v", r)
	}
	entry, _ := p.leader.Cut()
	if r := p.leader.Releases(); len(r) != 0 {
		t.Errorf("released before commit: %+v", r)
	}
	p.must(p.leader.Commit(entry))
	p.must(p.follower.Commit(entry))
	r := slices.Clone(p.leader.Releases())
	if len(r) != 2 || r[0].Switch != 1 || r[0].Acked != 2 || r[0].Count != 0 || r[1].Switch != 2 || r[1].First != 1 ||
		r[1].Count != 2 {
		t.Fatalf("released %+v", r)
	}
	if want := append(simCommand("one").Append(nil, 1<<24|1),
		simCommand("two").Append(nil, 1<<24|continues|2)...); !bytes.Equal(r[1].Commands, want) {
		t.Errorf("commands %x, want %x", r[1].Commands, want)
	}

	// A completion is recorded once, checked, and effective after commit.
	if err := p.leader.Done(2, 1, 3); err == nil {
		t.Error("a command that was not sent is done")
	}
	p.must(p.leader.Done(2, 9, 3))
	p.must(p.leader.Done(99, 1, 1))
	p.must(p.leader.Done(2, 1, 1))
	p.must(p.leader.Done(2, 1, 1))
	if r, ok := p.leader.Resume(2); !ok || r.First != 1 || r.Count != 2 {
		t.Errorf("resume %+v %v", r, ok)
	}
	p.commit()
	if got := ops(t, p.entries[len(p.entries)-1]); !slices.Equal(got, []Op{OpDone}) {
		t.Errorf("operations %v", got)
	}
	if r, ok := p.leader.Resume(2); !ok || r.First != 2 || r.Count != 1 || r.Acked != 1 {
		t.Errorf("resume %+v %v", r, ok)
	}
	if _, ok := p.leader.Resume(3); ok {
		t.Error("resume of a switch that nobody knows")
	}
	// The other replica becomes the leader.
	p.must(p.leader.Follow())
	p.must(p.follower.Lead(2, 0))
	if r, ok := p.follower.Resume(2); !ok || r.First != 2 || r.Count != 1 ||
		!bytes.Equal(r.Commands, simCommand("two").Append(nil, 1<<24|continues|2)) {
		t.Errorf("resume at the new leader %+v %v", r, ok)
	}
}

// A later commit may move the bytes of a queue. Releases from before must stay unchanged.
func TestReleasesOfSeveralCommits(t *testing.T) {
	body := string(make([]byte, 30_000))
	n := byte('a')
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		tx.Send(1, simCommand(string(n)+body))
		n++
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	for i := range 4 {
		p.event(1, 1, uint64(2+i), packetIn("x"))
	}
	p.commit() // commands a to e
	p.event(1, 1, 6, packetIn("x"))
	first, _ := p.leader.Cut()
	p.must(p.leader.Done(1, 1, 5))
	second, _ := p.leader.Cut()
	p.must(p.leader.Commit(first))
	p.must(p.leader.Commit(second))
	r := p.leader.Releases()
	if len(r) != 1 || r[0].First != 6 || r[0].Count != 1 || r[0].Commands[8] != 'f' {
		t.Errorf("released from %d, %d commands, %q", r[0].First, r[0].Count, r[0].Commands[8:9])
	}
}

// An acknowledgement of an epoch covers all earlier epochs, so it must not name an epoch that is not committed.
func TestAcknowledgeBeforeNewEpochIsCommitted(t *testing.T) {
	p := newPair(t, Limits{BatchInputs: 2}, &script{name: "a"})
	p.up(1)
	p.commit()
	p.event(1, 1, 2, packetIn("x"))
	first, _ := p.leader.Cut()
	p.event(1, 2, 1, switchUp())
	p.event(1, 1, 1, switchUp()) // sent again after a reconnect
	if r, _ := p.leader.Resume(1); r.Epoch != 1 || r.Acked != 1 {
		t.Errorf("resume %+v", r)
	}
	if r := p.leader.Releases(); len(r) != 1 || r[0].Epoch != 1 || r[0].Acked != 1 {
		t.Errorf("acknowledged %+v", r)
	}
	p.must(p.leader.Commit(first))
	p.must(p.follower.Commit(first))
	if r := p.leader.Releases(); len(r) != 1 || r[0].Epoch != 1 || r[0].Acked != 2 {
		t.Errorf("acknowledged %+v", r)
	}
	if r := p.commit(); len(r) != 1 || r[0].Epoch != 2 || r[0].Acked != 1 {
		t.Errorf("acknowledged %+v", r)
	}
}

func TestStalledSwitchLosesItsEpoch(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == Message {
			tx.Send(1, simCommand("c"))
			tx.Send(2, simCommand("c"))
		}
		return nil
	}}
	for name, limits := range map[string]Limits{"commands": {QueueCommands: 3}, "bytes": {QueueBytes: 25}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, limits, a)
			p.up(1)
			p.up(2)
			for i := range 3 {
				p.event(2, 1, uint64(2+i), packetIn("x"))
				for _, r := range p.commit() {
					if r.Closed {
						t.Error("closed too early")
					}
				}
				p.must(p.leader.Done(2, 1, uint64(1+i))) // switch 2 acknowledges its commands, switch 1 does not
				p.commit()
			}
			a.told = nil
			p.event(2, 1, 5, packetIn("x"))
			wantTold(t, a, "message of switch 0000000000000002", "switch down of switch "+sw1)
			if r, _ := p.leader.Resume(1); r.Closed || p.leader.Settled(1) {
				t.Error("told before it is committed")
			}
			r := p.commit()
			if i := slices.IndexFunc(r, func(r Release) bool { return r.Switch == 1 }); i < 0 || !r[i].Closed ||
				r[i].Count != 0 {
				t.Errorf("released %+v", r)
			}
			if r, _ := p.leader.Resume(1); !r.Closed || r.Count != 0 || !p.leader.Settled(1) {
				t.Errorf("resume %+v", r)
			}
			if err := p.leader.Event(1, 1, 2, packetIn("x")); !errors.Is(err, ErrStaleEpoch) {
				t.Errorf("event of a closed epoch: %v", err)
			}
			p.event(1, 2, 1, switchUp())
			if r := p.commit(); r[0].Closed || r[0].Epoch != 2 {
				t.Errorf("released %+v", r)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	p := newPair(t, Limits{BatchInputs: 2, InFlight: 2}, &script{name: "a"})
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	if p.leader.Room() {
		t.Error("room for a third input")
	}
	var cut [][]byte
	for seq := uint64(3); ; seq++ {
		entry, ok := p.leader.Cut()
		if !ok {
			break
		}
		cut = append(cut, entry)
		p.event(1, 1, seq, packetIn("x"))
	}
	if len(cut) != 2 {
		t.Errorf("%d entries in flight", len(cut))
	}
	if _, err := p.leader.Snapshot(); err == nil || p.leader.Quiet() {
		t.Error("snapshot of what is not committed")
	}
	if err := p.leader.Commit(cut[1]); err == nil {
		t.Error("an entry out of turn is committed")
	}
	p = newPair(t, Limits{BatchBytes: 100}, &script{name: "a"})
	p.up(1)
	p.event(1, 1, 2, packetIn(strings.Repeat("x", 100)))
	if p.leader.Room() {
		t.Error("room beyond 100 bytes")
	}
	if mustNew(t, Limits{}).Room() {
		t.Error("room at a follower")
	}
}

func TestTransactionTooLargeFails(t *testing.T) {
	n := 0
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		for i := range n {
			tx.Put(tx.Table("t"), Key{A: uint64(i)}, Key{}, make([]byte, 100))
		}
		return nil
	}}
	p := newPair(t, Limits{BatchBytes: 100, EntryBytes: 1000}, a, &script{name: "b"})
	p.up(1)
	p.commit()
	n = 20
	p.event(1, 1, 2, packetIn("x"))
	p.commit()
	if f := p.leader.Failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "1000 are possible") {
		t.Errorf("failures %v", f)
	}
	if last := p.entries[len(p.entries)-1]; !slices.Equal(ops(t, last), []Op{OpEvent, OpFailure}) {
		t.Errorf("operations %v", ops(t, last))
	}
	n = 5
	p.event(1, 1, 3, packetIn("x"))
	p.commit()
	if f := p.leader.Failures(); len(f) != 0 {
		t.Errorf("failures %v", f)
	}
}

// What is complete is bounded in an entry like what is executed: all switches together may have more.
func TestCompletionsFillEntries(t *testing.T) {
	limits := Limits{BatchBytes: 500, EntryBytes: 1000}
	a := &script{name: "a", do: func(tx *Tx, in *Input) error { tx.Send(in.Switch, simCommand("c")); return nil }}
	p := newPair(t, limits, a)
	for id := openflow.DatapathID(1); id <= 100; id++ {
		p.up(id)
		p.commit()
	}
	for id := openflow.DatapathID(1); id <= 100; id++ {
		p.must(p.leader.Done(id, 1, 1))
	}
	before := len(p.entries)
	p.commit()
	for _, entry := range p.entries[before:] {
		if len(entry) > limits.EntryBytes+100 {
			t.Errorf("an entry of %d bytes", len(entry))
		}
	}
	for _, sw := range p.follower.Switches() {
		if sw.Done != 1 {
			t.Errorf("%+v", sw)
		}
	}
}

// So is what other groups have taken, of all streams.
func TestAcknowledgementsFillEntries(t *testing.T) {
	const many = 100
	limits := Limits{BatchBytes: 500, EntryBytes: 1000}
	one := &script{name: "one", do: func(tx *Tx, in *Input) error {
		tx.Enter(Shard{})
		tx.Send(in.Switch, simCommand("c"))
		return tx.EmitTo(Actor{"two", Shard{Key: Key{A: in.Seq}}}, "m", nil)
	}}
	g := newGroups(t, limits, one, &script{name: "two"})
	p := g.of[1]
	p.up(1)
	for seq := uint64(2); seq <= many; seq++ {
		if p.event(1, 1, seq, packetIn("p")); !p.leader.Room() {
			p.commit()
		}
	}
	g.take(2, g.sent(1))
	g.take(1, g.sent(2))
	before := len(p.entries)
	p.commit()
	for _, entry := range p.entries[before:] {
		if len(entry) > limits.EntryBytes+100 {
			t.Errorf("an entry of %d bytes", len(entry))
		}
	}
	if s := p.leader.Streams(); len(s) != 1 || s[0].Items > 0 {
		t.Errorf("streams %v", s)
	}
}

func TestCutTransactions(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error { tx.Send(1, simCommand("c")); return nil }}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	p.must(p.leader.Done(1, 1, 1))
	if _, ok := p.leader.CutTransactions(); ok {
		t.Error("what is complete makes an entry by itself")
	}
	p.event(1, 1, 2, packetIn("x"))
	entry, _ := p.leader.CutTransactions()
	if got := ops(t, entry); !slices.Equal(got, []Op{OpEvent, OpCommand, OpDone}) {
		t.Errorf("operations %v", got)
	}
	p.must(p.leader.Commit(entry))
	p.must(p.follower.Commit(entry))
	p.commit()
}

// Commands at the return of a switch may exceed its bound. Its epoch is then closed, and the event that showed its
// return is not executed.
func TestEpochClosesOnReturn(t *testing.T) {
	a := &script{name: "a"}
	a.do = func(tx *Tx, in *Input) error {
		for range 3 {
			tx.Send(1, simCommand("c"))
		}
		return nil
	}
	p := newPair(t, Limits{QueueCommands: 6}, a)
	p.up(1)
	p.leader.Unreachable(1)
	p.commit()
	err := p.leader.Event(1, 1, 2, packetIn("x"))
	if !errors.Is(err, ErrStaleEpoch) {
		t.Errorf("event of an epoch that was closed: %v", err)
	}
	p.commit()
	if got := ops(t, p.entries[len(p.entries)-1]); slices.Contains(got, OpEvent) ||
		!slices.Contains(got, OpCloseEpoch) {
		t.Errorf("operations %v", got)
	}
}
