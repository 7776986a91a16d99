package consensus

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
)

// starved are cores in virtual time whose processors are taken away now and then. A network and disks take no time.
type starved struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	members []*starvedMember
	now     int // ticks
	leads   int // how often a member was told that it leads
	crowd   int // threads for each processor, as the members see when they ask; 0: they do not ask
}

type starvedMember struct {
	core   *Core
	inbox  []wire.Message // what arrived and was not read
	until  int            // no processor time before
	missed int            // ticks since the last
	role   Role
	lost   int // how often it had no leader
}

const (
	starvedElection = 5
	starvedMost     = 100
	starvedHold     = 300
)

// newStarved is a group of three whose first leader is member 1.
func newStarved(t *testing.T, seed uint64) *starved {
	s := &starved{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1))}
	members := map[uint64]string{1: "a", 2: "b", 3: "c"}
	for id := range uint64(len(members)) {
		boot := Bootstrap(0, members)
		core, err := NewCore(CoreConfig{ID: id + 1, HeartbeatTicks: 1, ElectionTicks: starvedElection,
			MostTicks: starvedMost, HoldTicks: starvedHold, Stagger: Stagger, Seed: seed,
			Saved: storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s.members = append(s.members, &starvedMember{core: core})
	}
	s.members[0].core.campaign()
	s.run(2)
	if s.leader() != s.members[0] {
		t.Fatal("member 1 does not lead")
	}
	return s
}

func (s *starved) run(ticks int) {
	for range ticks {
		s.tick()
	}
}

// tick lets one pass. Who has processor time again handles the tick that is due before what arrived in the meantime.
func (s *starved) tick() {
	s.now++
	for _, i := range s.rand.Perm(len(s.members)) {
		if m := s.members[i]; s.now < m.until {
			m.missed++
		} else {
			if s.crowd > 0 && m.core.Doubts() {
				m.core.Crowded(s.crowd)
			}
			m.core.Tick(m.missed)
			m.missed = 0
			s.ready(m)
			s.deliver()
		}
	}
}

// deliver lets those who have processor time read all messages. The members' ticks are at different times, as those of
// processes are, so no two elections begin at once.
func (s *starved) deliver() {
	for busy := true; busy; {
		busy = false
		for _, m := range s.members {
			for s.now >= m.until && len(m.inbox) > 0 {
				busy = true
				w := m.inbox[0]
				m.inbox = m.inbox[1:]
				if err := m.core.Step(w); err != nil {
					s.t.Fatalf("seed %d: %v", s.seed, err)
				}
				s.ready(m)
			}
		}
	}
}

func (s *starved) ready(m *starvedMember) {
	for m.core.HasReady() {
		rd := m.core.Ready()
		for _, w := range rd.Messages {
			to := s.members[w.Raft.GetTo()-1]
			to.inbox = append(to.inbox, w)
		}
		m.core.Stored(len(rd.Append))
		for _, u := range rd.Updates {
			if u.Role == nil {
				continue
			}
			if m.role = *u.Role; m.role.Leading {
				s.leads++
			}
			if m.role.Leader == raft.None {
				m.lost++
			}
		}
	}
}

// leader is the member that leads in the highest term, nil if none does.
func (s *starved) leader() (leader *starvedMember) {
	for _, m := range s.members {
		if m.role.Leading && (leader == nil || m.role.Term > leader.role.Term) {
			leader = m
		}
	}
	return leader
}

// stop takes the processor away from a member for some ticks.
func (s *starved) stop(m *starvedMember, ticks int) { m.until = s.now + 1 + ticks }

// longest is the longest election timeout.
func (s *starved) longest() (ticks int) {
	for _, m := range s.members {
		ticks = max(ticks, m.core.election.timeout())
	}
	return ticks
}

// replaced stops the leader for longer than any timeout, and returns the ticks until another one leads.
func (s *starved) replaced() int {
	s.t.Helper()
	old, start := s.leader(), s.now
	s.stop(old, 4*starvedMost)
	for s.leader() == old {
		if s.tick(); s.now > start+3*starvedMost {
			s.t.Fatalf("seed %d: no leader %d ticks after the leader stopped", s.seed, s.now-start)
		}
	}
	return s.now - start
}

// ticksToElect are those of an election, and of the heartbeat before the silence, beyond the election timeout.
const ticksToElect = 3

// Members that are starved at random do not change the leader, once the timeout has adapted. A leader that stops is
// then replaced within twice the timeout, and when the machine has become quiet, as fast as ever.
func TestStarvationChangesNoLeader(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	changes := 0
	for seed := range seeds {
		s := newStarved(t, seed)
		most := 4 + s.rand.IntN(starvedMost/2-4) // ticks without processor time; more could not be bridged
		starve := func(ticks int) {
			for range ticks {
				if m := s.members[s.rand.IntN(len(s.members))]; s.now >= m.until && s.rand.IntN(10) == 0 {
					s.stop(m, most/2+1+s.rand.IntN(most-most/2))
				}
				s.tick()
			}
		}
		starve(starvedHold)
		changes += s.leads - 1
		before, term := s.leads, s.leader().role.Term
		starve(10 * starvedHold)
		s.run(most)
		if l := s.leader(); s.leads != before || l == nil || l.role.Term != term {
			t.Fatalf("seed %d: starved for up to %d ticks, the leader of term %d was deposed by that of %d", seed, most,
				term, l.role.Term)
		}
		within := 2*s.longest() + ticksToElect
		if took := s.replaced(); took > within {
			t.Fatalf("seed %d: a leader that stopped was replaced after %d ticks, not %d", seed, took, within)
		}
		s.run(10 * starvedHold)
		if s.longest() != starvedElection {
			t.Fatalf("seed %d: the timeout is %d ticks after 10 quiet periods", seed, s.longest())
		}
		if took := s.replaced(); took > 2*starvedElection+ticksToElect {
			t.Fatalf("seed %d: on a quiet machine a leader that stopped was replaced after %d ticks", seed, took)
		}
	}
	if changes < int(seeds/5) {
		t.Errorf("%d changes of the leader before the timeout has adapted: nothing was shown", changes)
	}
}

// On a machine that becomes crowded, not even the first silence deposes the leader if the crowd explains its length.
// When the machine is quiet again, a leader that stops is replaced as soon as ever.
func TestCrowdExcusesSilence(t *testing.T) {
	for seed := range uint64(12) {
		s := newStarved(t, seed)
		s.crowd = 1
		s.run(10)
		silent, asks := s.members[:1], starvedElection-3
		if seed%2 == 1 {
			silent, asks = s.members[1:], starvedElection+1
		}
		silence := func(ticks int) {
			for _, m := range silent {
				s.stop(m, ticks)
			}
			s.run(2 * ticks)
		}
		silence(asks) // it is not crowded
		s.crowd = 4 + s.rand.IntN(20)
		if seed < 4 {
			s.crowd = 10 * starvedMost
		}
		most := min(s.crowd*starvedElection, starvedMost)
		silence(most - 2)
		if s.leads != 1 {
			t.Fatalf("seed %d: a silence of %d ticks with %d threads for each processor deposed the leader", seed,
				most-2, s.crowd)
		}
		if got := s.excused(); got != most/lateFactor {
			t.Errorf("seed %d, %d threads for each processor: %d ticks are excused", seed, s.crowd, got)
		}
		s.crowd = 1
		s.run(10 * starvedHold)
		if took := s.replaced(); took > 2*starvedElection+ticksToElect {
			t.Errorf("seed %d: no longer crowded, the leader was replaced after %d ticks", seed, took)
		}
	}
}

// excused is the longest wait that a member has lately assumed because of a crowd.
func (s *starved) excused() (ticks int) {
	for _, m := range s.members {
		ticks = max(ticks, m.core.election.late.recent[LateCrowd])
	}
	return ticks
}

// The least crowd of a silence counts, also after it has raised the timeout: a leader that stopped is replaced within
// what follows from that. A crowd in an earlier silence does not count.
func TestLeastCrowdOfSilence(t *testing.T) {
	for name, c := range map[string]struct {
		crowds  []int // in each tick of the silence, as in starved.crowd; the last one goes on
		excused int
	}{
		"earlier": {[]int{0}, 0}, "for a moment": {[]int{30, 30, 30, 1, 30}, 0}, "none": {[]int{1}, 0},
		"at the end": {[]int{1, 1, 1, 1, 30}, 0}, "all the time": {[]int{6}, 15},
		"growing": {[]int{6, 6, 6, 6, 6, 6, 30}, 15},
	} {
		s := newStarved(t, 1)
		s.crowd = 30
		s.run(10)
		s.stop(s.members[0], starvedElection-3) // members ask
		s.run(starvedElection)
		old, start := s.leader(), s.now
		s.stop(old, 4*starvedMost)
		for s.leader() == old && s.now < start+2*starvedMost {
			s.crowd = c.crowds[min(s.now-start, len(c.crowds)-1)]
			s.tick()
		}
		if got := s.excused(); got != c.excused {
			t.Errorf("%s: %d ticks are excused, not %d", name, got, c.excused)
		}
		if within := 2*s.longest() + ticksToElect; s.now > start+within {
			t.Errorf("%s: no leader after %d ticks, not %d", name, s.now-start, within)
		}
	}
}

// A node asks how crowded the machine is once it has doubts, and not before.
func TestNodeAsksForCrowd(t *testing.T) {
	asked := 0
	h := &Host{cfg: HostConfig{Heartbeat: time.Hour}, crowd: func() int { asked++; return 20 }}
	n := &Node{host: h, core: newStarved(t, 1).members[1].core, ticked: time.Now()}
	for range starvedElection {
		n.tick(n.crowd())
	}
	if got := n.core.election.timeout(); got != starvedMost || asked > starvedElection/2+1 {
		t.Errorf("a timeout of %d ticks, asked %d times in %d ticks", got, asked, starvedElection)
	}
}

// A false alarm raises the timeout, though the leader that was deposed speaks only after its successor.
func TestFalseAlarmRaisesTimeout(t *testing.T) {
	const silence = 20
	s := newStarved(t, 1)
	s.run(10)
	s.stop(s.members[0], silence)
	s.run(silence + 5)
	if s.leads != 2 {
		t.Fatalf("%d leaders: the first was not deposed", s.leads)
	}
	for i, m := range s.members[1:] {
		if got := m.core.election.timeout(); got < lateFactor*silence {
			t.Errorf("member %d: timeout of %d ticks after a false alarm of %d", i+2, got, silence)
		}
	}
	s.stop(s.leader(), silence)
	s.run(4 * silence)
	if s.leads != 2 {
		t.Errorf("the same silence again deposed the leader")
	}
}

// The failure of a leader does not raise the timeout, whether it comes back or not.
func TestFailureRaisesNoTimeout(t *testing.T) {
	s := newStarved(t, 1)
	for i := range 10 {
		s.run(10)
		if took := s.replaced(); took > 2*starvedElection+ticksToElect {
			t.Errorf("failure %d: the leader was replaced after %d ticks", i+1, took)
		}
		if s.longest() != starvedElection {
			t.Fatalf("failure %d: the timeout is %d ticks", i+1, s.longest())
		}
		s.run(5 * starvedMost) // the old one is back
	}
}

// Members that get only some of their ticks replace a silent leader nearly as soon as others: their clocks do not run
// slower.
func TestStarvedMembersReplaceSilentLeader(t *testing.T) {
	for _, handled := range []int{1, 3, 5} { // one tick in so many
		for seed := range uint64(20) {
			s := newStarved(t, seed)
			for _, m := range s.members[1:] {
				m.core.election.late.waited(starvedMost, LateSelf)
			}
			s.run(5)
			old, start := s.leader(), s.now
			s.stop(old, 1<<20)
			for s.leader() == old {
				for i, m := range s.members {
					if m != old && (s.now+i)%handled == 0 {
						s.stop(m, handled-1)
					}
				}
				if s.tick(); s.now > start+4*starvedMost {
					t.Fatalf("seed %d, one tick in %d: no leader %d ticks after the leader stopped", seed, handled,
						s.now-start)
				}
			}
		}
	}
}

// After the death of a leader, an election that fails is repeated as soon as on a quiet machine.
func TestLatenessDelaysNoElectionAfterHint(t *testing.T) {
	s := newStarved(t, 1)
	s.run(10)
	s.stop(s.members[0], 4*starvedMost)
	for _, m := range s.members[1:] {
		m.core.election.late.waited(starvedMost, LateSelf)
		m.core.Hint(1)
		s.ready(m)
	}
	for _, m := range s.members {
		m.inbox = nil // the requests for votes are lost
	}
	start := s.now
	for s.leader() == s.members[0] {
		if s.tick(); s.now > start+2*starvedElection+ticksToElect {
			t.Fatalf("no leader %d ticks after the hint", s.now-start)
		}
	}
}

// A member that was itself without processor time does not blame the leader, nor does a leader blame its followers.
func TestOwnLateness(t *testing.T) {
	s := newStarved(t, 1)
	follower := s.members[1]
	follower.lost = 0
	s.stop(follower, 3*starvedMost) // too long to raise the timeout
	s.run(3*starvedMost + 1)
	for range 20 {
		s.run(1 + s.rand.IntN(5))
		follower.core.election.elapsed = starvedElection - 1 // the next tick would be one too many
		s.stop(follower, 10)
		s.run(11)
	}
	s.stop(s.members[0], 3)
	s.run(10)
	if s.leads != 1 || follower.lost != 0 {
		t.Errorf("%d leaders; the follower that was late had none %d times", s.leads, follower.lost)
	}
	if got := follower.core.election.late; got.cause != LateSelf || got.longest != 11 {
		t.Errorf("it says that %d ticks were lost: %v", got.longest, got.cause)
	}
}

// Followers that are starved together do not make their leader step down, once it knows their waits. Answers that come
// after it has stepped down teach it, too.
func TestStarvedFollowers(t *testing.T) {
	const silence = 30
	s := newStarved(t, 1)
	for i := range 3 {
		s.stop(s.members[1], silence)
		s.stop(s.members[2], silence)
		s.run(2 * silence)
		if want := min(i, 1); i > 0 && s.leads > 1+want {
			t.Fatalf("starved %d times: %d leaders", i+1, s.leads)
		}
	}
	if got := s.leader().core.election.late; got.longest < silence {
		t.Errorf("the leader knows of a wait of %d ticks: %v", got.longest, got.cause)
	}
}

// Waits raise the timeout between its bounds. It falls by half in each period without waits as long.
func TestLateness(t *testing.T) {
	l := lateness{least: 5, most: 100, hold: 10}
	var got []string
	note := func(what string) { got = append(got, fmt.Sprintf("%s %d", what, l.timeout())) }
	quiet := func() {
		for range l.hold {
			l.tick()
		}
	}
	note("start")
	l.waited(1, LateLeader)
	note("heartbeat")
	l.waited(101, LateLeader)
	note("failure")
	l.waited(12, LateLeader)
	note("12")
	quiet()
	note("hold")
	l.waited(9, LateSelf)
	quiet()
	note("9")
	quiet()
	note("quiet")
	quiet()
	note("quiet")
	l.waited(90, LateFollowers)
	note("90")
	want := "[start 5 heartbeat 5 failure 5 12 24 hold 24 9 18 quiet 8 quiet 5 90 100]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if l.cause != LateFollowers {
		t.Errorf("late: %v", l.cause)
	}
}

// The status has the timeout in time, and a reason only if it is not the configured one.
func TestElectionTimeoutInStatus(t *testing.T) {
	const heartbeat = 10 * time.Millisecond
	n := &Node{host: &Host{cfg: HostConfig{Heartbeat: heartbeat, Election: 5 * heartbeat}}}
	c := newStarved(t, 1).members[1].core
	want := ElectionTimeout{Configured: 5 * heartbeat, Present: 5 * heartbeat}
	if got := n.electionTimeout(c); got != want {
		t.Errorf("quiet: %+v", got)
	}
	c.election.late.waited(12, LateLeader)
	want = ElectionTimeout{Configured: 5 * heartbeat, Present: 24 * heartbeat, Late: LateLeader, Waited: 12 * heartbeat}
	if got := n.electionTimeout(c); got != want {
		t.Errorf("busy: %+v", got)
	}
}
