package controller

import (
	"testing"
	"time"
)

// What is outstanding at a time ends up in one entry, and what is outstanding alone never waits.
func TestPaceOfClosedLoops(t *testing.T) {
	for clients, least := range map[int]int{1: 1, 2: 2, 5: 5, 16: 16, 60: fullEntry} {
		l := loops{commit: 300 * time.Microsecond, think: 10 * time.Microsecond, clients: clients}
		l.run(20) // in which they find each other
		before, held := l.executed, l.held
		if l.run(100); l.executed-before < 100*least {
			t.Errorf("%d clients: 100 entries have %d inputs, not %d each", clients, l.executed-before, least)
		}
		if clients == 1 && l.held > held {
			t.Errorf("the only client had to wait %d times", l.held-held)
		}
	}
}

// loops are clients that send an input each, and the next one some time after it was committed, one after the other.
type loops struct {
	pace
	commit, think time.Duration
	clients       int
	now           time.Time

	sent     []time.Time // of inputs to come, in order
	waiting  int
	flying   []flight
	executed int
	held     int // inputs that had to wait
}

type flight struct {
	inputs int
	done   time.Time
}

// run goes on until so many entries are cut.
func (l *loops) run(entries int) {
	if l.now.IsZero() {
		l.now = time.Unix(1000, 0)
		l.answered(l.clients)
	}
	for entries > 0 {
		l.now = l.now.Add(time.Microsecond)
		if len(l.flying) > 0 && !l.now.Before(l.flying[0].done) {
			l.answered(l.flying[0].inputs)
			if l.flying = l.flying[1:]; len(l.flying) == 0 {
				l.committed(l.now, l.waiting)
			}
		}
		for len(l.sent) > 0 && !l.now.Before(l.sent[0]) {
			l.sent = l.sent[1:]
			l.waiting++
		}
		switch {
		case l.waiting == 0:
		case !l.ready(l.now, l.waiting):
			l.held++
		default:
			l.began(l.now, l.waiting)
			l.flying = append(l.flying, flight{l.waiting, l.now.Add(l.commit)})
			l.executed += l.waiting
			l.waiting = 0
			entries--
		}
	}
}

// answered has so many clients send their next input.
func (l *loops) answered(clients int) {
	for i := range clients {
		l.sent = append(l.sent, l.now.Add(time.Duration(i+1)*l.think))
	}
}

// Inputs wait for a commit no longer than longestHold, and only if that entry has inputs itself.
func TestPaceHolds(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	if !p.ready(now, 1) {
		t.Fatal("the first input has to wait")
	}
	p.began(now, 1)
	if p.ready(now, fullEntry-1) || !p.ready(now, fullEntry) {
		t.Errorf("fewer than %d inputs do not wait for the entry in flight, or so many do", fullEntry)
	}
	p.ready(now, 1)
	if end := now.Add(longestHold); p.due != end || p.ready(end.Add(-1), 1) || !p.ready(end, 1) || !p.due.IsZero() {
		t.Errorf("an input waits until %v, not until %v", p.due, end)
	}

	var other pace
	other.began(now, 0)
	if !other.ready(now, 1) {
		t.Error("an input waits for an entry that has none")
	}
	if other.committed(now, 1); other.took > 0 || other.expected > 0 {
		t.Errorf("an entry without inputs counts as a commit: %+v", other)
	}
}

// waited reports whether so many inputs had to wait. Then it is the end of the pause, in which no others came.
func waited(t *testing.T, p *pace, now *time.Time, inputs int) bool {
	t.Helper()
	if p.ready(*now, inputs) {
		return false
	}
	if *now = p.due; !p.ready(*now, inputs) {
		t.Fatal("the pause does not end")
	}
	return true
}

// If nobody sends anything more when it is answered, others need not wait for that.
func TestPacesForNothingBecomeRare(t *testing.T) {
	const commit, entries = 300 * time.Microsecond, 1000
	var p pace
	pauses := 0
	now := time.Unix(1000, 0)
	round := func() {
		p.began(now, 10)
		now = now.Add(commit)
		p.committed(now, 1) // which has come meanwhile
		if waited(t, &p, &now, 1) {
			pauses++
		}
		p.began(now, 1)
		now = now.Add(commit)
		p.committed(now, 0)
	}
	for range entries {
		round()
	}
	if pauses < 3 || pauses > mostMisses+entries>>mostMisses {
		t.Errorf("%d pauses for nothing after %d entries", pauses, entries)
	}

	for range p.skip { // then others do send something
		round()
	}
	misses := p.misses
	for range 2 {
		p.began(now, 10)
		p.committed(now, 1)
		if p.ready(now, 1) || !p.ready(now, 11) {
			t.Fatal("an input does not wait for the others, or for more than them")
		}
		p.began(now, 11)
		p.committed(now, 0)
	}
	if p.misses != misses-2 || p.skip > 0 {
		t.Errorf("%d misses after what was expected came twice, of %d", p.misses, misses)
	}
}

// A pause was for nothing if at most half of what was expected came in it.
func TestPauseForNothing(t *testing.T) {
	for _, c := range []struct {
		name                            string
		answered, waiting, began, ended int
		nothing                         bool
	}{
		{"none of one", 1, 1, 1, 1, true},
		{"one of one", 1, 1, 1, 2, false},
		{"one of two", 3, 0, 1, 2, true},
		{"two of three", 3, 1, 1, 3, false},
		{"most of more than an entry needs", 60, 0, 1, fullEntry - 1, false},
		{"as many as an entry needs, of more", 60, 10, 10, fullEntry, false},
		{"few of more than an entry needs", 60, 10, 10, 15, true},
	} {
		now := time.Unix(1000, 0)
		p := pace{misses: 3}
		p.began(now, c.answered)
		now = now.Add(time.Millisecond)
		p.committed(now, c.waiting)
		if p.ready(now, c.began) {
			t.Errorf("%s: there is no pause", c.name)
			continue
		}
		if early := p.ready(p.due.Add(-1), c.ended); early != (c.ended >= min(c.answered+c.waiting, fullEntry)) {
			t.Errorf("%s: the pause ends before its time: %v", c.name, early)
		}
		if now = now.Add(p.took); !p.ready(now, c.ended) {
			t.Errorf("%s: the pause does not end after the time of a commit", c.name)
		}
		want := 2
		if c.nothing {
			want = 4
		}
		if p.began(now, c.ended); p.misses != want {
			t.Errorf("%s: %d misses after 3, want %d", c.name, p.misses, want)
		}
	}
}

// One commit that takes long does not make pauses longer for long.
func TestSlowCommit(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pace
	p.began(now, 1)
	p.committed(now.Add(time.Second), 0)
	if p.took > longestHold/8 {
		t.Errorf("after one commit that took a second, others are waited for during %v", p.took)
	}
}

// What comes before a pause does not count for it. A client that sends one request when it has two answers, and two
// when it has one, is held only now and then.
func TestPauseCountsWhatComesInIt(t *testing.T) {
	const commit, rounds = 300 * time.Microsecond, 1000
	var p pace
	pauses := 0
	now := time.Unix(1000, 0)
	for range rounds {
		for _, n := range []int{2, 1} {
			if waited(t, &p, &now, n) {
				pauses++
			}
			p.began(now, n)
			now = now.Add(commit)
			p.committed(now, 0)
			now = now.Add(10 * time.Microsecond)
		}
	}
	if pauses > 2*mostMisses+rounds>>mostMisses {
		t.Errorf("%d pauses for nothing in %d rounds", pauses, rounds)
	}
}

// An entry is proposed without what comes while the one before is not committed, and the next one has all of that.
func TestEntriesGather(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	s.pass(0)
	one, two, three := s.up(1, 5), s.up(2, 5), s.up(3, 5)
	one.events(5, 2, packetIn)
	s.turn()
	two.events(5, 2, packetIn)
	s.turn()
	three.events(5, 2, packetIn)
	s.turn()
	if len(s.proposed) != 1 {
		t.Fatalf("%d entries, while the first is not committed", len(s.proposed))
	}
	if due := s.core.NextTick(); due != s.now.Add(longestHold) {
		t.Errorf("the next tick is in %v, and not when the others have waited long enough", due.Sub(s.now))
	}
	s.commit()
	s.pass(longestHold)
	if len(s.proposed) != 1 {
		t.Fatalf("%d entries of what came meanwhile", len(s.proposed))
	}
	s.commit()
	for _, sw := range []*fake{one, two, three} {
		if sw.sent == 0 {
			t.Errorf("switch %s is not answered after two entries", sw.Switch())
		}
	}
}

// What an earlier leadership had proposed is not waited for.
func TestNewLeaderWaitsForNothing(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	s.settle()
	one.events(5, 2, packetIn)
	s.turn()
	s.follow(4)
	s.lead(5)
	s.settle()
	one.events(5, 2, packetIn)
	if s.turn(); len(s.proposed) != 1 {
		t.Errorf("%d entries of the event that was lost with the leadership, and not one at once", len(s.proposed))
	}
}

// With as many entries in flight as may be, what waits does not keep the loop busy.
func TestHeldInputsWakeNobody(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	for seq := uint64(2); seq < 8; seq++ {
		one.events(5, seq, packetIn)
		s.turn()
		s.pass(longestHold)
		if next := s.core.NextTick(); !next.After(s.now) {
			t.Fatalf("after event %d, with %d entries proposed, the next tick is %v ago", seq, len(s.proposed), s.now.Sub(next))
		}
	}
	if len(s.proposed) != 4 {
		t.Errorf("%d entries are in flight, want 4 of which nobody was told", len(s.proposed))
	}
}

// Pauses that the timer ends become rare too, also if as many inputs had come before them as were answered.
func TestPausesOfACoreBecomeRare(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	s.settle()
	pauses, seq := 0, uint64(2)
	event := func() {
		one.events(5, seq, packetIn)
		seq++
		s.turn()
	}
	event()
	for range 200 {
		event() // waits for the one that is in flight
		s.now = s.now.Add(300 * time.Microsecond)
		s.commit()
		if len(s.proposed) == 0 {
			pauses++
			s.pass(time.Millisecond)
		}
		if len(s.proposed) != 1 {
			t.Fatalf("%d entries are proposed after a pause", len(s.proposed))
		}
		s.core.CommandsDone(one, 5, one.sent)
	}
	if pauses == 0 || pauses > 2*mostMisses {
		t.Errorf("%d pauses for nothing in 200 entries", pauses)
	}
}
