package controller

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// While a loop hangs, nobody waits for its inbox: the sessions of an agent have one reader, and may be in many groups.
// Items stay in order. What a switch says to have done counts as one item.
func TestInboxNeverWaits(t *testing.T) {
	const n = 5000
	q, sessions := newInbox(), make([]southbound.Session, n)
	one := new(southbound.Session)
	for i := range sessions {
		s := &sessions[i]
		for _, it := range []item{{kind: attach, session: s}, {kind: events, list: []southbound.Delivery{{Session: s}}},
			{kind: commandsDone, session: s, epoch: 1, seq: uint64(i)}} {
			if !q.put(it) {
				t.Fatal("it takes nothing")
			}
		}
	}
	for seq := range uint64(n) {
		q.put(item{kind: commandsDone, session: one, epoch: 2, seq: seq})
		q.put(item{kind: commandsDone, session: one, epoch: 2, seq: seq + 1})
	}
	<-q.wake
	list := slices.Clone(q.take())
	if len(list) != 3*n+1 || len(q.take()) > 0 {
		t.Fatalf("%d items", len(list))
	}
	for i := range sessions {
		s := &sessions[i]
		if x := list[3*i:]; x[0].session != s || x[1].list[0].Session != s || x[2].session != s || x[2].seq != uint64(i) {
			t.Fatalf("switch %d: %+v", i, x[:3])
		}
	}
	if last := list[3*n]; last.epoch != 2 || last.seq != n {
		t.Errorf("%+v", last)
	}
	q.put(item{kind: detach, session: one})
	if rest := q.close(); !slices.ContainsFunc(rest, func(it item) bool { return it.kind == detach }) || len(rest) != 1 {
		t.Errorf("%+v is left", rest)
	}
	if q.put(item{kind: detach, session: one}) {
		t.Error("it takes something when it is closed")
	}
}

// An agent may acknowledge commands as often as it likes, of any epoch, and for two switches in turn. While a loop
// hangs that does not fill the memory, and of each switch the highest acknowledgement of the newest epoch counts.
func TestInboxOfManyAcknowledgements(t *testing.T) {
	const n = 100_000
	q, sessions := newInbox(), make([]southbound.Session, 2)
	for i := range uint64(n) {
		for s := range sessions {
			q.put(item{kind: commandsDone, session: &sessions[s], epoch: 1 + i%7, seq: i / 7})
		}
	}
	list := q.take()
	if len(list) > inboxSize+len(sessions) {
		t.Fatalf("%d items wait", len(list))
	}
	for s := range sessions {
		for i := range list {
			it := &list[len(list)-1-i]
			if it.session != &sessions[s] {
				continue
			}
			if it.epoch != 7 || it.seq != (n-1)/7-1 && it.seq != (n-1)/7 {
				t.Errorf("switch %d has done command %d of epoch %d", s, it.seq, it.epoch)
			}
			break
		}
	}
	for s := range sessions {
		q.put(item{kind: commandsDone, session: &sessions[s], epoch: 8, seq: 2})
		q.put(item{kind: commandsDone, session: &sessions[s], epoch: 8, seq: 1})
	}
	if list = q.take(); len(list) != len(sessions) || list[0].seq != 2 || list[1].seq != 2 {
		t.Errorf("in a short queue: %+v", list)
	}
}

// deaf is the Line of a session that nobody reads.
type deaf struct{ closed atomic.Bool }

func (*deaf) Remote() string             { return "" }
func (*deaf) Now() uint64                { return 1 }
func (*deaf) Write([]byte, uint64) error { return nil }
func (*deaf) Linger(experimenter.Reason) {}
func (l *deaf) Close(error)              { l.closed.Store(true) }

// While a loop hangs, a peer that connects again and again does not fill the memory: its sessions wait. Those that wait
// when the loop is given up are closed.
func TestInboxOfManySessions(t *testing.T) {
	const n, peers = 10 * inboxSize, 8
	g := &group{inbox: newInbox()}
	c := &Controller{}
	c.groups.add(g)
	var came atomic.Int64
	for range peers {
		go func() { // ends with the test
			for range n / peers {
				s := southbound.NewSession(new(deaf))
				handler{c}.Attached(s)
				handler{c}.Detached(s, nil)
				came.Add(1)
			}
		}()
	}
	await.Until(t, "the inbox to be full", func() bool { return came.Load() >= inboxSize/2 })
	time.Sleep(20 * time.Millisecond)
	if waits := len(g.inbox.take()); waits > inboxSize+2*peers {
		t.Errorf("%d items wait", waits)
	}
	await.Until(t, "the inbox to be full again", func() bool { return came.Load() >= inboxSize })
	g.rejectAll()
	await.Until(t, "all sessions to end", func() bool { return came.Load() == n })
}
