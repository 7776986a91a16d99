package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// pair is a leader, member 1 in term 3, and a follower, member 2, which receives each entry a moment later.
type pair struct {
	t    *testing.T
	l, f *stand
	sent []func() // payloads on their way
}

func newPair(t *testing.T) *pair {
	names := map[uint64]string{1: "c1", 2: "c2"}
	p := &pair{t: t, l: newStand(t, CoreConfig{ID: 1, Names: names}), f: newStand(t, CoreConfig{ID: 2, Names: names})}
	to := func(s *stand, from uint64) func(uint64, []byte) bool {
		return func(_ uint64, payload []byte) bool {
			p.sent = append(p.sent, func() { s.core.Payload(s.now, from, payload) })
			return true
		}
	}
	p.l.send, p.f.send = to(p.f, 1), to(p.l, 2)
	p.f.term = 3
	p.f.ok(p.f.core.Update(p.f.now, consensus.Update{Role: &consensus.Role{Term: 3, Leader: 1}}))
	p.l.lead(3)
	p.pass(time.Millisecond)
	return p
}

// arrive delivers the payloads that are on their way, and not those that are sent because of them.
func (p *pair) arrive() {
	sent := p.sent
	p.sent = nil
	for _, deliver := range sent {
		deliver()
	}
}

// execute delivers all payloads. The leader executes their events, and nothing is committed.
func (p *pair) execute() {
	for len(p.sent) > 0 {
		p.arrive()
		p.l.turn()
	}
}

// pass lets time go by: payloads arrive, what is proposed is committed, and then applied by the follower.
func (p *pair) pass(d time.Duration) {
	p.t.Helper()
	for _, s := range []*stand{p.l, p.f} {
		s.now = s.now.Add(d)
		s.ok(s.core.Tick(s.now))
	}
	for range 10 {
		p.arrive()
		p.l.turn()
		p.f.turn()
		entries := p.l.proposed
		p.l.commit()
		p.f.ok(p.f.deliver(entries...))
	}
}

// A switch that is connected to the follower only is served through it, after a while. Its events are acknowledged
// there when they are in the log of the follower.
func TestProxy(t *testing.T) {
	p := newPair(t)
	s := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay - 2*time.Millisecond)
	p.f.said()
	p.pass(pathEvery)
	p.f.said("1: master in 3")
	s.events(5, 1, switchUp, packetIn)
	p.pass(time.Millisecond)
	p.f.said("1: ack 5/2", "1: taken", "1: commands 5/1-1 in 3")
	p.l.said()
	p.f.core.CommandsDone(s, 5, 1)
	p.pass(time.Millisecond)
	p.pass(time.Millisecond)
	leader, follower := p.l.core.Status().Switches[0], p.f.core.Status().Switches[0]
	if leader.CommandsDone != 1 || leader.Role != "master" || leader.Via != "c2" || leader.Why == "" ||
		follower.Role != "proxy" {
		t.Errorf("at the leader %+v, at the follower %+v", leader, follower)
	}
	p.l.present = consensus.Present{Controllers: []uint64{1, 2}, Voters: []uint64{1, 2},
		Names: map[uint64]string{2: "joined"}}
	p.pass(time.Millisecond)
	if st := p.l.core.Status().Switches[0]; st.Via != "joined" {
		t.Errorf("through a controller that has joined: %+v", st)
	}
	p.f.core.Detached(p.f.now, s)
	p.pass(time.Millisecond)
	if st := p.l.core.Status().Switches[0]; st.Role != "none" || st.Via != "" {
		t.Errorf("without a session %+v", st)
	}
}

// The session of the leader has precedence. An agent's replaces a proxy at once, and one of a switch without an agent
// when it is in sync: until then it is told what is logged.
func TestSpare(t *testing.T) {
	for _, peer := range []southbound.Peer{southbound.Agent, southbound.Bundles} {
		t.Run(peer.String(), func(t *testing.T) {
			p := newPair(t)
			far := p.f.fake(1, peer, 5)
			p.f.core.Attached(far)
			p.pass(time.Millisecond)
			p.pass(pathDelay + pathEvery)
			far.events(5, 1, switchUp)
			p.pass(time.Millisecond)
			p.f.trace, p.l.trace = nil, nil

			near := p.l.fake(1, peer, 5)
			near.st.InSync = peer == southbound.Agent
			p.l.core.Attached(near)
			p.pass(pathEvery)
			claimed := slices.Contains(p.l.trace, "1: master in 3, path 1")
			if claimed != (peer == southbound.Agent) {
				t.Errorf("the session of the leader, in sync %t, was told %q", near.st.InSync, p.l.trace)
			}
			if peer == southbound.Bundles {
				far.events(5, 2, packetIn)
				p.pass(time.Millisecond)
				if near.logged != 1 {
					t.Errorf("one event was logged, and the spare was told of %d", near.logged)
				}
			}
			near.st.InSync = true
			p.pass(pathEvery)
			if !slices.Contains(p.l.trace, "1: master in 3, path 1") {
				t.Errorf("in sync, it was told %q", p.l.trace)
			}
			p.f.trace = nil
			far.events(5, 3, packetIn)
			p.pass(time.Millisecond)
			p.f.said("1: taken") // and not executed
			near.events(5, 2, packetIn, packetIn)
			p.pass(time.Millisecond)
			if st := p.l.core.Status().Switches[0]; st.EventsLogged != 3 || st.Via != "" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Each change of the path makes the next claim newer for the switch, so a claim on the path before is refused if it
// arrives late. Sessions of one controller are one path, and a new leader begins anew.
func TestGenerations(t *testing.T) {
	p := newPair(t)
	claims := func(s *stand, want string) {
		t.Helper()
		p.pass(time.Millisecond)
		p.pass(pathDelay + pathEvery)
		if len(s.trace) == 0 || s.trace[len(s.trace)-1] != want {
			t.Errorf("a session was told %q, want %q", s.trace, want)
		}
		s.trace = nil
	}
	near := p.l.attached(1, 5)
	claims(p.l, "1: master in 3")
	p.l.core.Detached(p.l.now, near)
	near = p.l.attached(1, 5)
	claims(p.l, "1: master in 3")
	p.l.core.Detached(p.l.now, near)
	p.f.attached(1, 5)
	claims(p.f, "1: master in 3, path 1")
	p.l.attached(1, 5)
	claims(p.l, "1: master in 3, path 2")
	p.l.attached(2, 5)
	claims(p.l, "2: master in 3")
	p.l.lead(4)
	if !slices.Contains(p.l.trace, "1: master in 4") {
		t.Errorf("in the next term it was told %q", p.l.trace)
	}
}

// An agent that was silent is reached through a follower at once, and one whose connection broke after a moment in
// which it can connect again. When the agent is back at the leader, it is used again: after a while if it was silent,
// and after twice the while if it was silent again.
func TestLostChannel(t *testing.T) {
	p := newPair(t)
	p.f.attached(1, 5)
	near := p.l.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay)
	lose := func(silent bool, after time.Duration, path int) {
		t.Helper()
		p.l.trace, p.f.trace = nil, nil
		near.st.Silent = silent
		p.l.core.Detached(p.l.now, near)
		if after > 0 {
			p.pass(after - time.Millisecond)
			p.f.said()
		}
		p.pass(pathEvery)
		p.f.said(fmt.Sprintf("1: master in 3, path %d", path))
	}
	back := func(after time.Duration, path int) {
		t.Helper()
		near = p.l.attached(1, 5)
		p.pass(time.Millisecond)
		if after > 0 {
			p.pass(after - time.Millisecond)
			p.l.said()
		}
		p.pass(pathEvery)
		p.l.said(fmt.Sprintf("1: master in 3, path %d", path))
	}
	lose(true, 0, 1)
	back(holdFirst, 2)
	lose(false, agentDelay, 3)
	back(holdFirst, 4)
	lose(true, 0, 5)
	back(2*holdFirst, 6)
	for _, s := range []*stand{p.l, p.f} {
		s.now = s.now.Add(holdForget)
	}
	lose(false, agentDelay, 7)
	back(0, 8)
}

// A new leader uses a proxy at once, and the one before is not heard any more.
func TestProxyOfNextLeader(t *testing.T) {
	p := newPair(t)
	s := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	s.events(5, 1, switchUp)
	p.pass(time.Millisecond)
	p.f.trace = nil
	s.events(5, 2, packetIn) // is on its way when the leader changes
	p.f.term = 4
	p.f.ok(p.f.core.Update(p.f.now, consensus.Update{Role: &consensus.Role{Term: 4}}))
	p.f.said("1: taken")
	p.sent = nil
	p.f.ok(p.f.core.Update(p.f.now, consensus.Update{Role: &consensus.Role{Term: 4, Leader: 1}}))
	p.l.follow(4)
	p.l.lead(4)
	p.pass(time.Millisecond)
	p.pass(pathEvery)
	p.f.said("1: master in 4")
	s.events(5, 2, packetIn)
	p.pass(time.Millisecond)
	p.f.said("1: ack 5/2", "1: taken", "1: commands 5/1-1 in 4")
}

// A leader that stops does not end the sessions at followers. They keep their events for the next leader.
func TestStopWithProxy(t *testing.T) {
	p := newPair(t)
	s := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	p.f.trace = nil
	s.events(5, 1, switchUp)
	p.arrive()
	p.l.core.Stop() // the event is not executed
	p.arrive()
	p.f.said()
	p.f.term = 4
	p.f.ok(p.f.core.Update(p.f.now, consensus.Update{Role: &consensus.Role{Term: 4}}))
	p.f.said("1: taken")
}

// A follower that stops does not wait for a leader to execute what its sessions have delivered: there may be none.
func TestStopOfFollowerWithProxy(t *testing.T) {
	p := newPair(t)
	s := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	p.f.trace = nil
	s.events(5, 1, switchUp)
	p.f.said()
	p.f.core.Stop()
	p.f.said("1: not taken, " + errClosing.Error())
}

// A new path is claimed when everything that was delivered is committed, because the sessions of a switch may number
// its next events differently.
func TestPathIsClaimedWhenSettled(t *testing.T) {
	p := newPair(t)
	far := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	far.events(5, 1, switchUp)
	p.pass(time.Millisecond)
	far.events(5, 2, packetIn)
	p.execute()
	near := p.l.attached(1, 5)
	for range 3 {
		p.l.pass(pathEvery)
	}
	if p.l.said(); near.sent > 0 {
		t.Error("it received commands before it was claimed")
	}
	p.l.commit()
	p.l.pass(pathEvery)
	p.l.said("1: ack 5/2", "1: master in 3, path 1", "1: ack 5/2", "1: commands 5/1-1 in 3, path 1")
}

// The same holds for a session of the leader that begins when the proxy has ended.
func TestSessionAfterProxyIsClaimedWhenSettled(t *testing.T) {
	p := newPair(t)
	far := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	far.events(5, 1, switchUp)
	p.execute()
	p.f.core.Detached(p.f.now, far)
	p.execute()
	p.l.attached(1, 5)
	p.l.pass(pathEvery)
	p.l.said()
	p.l.commit()
	p.l.pass(pathEvery)
	if !slices.Contains(p.l.trace, "1: master in 3, path 1") {
		t.Errorf("when the event is committed, the session was told %q", p.l.trace)
	}
}

// Events that wait for room in the ledger count as well, for example the end of the epoch that the last session of the
// switch delivered.
func TestSessionIsClaimedWhenNothingWaits(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 1, InFlight: 1}})
	s.lead(3)
	one, two := s.up(1, 5), s.up(2, 5)
	two.events(5, 2, packetIn, packetIn)
	s.turn()
	s.turn()
	one.events(5, 2, packetIn)
	s.turn()
	s.core.Detached(s.now, one)
	s.attached(1, 5)
	s.pass(pathEvery)
	s.said("2: taken") // one event is proposed, one is executed, and that of switch 1 waits
	for range 4 {
		s.commit()
		s.pass(pathEvery)
	}
	taken, master := slices.Index(s.trace, "1: taken"), slices.Index(s.trace, "1: master in 3")
	if taken < 0 || master < taken {
		t.Errorf("sessions were told %q", s.trace)
	}
}

// A snapshot acknowledges at a proxy what it contains of an agent. Otherwise the session would deliver that again.
func TestProxyWithSnapshot(t *testing.T) {
	p := newPair(t)
	s := p.f.attached(1, 5)
	p.pass(time.Millisecond)
	p.pass(pathDelay + pathEvery)
	s.events(5, 1, switchUp, packetIn)
	for len(p.sent) > 0 { // the entry does not arrive at the follower, but a snapshot
		sent := p.sent
		p.sent = nil
		for _, deliver := range sent {
			deliver()
		}
		p.l.turn()
		p.l.commit()
	}
	p.l.settle()
	state, err := p.l.core.Ledger().Snapshot()
	p.l.ok(err)
	p.f.trace = nil
	p.f.ok(p.f.core.Update(p.f.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: p.l.index, Term: 3,
		State: state}}))
	p.f.said("1: ack 5/2")
	if !p.f.core.follower.Serves(1) {
		t.Error("the claim has ended")
	}
}
