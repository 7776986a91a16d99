package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// script is an application whose behaviour the test sets. It records its inputs.
type script struct {
	name string
	do   func(tx *Tx, in *Input) error
	told []string
}

func (s *script) Name() string { return s.name }
func (s *script) Handle(tx *Tx, in *Input) error {
	s.told = append(s.told, in.String())
	if s.do == nil {
		return nil
	}
	return s.do(tx, in)
}

// pair is a leader, and a follower that applies every entry that the leader cuts.
type pair struct {
	t                *testing.T
	leader, follower *Core
	now              int64
	entries          [][]byte
}

func newPair(t *testing.T, limits Limits, apps ...Application) *pair {
	t.Helper()
	p := &pair{t: t, leader: mustNew(t, limits, apps...), follower: mustNew(t, limits, apps...), now: 1000}
	p.must(p.leader.Lead(1, p.now))
	return p
}

func mustNew(t *testing.T, limits Limits, apps ...Application) *Core {
	t.Helper()
	c, err := New(apps, limits)
	if err != nil {
		t.Fatal(err)
	}
	c.Instrument(testClock())
	return c
}

// testClock returns a clock that advances by 1 µs each time it is read.
func testClock() func() time.Duration {
	now := time.Duration(0)
	return func() time.Duration { now += time.Microsecond; return now }
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) event(id openflow.DatapathID, epoch, seq uint64, msg []byte) {
	p.t.Helper()
	p.must(p.leader.Event(id, epoch, seq, msg))
}

// up begins epoch 1 of a switch.
func (p *pair) up(id openflow.DatapathID) { p.t.Helper(); p.event(id, 1, 1, switchUp()) }

// commit cuts and commits everything that waits, checks that both replicas are equal, and returns the releases.
func (p *pair) commit() []Release {
	p.t.Helper()
	for {
		entry, ok := p.leader.Cut()
		if !ok {
			break
		}
		p.must(p.leader.Commit(entry))
		p.must(p.follower.Commit(entry))
		p.entries = append(p.entries, entry)
	}
	if got, want := snapshot(p.t, p.leader), snapshot(p.t, p.follower); !bytes.Equal(got, want) {
		p.t.Fatalf("leader and follower differ:\n%s\n%s", dump(got), dump(want))
	}
	return p.leader.Releases()
}

func snapshot(t *testing.T, c *Core) []byte {
	t.Helper()
	b, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func switchUp() []byte {
	return experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
}
func switchDown() []byte {
	return experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent)
}

func newMessage(typ uint8, xid uint32, body string) []byte {
	msg := append(openflow.AppendHeader(nil, openflow.Version13, typ, xid), body...)
	openflow.SetLength(msg)
	return msg
}

func packetIn(body string) []byte { return newMessage(of13.TypePacketIn, 0, body) }

// ops names the operations of an entry.
func ops(t *testing.T, entry []byte) (list []Op) {
	t.Helper()
	if _, err := Walk(entry, func(r *Record) error { list = append(list, r.Op); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func wantTold(t *testing.T, s *script, want ...string) {
	t.Helper()
	if !slices.Equal(s.told, want) {
		t.Errorf("%s was told\n %q, want\n %q", s.name, s.told, want)
	}
	s.told = nil
}

// The xids of commands.
const (
	tagShift  = 24
	continues = message.Continues
)

const sw1 = "0000000000000001"

// relaxed is an application with weaker levels.
type relaxed struct {
	Application
	Levels map[uint8]Level
}

func (r relaxed) Shard(table string, cell Key) Shard {
	if s, is := r.Application.(Sharder); is {
		return s.Shard(table, cell)
	}
	return Shard{}
}

func (r relaxed) Level(typ uint8) (Level, bool) { return r.Levels[typ], true }

type simCommand string

func (m simCommand) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(openflow.AppendHeader(dst, openflow.Version13, of13.TypePacketOut, xid), m...)
	openflow.SetLength(dst[n:])
	return dst
}

type panics struct{}

func (panics) Append([]byte, uint32) []byte { panic("cannot encode") }

func dump(snapshot []byte) (s string) {
	h, err := Walk(snapshot, func(r *Record) error {
		line := *r
		line.Saved = nil
		s += fmt.Sprintf("\n   %+v %+v", line, r.Saved)
		return nil
	})
	return fmt.Sprintf("%+v %v%s", h, err, s)
}

func headerLen(data []byte) int {
	d := decoder{b: data}
	d.header()
	return len(data) - len(d.b)
}
