package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// briefly delivers an event, of which the log needs only the digest, to the leader.
func (p *pair) briefly(id openflow.DatapathID, epoch, seq uint64, msg []byte) {
	p.t.Helper()
	p.must(p.leader.EventByDigest(id, epoch, seq, msg))
}

// lastEvent returns the latest event in the log.
func (p *pair) lastEvent() (last Record) {
	p.t.Helper()
	p.commit()
	_, err := Walk(p.entries[len(p.entries)-1], func(r *Record) error {
		if r.Op == OpEvent || r.Op == OpSeen {
			last = *r
		}
		return nil
	})
	p.must(err)
	return last
}

// Which events are logged with their bytes.
func TestWhoseBytesAreLogged(t *testing.T) {
	at := func(levels ...Level) (list []Application) {
		for i, l := range levels {
			list = append(list, relaxed{&script{name: fmt.Sprint("app", i)},
				map[uint8]Level{of13.TypePacketIn: l, of13.TypeBarrierReply: l}})
		}
		return list
	}
	answer := func(app uint32) []byte { return newMessage(of13.TypeBarrierReply, app<<tagShift|1, "x") }
	for _, tc := range []struct {
		name  string
		apps  []Application
		msg   []byte
		event func(c *Core, id openflow.DatapathID, epoch, seq uint64, msg []byte) error
		whole bool
	}{
		{"nobody reads it", at(ExactlyOnce), packetIn("x"), (*Core).EventByDigest, false},
		{"no application", nil, packetIn("x"), (*Core).EventByDigest, false},
		{"an observer", at(ExactlyOnce), packetIn("x"), (*Core).Event, true},
		{"reliable", at(Reliable), packetIn("x"), (*Core).EventByDigest, true},
		{"ordered", at(Ordered), packetIn("x"), (*Core).EventByDigest, true},
		{"reliable for one", at(Reliable, ExactlyOnce), packetIn("x"), (*Core).EventByDigest, true},
		{"unordered for one", at(Unordered, ExactlyOnce), packetIn("x"), (*Core).EventByDigest, false},
		{"reliable who asked", at(Reliable, ExactlyOnce), answer(1), (*Core).EventByDigest, true},
		{"reliable who did not ask", at(Reliable, ExactlyOnce), answer(2), (*Core).EventByDigest, false},
		{"sync marker", nil, experimenter.SyncMarker{}.Append(nil, openflow.Version13), (*Core).EventByDigest, true},
		{"end of an epoch", nil, switchDown(), (*Core).EventByDigest, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t, Limits{}, tc.apps...)
			p.briefly(1, 1, 1, switchUp())
			if got := p.lastEvent(); got.Op != OpEvent || !bytes.Equal(got.Bytes, switchUp()) {
				t.Errorf("the log has of the beginning of an epoch: %+v", got)
			}
			p.must(tc.event(p.leader, 1, 1, 2, tc.msg))
			want := Record{Op: OpSeen, Type: tc.msg[1], Switch: 1, Epoch: 1, Seq: 2, Asynchronous: 1,
				Digest: digest.Of(tc.msg)}
			if tc.whole {
				want = Record{Op: OpEvent, Switch: 1, Epoch: 1, Seq: 2, Bytes: tc.msg}
			} else if tc.msg[1] != of13.TypePacketIn {
				want.Asynchronous = 0
			}
			if got := p.lastEvent(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the log has %+v\n want %+v", got, want)
			}
		})
	}
}

// Equal events give equal states and commands, whether they are logged with their bytes or by digest. The log with
// digests is shorter.
func TestDigestsChangeNothingElse(t *testing.T) {
	run := func(event func(p *pair, id openflow.DatapathID, epoch, seq uint64, msg []byte)) (*pair, [][]byte) {
		p := newPair(t, Limits{}, &script{name: "a", do: everything})
		event(p, 1, 1, 1, switchUp())
		event(p, 2, 1, 1, switchUp())
		for seq := range uint64(20) {
			event(p, 1+openflow.DatapathID(seq%2), 1, 2+seq/2, packetIn("a packet that is as long as they are"))
		}
		event(p, 2, 1, 12, switchDown())
		var commands [][]byte
		for _, r := range p.commit() {
			commands = append(commands, bytes.Clone(r.Commands))
		}
		return p, commands
	}
	whole, want := run((*pair).event)
	brief, got := run((*pair).briefly)
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("commands\n%q, want\n%q", got, want)
	}
	if a, b := snapshot(t, whole.follower), snapshot(t, brief.follower); !bytes.Equal(a, b) {
		t.Errorf("states\n%s\n%s", dump(a), dump(b))
	}
	if a, b := len(slices.Concat(whole.entries...)), len(slices.Concat(brief.entries...)); b >= a {
		t.Errorf("%d bytes of log with digests, %d with messages", b, a)
	}
	brief.briefly(1, 1, 5, packetIn("again"))
	if r := brief.commit(); len(r) != 1 || r[0].Acked != 11 {
		t.Errorf("a duplicate is answered with %+v", r)
	}
}

// An observer learns how many events were logged by digest, as for skipped events.
func TestObserveSeen(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	var heard []string
	p.follower.Observe(func(id openflow.DatapathID, epoch, seq uint64, _ []byte) {
		heard = append(heard, fmt.Sprint("event ", uint64(id), epoch, seq))
	})
	p.follower.ObserveSkipped(func(id openflow.DatapathID, epoch, seq, asynchronous uint64) {
		heard = append(heard, fmt.Sprint("skipped ", uint64(id), epoch, seq, asynchronous))
	})
	for i, msg := range [][]byte{switchUp(), packetIn("x"), newMessage(of13.TypeBarrierReply, 7, ""), switchDown()} {
		p.briefly(1, 1, uint64(i+1), msg)
	}
	p.commit()
	if want := []string{"event 1 1 1", "skipped 1 1 2 1", "skipped 1 1 3 0", "event 1 1 4"}; !slices.Equal(heard,
		want) {
		t.Errorf("observed %q, want %q", heard, want)
	}
}

// Uncommitted events are undone, whether they are logged with their bytes or by digest.
func TestUndoOfSeen(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a", do: everything})
	p.briefly(1, 1, 1, switchUp())
	p.briefly(1, 1, 2, packetIn("x"))
	p.commit()
	p.briefly(1, 1, 3, packetIn("y"))
	p.leader.Cut()
	p.briefly(1, 1, 4, packetIn("z"))
	p.must(p.leader.Follow())
	if got, want := snapshot(t, p.leader), snapshot(t, p.follower); !bytes.Equal(got, want) {
		t.Fatalf("not everything is undone:\n got %s\nwant %s", dump(got), dump(want))
	}
	p.leader, p.follower = p.follower, p.leader
	p.must(p.leader.Lead(2, p.now))
	p.briefly(1, 1, 3, packetIn("y"))
	p.commit()
}
