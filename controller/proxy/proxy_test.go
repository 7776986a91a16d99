package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// The follower claims the switch when it has applied what the leader has applied, and acknowledges what is in its own
// log. The session waits until its events are executed.
func TestClaimAndEvents(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	b.l.Applied(20)
	_ = r.Claim(3, southbound.Resume{Epoch: 9, Live: true, Events: 4})
	b.pass()
	b.check("claimed before entry 20", len(s.told), 0)
	b.check("serves", b.f.Serves(7), false)
	b.f.Applied(19)
	b.check("claimed at entry 19", len(s.told), 0)
	b.f.Applied(20)
	b.check("at entry 20", s.told, []string{"claim 3 4"})
	b.check("serves", b.f.Serves(7), true)

	results := 0
	b.f.Events(s, batch(5, 2), func(err error) { results++; b.check("error", err, nil) })
	b.pass()
	b.check("events", b.events, []string{"9 5+2"})
	b.check("results before they are executed", results, 0)
	b.executes[0](nil)
	b.pass()
	b.check("results", results, 1)
	b.check("acknowledged before they are in the log", len(s.told), 1)
	b.check("in the log of a proxy", b.f.Logged(7, 9, 5, nil), true)
	b.check("of another switch", b.f.Logged(8, 9, 5, nil), false)
	b.f.Applied(21)
	b.check("after the log", s.told[1:], []string{"logged 5", "ack 9 5"})

	b.f.Events(s, batch(7, 1), func(err error) { b.check("error", err, "gap") })
	b.pass()
	b.executes[1](errors.New("gap"))
	b.f.CommandsDone(s, 9, 3)
	b.pass()
	b.check("done", b.done, []uint64{3})
	b.f.Detached(s)
	b.pass()
	b.check("offers", len(b.offered), 0)
}

// A session that is not in sync delivers nothing: during a claim its numbers may be those of another master.
func TestEventsDuringClaim(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	s.state.InSync = false
	_ = r.Claim(3, southbound.Resume{Epoch: 9})
	b.check("in sync while it is claimed", r.State().InSync, false)
	b.pass()
	done := false
	b.f.Events(s, batch(5, 2), func(error) { done = true })
	b.f.CommandsDone(s, 9, 1)
	b.pass()
	b.check("delivered", fmt.Sprint(b.events, b.done, done), "[] [] true")
	s.state.InSync = true
	b.f.Events(s, batch(5, 2), func(error) {})
	b.pass()
	b.check("in sync, before its events", fmt.Sprint(r.State().InSync, b.events), "true [9 5+2]")
}

// Each end of a claim returns the events to the session, and makes it a standby.
func TestEndOfClaim(t *testing.T) {
	for name, end := range map[string]func(*bench, *Remote){
		"another leader":      func(b *bench, _ *Remote) { b.f.Follow(b.now, 5, 4) },
		"no leader":           func(b *bench, _ *Remote) { b.f.Follow(b.now, 0, 4) },
		"standby":             func(b *bench, r *Remote) { r.Standby(3) },
		"a silent leader":     func(b *bench, _ *Remote) { b.now = b.now.Add(deadAfter + 1); b.f.Tick(b.now) },
		"nothing can be sent": func(b *bench, _ *Remote) { b.down = true; b.tick(beatEvery) },
		"a message is missing": func(b *bench, r *Remote) {
			r.Hold()
			b.toFollow = nil
			b.tick(beatEvery)
			b.tick(beatEvery)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s, r := b.attach(7)
			_ = r.Claim(3, southbound.Resume{})
			b.pass()
			done := 0
			b.f.Events(s, batch(1, 1), func(err error) { done++; b.check("error", err, nil) })
			b.pass()
			end(b, r)
			b.pass()
			b.check("done", done, 1)
			b.check("serves", b.f.Serves(7), false)
			b.check("standby", strings.HasPrefix(s.told[len(s.told)-1], "standby "), true)
			b.executes[0](nil) // late
			b.pass()
			b.check("done", done, 1)
		})
	}
}

// A new link begins when the last one has ended at either end, and the leader uses the session again.
func TestNewLink(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	_ = r.Claim(3, southbound.Resume{})
	b.pass()
	b.now = b.now.Add(deadAfter + 1)
	b.l.Tick(b.now) // the follower was silent
	b.check("offers", len(b.offered), 0)
	for range 3 {
		b.tick(beatEvery)
	}
	b.check("offers", len(b.offered), 1)
	_ = b.offered[0].Claim(3, southbound.Resume{})
	b.pass()
	b.check("told", s.told, "[claim 3 0 standby 3 claim 3 0]")
}

// The log has an event that the session has not numbered, so the leader uses another session. The claim ends with what
// the session has numbered, and the leader can use it again as a new session.
func TestForeignEvents(t *testing.T) {
	for name, told := range map[string]func(*Follower) bool{
		"logged 6":     func(f *Follower) bool { return f.Logged(7, 9, 6, nil) },
		"skipped 8 2":  func(f *Follower) bool { return f.Skipped(7, 9, 8, 2) },
		"skipped 9 -1": func(f *Follower) bool { return f.Skipped(7, 9, 9, southbound.Unknown) },
	} {
		b := newBench(t)
		s, r := b.attach(7)
		_ = r.Claim(3, southbound.Resume{Epoch: 9, Live: true, Events: 4})
		b.pass()
		done := false
		b.f.Events(s, batch(5, 3), func(error) { done = true })
		b.check("of the session", b.f.Logged(7, 9, 5, nil), true)
		s.foreign = true
		b.check("of another session", told(b.f), false)
		b.check("told", s.told, fmt.Sprintf("[claim 3 4 logged 5 %s ack 9 5 standby 3]", name))
		b.check("serves", fmt.Sprint(b.f.Serves(7), done), "false true")
		b.check("to a standby", b.f.Logged(7, 9, 7, nil), false)
		b.f.Applied(20)
		b.pass()
		b.check("offers", len(b.offered), 1)
		s.told = nil
		_ = b.offered[0].Claim(3, southbound.Resume{Epoch: 9, Live: true, Events: 9})
		b.pass()
		r.Standby(3) // of the session that was withdrawn
		b.pass()
		b.check("told", s.told, "[claim 3 9]")
	}
}

// An agent numbers its events itself, so its session compares nothing, and a snapshot acknowledges.
func TestEventsOfAgent(t *testing.T) {
	b := newBench(t)
	s := &fakeSession{id: 7, state: southbound.State{Peer: southbound.Agent, InSync: true}, foreign: true}
	b.f.Attached(s)
	b.pass()
	_ = b.offered[0].Claim(3, southbound.Resume{Epoch: 9, Live: true})
	b.pass()
	b.check("logged", fmt.Sprint(b.f.Logged(7, 9, 1, nil), b.f.Skipped(7, 9, 3, 2),
		b.f.Skipped(7, 9, 8, southbound.Unknown)), "true true true")
	b.f.Applied(5)
	b.check("told", s.told, "[claim 3 0 ack 9 8]")
}

// A follower ignores everybody but the leader of its term, and of him every link but the newest.
func TestDeposedLeader(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	_ = r.Claim(3, southbound.Resume{})
	b.pass()
	r.Hold()
	old := b.toFollow
	b.toFollow = nil
	b.f.Follow(b.now, 5, 4) // a link to member 5
	before := len(s.told)
	for _, p := range old {
		b.f.Receive(b.now, 1, p.payload)
		b.f.Receive(b.now, 5, p.payload)
	}
	b.check("told", len(s.told), before)
	b.l.Term(5)
	b.f.Follow(b.now, 1, 4)
	b.offered = nil
	b.pass()
	b.check("offers in a term that is over", len(b.offered), 0)
}

// Events that have no room wait for those before them.
func TestWindowOfEvents(t *testing.T) {
	b := newBench(t)
	done := 0
	for id := openflow.DatapathID(1); id <= 3; id++ {
		s, r := b.attach(id)
		s.state.Peer = southbound.Agent
		_ = r.Claim(3, southbound.Resume{})
		b.pass()
		e := southbound.Batch{Epoch: 9, First: 1, Count: window / 2 / 8, Messages: echoes(window / 2 / 8)}
		b.f.Events(s, e, func(error) { done++ })
		b.pass()
	}
	b.check("on their way", len(b.events), 2)
	b.executes[0](nil)
	b.pass()
	b.check("on their way", len(b.events), 3)
	b.executes[1](nil)
	b.executes[2](nil)
	b.pass()
	b.check("done", done, 3)
}

// largest is how many commands a transaction has at most. They may be more than half of the window.
const largest = 15

// transactions are commands: n transactions of some commands each.
func transactions(t *rapid.T, n int) (messages []byte, count int) {
	for range n {
		for i := range rapid.SampledFrom([]int{1, 2, 3, largest}).Draw(t, "commands") {
			xid := uint32(count + 1)
			if i > 0 {
				xid |= handshake.ContinuesXID
			}
			size := rapid.SampledFrom([]int{0, 100, 60000}).Draw(t, "size")
			messages = (&of13.EchoRequest{Data: make([]byte, size)}).Append(messages, xid)
			count++
		}
	}
	return messages, count
}

// A claim that waits for its entry ends with its link.
func TestClaimOfBrokenLink(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	other, _ := b.attach(8)
	b.l.Applied(20)
	_ = r.Claim(3, southbound.Resume{})
	b.pass()
	b.down = true
	b.f.Detached(other) // cannot be told
	b.f.Applied(20)
	b.check("told", len(s.told), 0)
	b.check("serves", b.f.Serves(7), false)
}

// A batch that has no room when its claim ends is delivered again after the next claim, and sent once. The next batch
// is done when it is executed itself.
func TestClaimAgainWithoutRoom(t *testing.T) {
	b := newBench(t)
	claimed := func(id openflow.DatapathID) (*fakeSession, *Remote) {
		s, r := b.attach(id)
		_ = r.Claim(3, southbound.Resume{})
		b.pass()
		return s, r
	}
	for id := openflow.DatapathID(1); id <= 2; id++ {
		s, _ := claimed(id)
		b.f.Events(s, batch(1, window/16), func(error) {})
		b.pass()
	}
	q, _ := claimed(3)
	b.f.Events(q, batch(1, 20), func(error) {})
	s, r := claimed(4)
	done := ""
	b.f.Events(s, batch(1, 10), func(error) { done += "a" })
	r.Standby(3)
	b.pass()
	b.check("done when the claim has ended", done, "a")
	_ = r.Claim(3, southbound.Resume{})
	b.pass()
	b.f.Events(s, batch(1, 10), func(error) { done += "b" })
	b.pass()
	b.check("sent before there is room", len(b.events), 2)
	b.executes[0](nil)
	b.tick(beatEvery)
	b.check("sent when there is room", b.events[2:], "[9 1+20 9 1+10]")
	b.executes[3](nil)
	b.pass()
	b.check("done when the batch is executed", done, "ab")
	b.f.Events(s, batch(11, 10), func(error) { done += "c" })
	b.pass()
	b.check("sent", b.events[2:], "[9 1+20 9 1+10 9 11+10]")
	b.check("done", done, "ab")
	b.executes[4](nil)
	b.pass()
	b.check("done at last", done, "abc")
}

// commanded is a session and the commands that it must receive.
type commanded struct {
	s        *fakeSession
	r        *Remote
	messages []byte
	count    int
}

// send sends all of them, as far as there is room.
func (c *commanded) send(t rapid.TB) {
	b := experimenter.Block{Generation: 3, Epoch: 9, First: 1, Count: uint32(c.count)}
	if err := c.r.Send(b, c.messages); err != nil {
		t.Fatal(err)
	}
	if underway := c.r.f.out - c.r.f.taken; underway > window/2+block+largest<<16 {
		t.Fatalf("%d bytes are on their way", underway)
	}
}

// Commands of each session arrive in order and each once, whatever has room, and however often they are sent.
func TestCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		all := map[*Remote]*commanded{}
		var list []*commanded
		resumed := 0
		b.resume = func(r *Remote) {
			if resumed++; resumed > 10_000 {
				t.Fatal("the leader does not stop to resume")
			}
			all[r].send(t)
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "sessions") {
			c := &commanded{}
			c.s, c.r = b.attach(openflow.DatapathID(i + 1))
			c.messages, c.count = transactions(t, rapid.IntRange(1, 40).Draw(t, "transactions"))
			_ = c.r.Claim(3, southbound.Resume{})
			all[c.r], list = c, append(list, c)
		}
		again := rapid.Bool().Draw(t, "again")
		for _, c := range list {
			if c.send(t); again {
				b.pass()
				c.send(t)
			}
		}
		b.pass()
		b.tick(beatEvery) // the follower says what it has handled
		b.tick(beatEvery)
		for _, c := range list {
			if len(c.s.commands) != c.count || strings.Contains(fmt.Sprint(c.s.told), "close") {
				t.Fatalf("%d commands of %d have arrived, %v", len(c.s.commands), c.count, c.s.told)
			}
			if err := c.r.Send(experimenter.Block{Generation: 2, Epoch: 9, First: 1, Count: 1}, echoes(1)); err == nil {
				t.Fatal("commands of an earlier term are accepted")
			}
		}
	})
}

// While one block uses less than half of the window, a block that is larger than the rest of the window is sent too.
func TestLargeTransactions(t *testing.T) {
	b := newBench(t)
	all := map[*Remote]*commanded{}
	resumed := 0
	b.resume = func(r *Remote) {
		if resumed++; resumed > 1000 {
			t.Fatal("the leader does not stop to resume")
		}
		all[r].send(t)
	}
	var list []*commanded
	for i, size := range []int{300 << 10, 300 << 10, 800 << 10} {
		c := &commanded{}
		c.s, c.r = b.attach(openflow.DatapathID(i + 1))
		_ = c.r.Claim(3, southbound.Resume{})
		all[c.r], list = c, append(list, c)
		b.pass()
		for ; len(c.messages) < size; c.count++ {
			xid := uint32(c.count + 1)
			if c.count > 0 {
				xid |= handshake.ContinuesXID
			}
			c.messages = (&of13.EchoRequest{Data: make([]byte, 1000)}).Append(c.messages, xid)
		}
	}
	for _, c := range list {
		c.send(t)
	}
	b.pass()
	b.tick(beatEvery)
	for _, c := range list {
		b.check("commands that arrived", len(c.s.commands), c.count)
	}
}

// A leader refuses and closes sessions that it has not claimed, and the other calls arrive as they are.
func TestCalls(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	r.Refuse(experimenter.ReasonStaleEpoch, 5)
	b.pass()
	_ = r.Claim(3, southbound.Resume{})
	b.pass()
	r.Hold()
	r.Resend()
	r.Close(errors.New("enough"))
	r.Acknowledge(1, 1)
	r.Logged(1, 1, nil)
	r.Skipped(1, 1, 1)
	b.pass()
	b.check("told", s.told, fmt.Sprintf("[refuse %d 5 claim 3 0 hold resend close enough]",
		experimenter.ReasonStaleEpoch))
}

// The leader prefers a session that is in sync, and then the follower with the lowest id.
func TestBest(t *testing.T) {
	b := newBench(t)
	s, r := b.attach(7)
	b.check("too new", b.l.Best(7, b.now.Add(-1)) == nil, true)
	b.check("best", b.l.Best(7, b.now) == r, true)
	other := NewFollower(side{b, 5}, firstVersion)
	other.Follow(b.now, 1, 3)
	second := &fakeSession{id: 7, state: southbound.State{InSync: true}}
	other.Attached(second)
	b.pass()
	b.check("the lowest id", b.l.Best(7, b.now).Member(), 2)
	s.state.InSync = false
	b.tick(beatEvery)
	b.check("in sync", b.l.Best(7, b.now).Member(), 5)
	b.check("another switch", b.l.Best(8, b.now) == nil, true)
}

// A session counts until it is withdrawn, its link ends, or a term begins. Of two at one follower the newer is better.
func TestSessionsOfASwitch(t *testing.T) {
	b := newBench(t)
	old, _ := b.attach(7)
	_, r := b.attach(7)
	b.attach(8)
	b.check("the newer", b.l.Best(7, b.now) == r, true)
	b.check("sessions", fmt.Sprint(b.l.Sessions(7), b.l.Sessions(8), b.l.Sessions(9)), "2 1 0")
	b.f.Detached(old)
	b.pass()
	b.check("sessions that are left", fmt.Sprint(b.l.Sessions(7), b.l.Sessions(8)), "1 1")
	b.down = true
	b.tick(deadAfter)
	b.check("without a link", fmt.Sprint(b.l.Sessions(7), len(b.l.offers)), "0 0")
	b.down = false
	b.tick(beatEvery)
	b.check("on the next link", fmt.Sprint(b.l.Sessions(7), b.l.Sessions(8)), "1 1")
	b.l.Term(4)
	b.check("in the next term", fmt.Sprint(b.l.Sessions(7), b.l.Best(7, b.now) == nil, len(b.l.offers)), "0 true 0")
}
