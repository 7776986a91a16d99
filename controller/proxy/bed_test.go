package proxy

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// fakeSession is a session of a switch at the follower. It records what it is told.
type fakeSession struct {
	id       openflow.DatapathID
	state    southbound.State
	told     []string
	commands []uint64 // sequences, by the rule of a stream: each once, in order
	foreign  bool     // the log has events that it has not numbered
}

func (s *fakeSession) note(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

func (s *fakeSession) Switch() openflow.DatapathID { return s.id }
func (s *fakeSession) State() southbound.State     { return s.state }
func (s *fakeSession) Claim(generation uint64, r southbound.Resume) error {
	s.note("claim %d %d", generation, r.Events)
	return nil
}
func (s *fakeSession) Standby(generation uint64) {
	s.note("standby %d", experimenter.Term(generation))
}
func (s *fakeSession) Send(b experimenter.Block, messages []byte) error {
	for seq := b.First; len(messages) > 0; seq++ {
		if n := uint64(len(s.commands)); seq == n+1 {
			s.commands = append(s.commands, seq)
		} else if seq > n+1 {
			return fmt.Errorf("command %d after %d", seq, n)
		}
		messages = messages[int(messages[2])<<8|int(messages[3]):]
	}
	return nil
}
func (s *fakeSession) Acknowledge(epoch, seq uint64) { s.note("ack %d %d", epoch, seq) }
func (s *fakeSession) Logged(_, seq uint64, _ []byte) bool {
	s.note("logged %d", seq)
	return !s.foreign
}
func (s *fakeSession) Skipped(_, seq uint64, n int) bool {
	s.note("skipped %d %d", seq, n)
	return !s.foreign
}
func (s *fakeSession) Hold()   { s.note("hold") }
func (s *fakeSession) Resend() { s.note("resend") }
func (s *fakeSession) Refuse(r experimenter.Reason, epoch uint64) {
	s.note("refuse %d %d", r, epoch)
}
func (s *fakeSession) Close(err error) { s.note("close %v", err) }

// parcel is a payload on its way.
type parcel struct {
	from    uint64
	payload []byte
}

// bench is a follower, member 2, and a leader, member 1, with the network between them.
type bench struct {
	t        rapid.TB
	now      time.Time
	f        *Follower
	l        *Leader
	toLeader []parcel
	toFollow []parcel
	down     bool // nothing can be sent

	offered  []*Remote // that are not withdrawn
	events   []string
	executes []func(error) // of events that are not executed
	done     []uint64
	resume   func(*Remote)
}

type side struct {
	b    *bench
	self uint64
}

func (s side) SendPayload(member uint64, payload []byte) bool {
	if s.b.down {
		return false
	}
	if member == 1 {
		s.b.toLeader = append(s.b.toLeader, parcel{s.self, payload})
	} else {
		s.b.toFollow = append(s.b.toFollow, parcel{s.self, payload})
	}
	return true
}

func (b *bench) Offered(r *Remote) { b.offered = append(b.offered, r) }
func (b *bench) Withdrawn(r *Remote) {
	b.offered = slices.DeleteFunc(b.offered, func(o *Remote) bool { return o == r })
}
func (b *bench) Events(_ *Remote, batch southbound.Batch, done func(error)) {
	b.events = append(b.events, fmt.Sprintf("%d %d+%d", batch.Epoch, batch.First, batch.Count))
	b.executes = append(b.executes, done)
}
func (b *bench) CommandsDone(_ *Remote, _, seq uint64) { b.done = append(b.done, seq) }
func (b *bench) Resume(r *Remote) {
	if b.resume != nil {
		b.resume(r)
	}
}

func newBench(t rapid.TB) *bench {
	b := &bench{t: t, now: time.Unix(1000, 0)}
	b.f, b.l = NewFollower(side{b, 2}, firstVersion), NewLeader(side{b, 1}, b)
	b.tick(0)
	b.l.Term(3)
	b.f.Follow(b.now, 1, 3)
	return b
}

// pass delivers everything that is on its way.
func (b *bench) pass() {
	for len(b.toLeader)+len(b.toFollow) > 0 {
		up, down := b.toLeader, b.toFollow
		b.toLeader, b.toFollow = nil, nil
		for _, p := range up {
			b.l.Receive(b.now, p.from, p.payload)
		}
		for _, p := range down {
			b.f.Receive(b.now, p.from, p.payload)
		}
	}
}

func (b *bench) tick(d time.Duration) {
	b.now = b.now.Add(d)
	b.f.Tick(b.now)
	b.l.Tick(b.now)
	b.pass()
}

// attach adds a session, and returns it with its remote.
func (b *bench) attach(id openflow.DatapathID) (*fakeSession, *Remote) {
	s := &fakeSession{id: id, state: southbound.State{Peer: southbound.Bundles, InSync: true}}
	b.f.Attached(s)
	b.pass()
	return s, b.offered[len(b.offered)-1]
}

func (b *bench) check(what string, got, want any) {
	b.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		b.t.Fatalf("%s: %s, want %s", what, g, w)
	}
}

func echoes(n int) (b []byte) {
	for i := range n {
		b = (&of13.EchoRequest{}).Append(b, uint32(i))
	}
	return b
}

// batch is n events from a sequence on.
func batch(first uint64, n int) southbound.Batch {
	return southbound.Batch{Epoch: 9, First: first, Count: n, Messages: echoes(n)}
}

func firstVersion(Session) uint64 { return 1 }
