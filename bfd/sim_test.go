package bfd

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pair is two sessions with a link between them, under a virtual clock.
type pair struct {
	ends  [2]*Session
	lines [2]line // lines[i] carries what ends[i] sends
	now   time.Duration
}

// line carries packets in one direction, in order.
type line struct {
	delay  time.Duration
	spread func() time.Duration // additional delay
	lose   func() bool
	flying []flight
	heard  time.Duration // when a packet last arrived
}

type flight struct {
	arrives time.Duration
	packet  Packet
}

func newPair(t *rapid.T, r *rand.Rand, multiplier uint8, interval *rapid.Generator[time.Duration]) *pair {
	p := &pair{}
	for i := range p.ends {
		s, err := New(0, Config{Discriminator: uint32(i + 1), Multiplier: multiplier, Jitter: r.Float64,
			MinTx: interval.Draw(t, "tx"), MinRx: interval.Draw(t, "rx")})
		if err != nil {
			t.Fatal(err)
		}
		p.ends[i] = s
		p.lines[i] = line{
			delay:  interval.Draw(t, "delay") * 4,
			spread: func() time.Duration { return 0 },
			lose:   func() bool { return false },
		}
	}
	return p
}

// step advances to the next event if there is one before the limit, and reports whether there was.
func (p *pair) step(t *rapid.T, until time.Duration) bool {
	next := until + 1
	for i, s := range p.ends {
		if at, ok := s.Deadline(); ok {
			next = min(next, at)
		}
		if f := p.lines[i].flying; len(f) > 0 {
			next = min(next, f[0].arrives)
		}
	}
	if next > until {
		p.now = until
		return false
	}
	p.now = max(p.now, next)
	for i := range p.lines {
		l := &p.lines[i]
		for len(l.flying) > 0 && l.flying[0].arrives <= p.now {
			if err := p.ends[1-i].Receive(p.now, l.flying[0].packet); err != nil {
				t.Fatal(err)
			}
			l.flying, l.heard = l.flying[1:], p.now
		}
	}
	for i, s := range p.ends {
		for range 4 {
			packet, ok := s.Tick(p.now)
			if !ok {
				break
			}
			if packet.Poll && packet.Final {
				t.Fatalf("poll and final: %+v", packet)
			}
			p.lines[i].send(p.now, packet)
		}
		if packet, ok := s.Tick(p.now); ok {
			t.Fatalf("end %d sends a fifth packet at %v: %+v", i, p.now, packet)
		}
	}
	return true
}

func (l *line) send(now time.Duration, p Packet) {
	if l.lose() {
		return
	}
	arrives := now + l.delay + l.spread()
	if n := len(l.flying); n > 0 {
		arrives = max(arrives, l.flying[n-1].arrives)
	}
	l.flying = append(l.flying, flight{arrives, p})
}

func (p *pair) states() [2]State { return [2]State{p.ends[0].state, p.ends[1].state} }

func (p *pair) up() bool { return p.states() == [2]State{Up, Up} }

// settled reports that nothing is being negotiated.
func (p *pair) settled() bool {
	for i, s := range p.ends {
		if s.poll != pollIdle || s.remoteMinTx != p.ends[1-i].desiredMinTx || s.desiredMinTx != s.cfg.MinTx ||
			s.requiredMinRx != s.cfg.MinRx {
			return false
		}
	}
	return p.up()
}

// settle runs until the sessions are up and have agreed on the intervals.
func (p *pair) settle(t *rapid.T, within time.Duration) {
	for limit := p.now + within; !p.settled(); {
		if !p.step(t, limit) {
			t.Fatalf("not settled after %v: %+v %+v", within, *p.ends[0], *p.ends[1])
		}
	}
}

// stay runs on, and fails if an end leaves Up.
func (p *pair) stay(t *rapid.T, during time.Duration) {
	for limit := p.now + during; p.step(t, limit); {
		if !p.up() {
			t.Fatalf("false alarm at %v: %+v %+v", p.now, *p.ends[0], *p.ends[1])
		}
	}
}

// atMost loses packets at random, but never more than n in a row.
func atMost(r *rand.Rand, n int) func() bool {
	row := 0
	return func() bool {
		if row < n && r.Float64() < 0.6 {
			row++
			return true
		}
		row = 0
		return false
	}
}

var (
	millis = rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(1000, 30_000).Draw(t, "µs")) * time.Microsecond
	})
	multipliers = rapid.Custom(func(t *rapid.T) uint8 { return rapid.Uint8Range(2, 6).Draw(t, "multiplier") })
)

func source(t *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)) }

// A link that loses fewer packets in a row than the multiplier comes up, and stays up.
func TestLossBelowMultiplier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := source(t), multipliers.Draw(t, "m")
		p := newPair(t, r, m, millis)
		for i := range p.lines {
			p.lines[i].lose = atMost(r, int(m)-1)
		}
		p.settle(t, 120*time.Second)
		p.stay(t, 2*time.Second)
	})
}

// The same holds if packets are also up to half an interval late, and one fewer is lost.
func TestLossAndLateness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := source(t), multipliers.Draw(t, "m")
		p := newPair(t, r, m, millis)
		for i := range p.lines {
			p.lines[i].lose = atMost(r, int(m)-2)
			p.lines[i].spread = func() time.Duration { return time.Duration(r.Int64N(int64(p.ends[i].cfg.MinTx / 2))) }
		}
		p.settle(t, 120*time.Second)
		p.stay(t, 2*time.Second)
	})
}

// A link that goes silent, in one or both directions, is down at both ends within their detection times. It comes
// up again when it carries packets again.
func TestSilentCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := source(t), multipliers.Draw(t, "m")
		p := newPair(t, r, m, millis)
		p.settle(t, 30*time.Second)
		p.stay(t, millis.Draw(t, "before"))
		cut := [2]bool{true, rapid.Bool().Draw(t, "both")}
		var deadline [2]time.Duration
		for i := range cut {
			p.lines[i].lose = func() bool { return cut[i] }
			// Packets in flight arrive. Then the other end is silent, or reports that it is down.
			deadline[1-i] = p.now + p.lines[i].delay + p.ends[1-i].Status().DetectionTime
		}
		if !cut[1] {
			deadline[0] = deadline[1] + p.lines[1].delay
		}
		down := [2]bool{}
		for limit := max(deadline[0], deadline[1]); p.step(t, limit); {
			for i, s := range p.ends {
				if s.state == Up && p.now > deadline[i] {
					t.Fatalf("end %d up at %v, after %v: %+v", i, p.now, deadline[i], *s)
				}
				if s.state != Up && !down[i] {
					down[i] = true
					if d := s.Status().DetectionTime; s.diag == DiagExpired && p.now != p.lines[1-i].heard+d {
						t.Fatalf("end %d gave up at %v, heard %v, detection time %v", i, p.now, p.lines[1-i].heard, d)
					}
				}
			}
		}
		if !down[0] || !down[1] {
			t.Fatalf("not down: %+v %+v", *p.ends[0], *p.ends[1])
		}
		for limit := p.now + 10*time.Second; p.step(t, limit); {
			if p.up() {
				t.Fatalf("up over a link that is cut: %+v %+v", *p.ends[0], *p.ends[1])
			}
		}
		cut = [2]bool{}
		p.settle(t, 30*time.Second)
	})
}

// Intervals change at both ends at any time while packets are lost. Neither end takes that for a failure.
func TestTimersChangeWithoutAlarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, m := source(t), multipliers.Draw(t, "m")
		p := newPair(t, r, m, millis)
		p.settle(t, 30*time.Second)
		for i := range p.lines {
			p.lines[i].lose = atMost(r, int(m)-1)
		}
		for range 20 {
			if err := p.ends[r.IntN(2)].SetTimers(p.now, millis.Draw(t, "tx"), millis.Draw(t, "rx")); err != nil {
				t.Fatal(err)
			}
			p.stay(t, rapid.Custom(func(t *rapid.T) time.Duration { return millis.Draw(t, "pause") - ms }).Draw(t,
				"pause")*10)
		}
		for i := range p.lines {
			p.lines[i].lose = func() bool { return false }
		}
		p.settle(t, 5*time.Second)
	})
}

// An end that restarts with another discriminator comes up again.
func TestRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := source(t)
		p := newPair(t, r, 3, millis)
		p.settle(t, 30*time.Second)
		fresh, err := New(p.now, Config{Discriminator: 77, Multiplier: 3, Jitter: r.Float64,
			MinTx: millis.Draw(t, "tx"), MinRx: millis.Draw(t, "rx")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.lines {
			p.lines[i].flying = nil
		}
		old := p.ends[0]
		p.ends[0] = fresh
		went := false
		for limit := p.now + 30*time.Second; !p.settled() || !went; {
			p.lines[1].flying = keepFor(p.lines[1].flying, fresh.cfg.Discriminator)
			if !p.step(t, limit) {
				t.Fatalf("not up again (was %+v): %+v %+v", *old, *p.ends[0], *p.ends[1])
			}
			went = went || p.ends[1].state != Up
		}
	})
}

// keepFor removes packets for an earlier session, as Receive does.
func keepFor(flying []flight, discriminator uint32) []flight {
	kept := flying[:0]
	for _, f := range flying {
		if d := f.packet.YourDiscriminator; d == 0 || d == discriminator {
			kept = append(kept, f)
		}
	}
	return kept
}
