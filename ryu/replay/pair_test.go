package replay

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// replica is a ledger with replayed applications.
type replica struct {
	*ledger.Core
	log *Log
}

// pair is a leader, and a follower that applies every entry that the leader cuts.
type pair struct {
	t                *testing.T
	leader, follower replica
	now              int64
	term             uint64
	entries          [][]byte
}

func newPair(t *testing.T, limits ledger.Limits, identity string, apps ...ledger.Application) *pair {
	t.Helper()
	p := &pair{t: t, leader: newReplica(t, limits, identity, apps...),
		follower: newReplica(t, limits, identity, apps...),
		now:      1000}
	p.lead(p.leader)
	return p
}

func newReplica(t testing.TB, limits ledger.Limits, identity string, apps ...ledger.Application) replica {
	t.Helper()
	c, err := ledger.New(apps, limits)
	if err != nil {
		t.Fatal(err)
	}
	log, err := NewLog(c, identity)
	if err != nil {
		t.Fatal(err)
	}
	return replica{c, log}
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// lead makes a replica the leader of the next term.
func (p *pair) lead(r replica) {
	p.t.Helper()
	p.term++
	p.leader = r
	p.must(r.Lead(p.term, p.now))
}

func (p *pair) event(id openflow.DatapathID, epoch, seq uint64, msg []byte) {
	p.t.Helper()
	p.must(p.leader.Event(id, epoch, seq, msg))
}

// up begins epoch 1 of a switch.
func (p *pair) up(id openflow.DatapathID) { p.t.Helper(); p.event(id, 1, 1, switchUp()) }

// commit cuts and commits everything that waits, checks that both replicas are equal, and returns the releases.
func (p *pair) commit() []ledger.Release {
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
	if p.leader.log.Hosting() != p.follower.log.Hosting() {
		p.t.Fatalf("hosting %+v, at the follower %+v", p.leader.log.Hosting(), p.follower.log.Hosting())
	}
	return p.leader.Releases()
}

func snapshot(t testing.TB, r replica) []byte {
	t.Helper()
	b, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dump(snapshot []byte) (s string) {
	h, err := ledger.Walk(snapshot, func(r *ledger.Record) error {
		line := *r
		line.Saved = nil
		s += fmt.Sprintf("\n   %+v %+v", line, r.Saved)
		return nil
	})
	return fmt.Sprintf("%+v %v%s", h, err, s)
}

// script is an application of the ledger whose behaviour the test sets.
type script struct {
	name string
	do   func(tx *ledger.Tx, in *ledger.Input) error
}

func (s *script) Name() string { return s.name }
func (s *script) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if s.do == nil {
		return nil
	}
	return s.do(tx, in)
}

// flooder returns an application that sends n commands to a switch for a packet that asks for it.
func flooder(n int) *script {
	return &script{name: "native", do: func(tx *ledger.Tx, in *ledger.Input) error {
		for range n {
			if bytes.HasSuffix(in.Message, []byte("flood")) {
				tx.Send(in.Switch, &of13.BarrierRequest{})
			}
		}
		return nil
	}}
}

func switchUp() []byte {
	return experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
}
func switchDown() []byte {
	return experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent)
}

func msg(typ uint8, xid uint32, body string) []byte {
	b := append(openflow.AppendHeader(nil, openflow.Version13, typ, xid), body...)
	openflow.SetLength(b)
	return b
}

func packetIn(body string) []byte { return msg(of13.TypePacketIn, 0, body) }

// answer is a BARRIER_REPLY to a command of an application.
func answer(tag message.Tag, xid uint32) []byte {
	return msg(of13.TypeBarrierReply, tag.XID()|xid, "x")
}

// bodies returns the bodies of messages.
func bodies(t *testing.T, msgs []byte) (list []string) {
	t.Helper()
	for len(msgs) > 0 {
		m, rest, err := openflow.Next(msgs)
		if err != nil || m == nil {
			t.Fatalf("%d bytes are no messages: %v", len(msgs), err)
		}
		list, msgs = append(list, string(m[openflow.HeaderLen:])), rest
	}
	return list
}
