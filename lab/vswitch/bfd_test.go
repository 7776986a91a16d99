package vswitch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const ms = time.Millisecond

// twins are two switches under a virtual clock, each with a host at port 1. Links connect their ports 2 and their
// ports 3. A frame from a host leaves by port 2 if that is live, otherwise by port 3.
type twins struct {
	t      *testing.T
	ends   [2]*rig
	now    time.Duration
	flying []flight
	cut    map[hop]bool
	came   []arrived // frames that arrived at the host of the second switch
}

// hop is where a port leads.
type hop struct {
	end  int
	port of13.Port
}

type flight struct {
	at   time.Duration
	to   hop // port by which it arrives
	data []byte
}

type arrived struct {
	seq int
	by  of13.Port
}

const flightTime = 100 * time.Microsecond

func newTwins(t *testing.T, interval time.Duration) *twins {
	w := &twins{t: t, cut: map[hop]bool{}}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range w.ends {
		e := newRig(t)
		w.ends[i] = e
		e.ok(&of13.GroupMod{Command: of13.GroupAdd, GroupType: of13.GroupTypeFastFailover, GroupID: 1,
			Buckets: slices.Concat(of13.Buckets(watching(2)), of13.Buckets(watching(3)))})
		e.ok(add(0, 1, nil, out(1)))
		e.ok(add(0, 2, of13.Match(nil).WithInPort(1), actions(of13.Actions(nil).Group(1))))
		for _, p := range []of13.Port{2, 3} {
			c := bfd.Config{Discriminator: uint32(10*i) + uint32(p), MinTx: interval, MinRx: interval, Multiplier: 3,
				Jitter: r.Float64}
			if err := e.s.SetBFD(0, p, c); err != nil {
				t.Fatal(err)
			}
			if e.live(p) {
				t.Fatalf("port %v is live before it has heard anything", p)
			}
		}
		w.carry(i, 0)
		e.take(1)
	}
	return w
}

func watching(p of13.Port) []byte {
	return of13.Bucket{WatchPort: p, WatchGroup: of13.GroupAny, Actions: of13.Actions(nil).Output(p, 0)}.AppendTo(nil)
}

func (r *rig) live(no of13.Port) bool { return r.s.ports[no].live() }

// carry delivers what a switch sends.
func (w *twins) carry(i int, in of13.Port) {
	for _, f := range w.ends[i].s.Frames() {
		switch data := slices.Clone(f.Data); {
		case f.Port == 1:
			w.came = append(w.came, arrived{int(data[20])<<8 | int(data[21]), in})
		case !w.cut[hop{i, f.Port}]:
			w.flying = append(w.flying, flight{w.now + flightTime, hop{1 - i, f.Port}, data})
		}
	}
}

// run advances the clock by d.
func (w *twins) run(d time.Duration) {
	for end := w.now + d; ; {
		next := end
		if len(w.flying) > 0 {
			next = min(next, w.flying[0].at)
		}
		for _, e := range w.ends {
			if at, ok := e.s.Deadline(); ok {
				next = min(next, at)
			}
		}
		if next >= end {
			w.now = end
			return
		}
		w.now = max(w.now, next)
		for len(w.flying) > 0 && w.flying[0].at <= w.now {
			f := w.flying[0]
			w.flying = w.flying[1:]
			w.ends[f.to.end].s.Frame(w.now, f.to.port, f.data)
			w.carry(f.to.end, f.to.port)
		}
		for i, e := range w.ends {
			e.s.Tick(w.now)
			w.carry(i, 0)
		}
	}
}

// send makes the host of the first switch send one numbered frame each millisecond, and returns the frames that
// arrived, in order.
func (w *twins) send(n int) []arrived {
	w.came = nil
	for seq := range n {
		frame := appendEthernet(nil, macA, macB, 0x88b5)
		frame = append(frame, 0, 0, 0, 0, 0, 0, byte(seq>>8), byte(seq))
		w.ends[0].s.Frame(w.now, 1, frame)
		w.carry(0, 1)
		w.run(ms)
	}
	w.run(ms)
	return w.came
}

// by checks that frames arrived once, in order, and all by one port.
func (w *twins) by(came []arrived, first, n int, port of13.Port) {
	w.t.Helper()
	for i, a := range came {
		if a != (arrived{first + i, port}) {
			w.t.Fatalf("of the frames from %d to %d by port %v there came: %v", first, n-1, port, came)
		}
	}
	if len(came) != n-first {
		w.t.Fatalf("of the frames from %d to %d by port %v there came: %v", first, n-1, port, came)
	}
}

// liveBits returns the live bits that the controllers of both ends were told for a port, in order.
func (w *twins) liveBits(no of13.Port) (bits [2][]bool) {
	for i, e := range w.ends {
		for _, m := range e.take(1) {
			if s, ok := m.(*of13.PortStatus); ok && s.Port.Port == no {
				bits[i] = append(bits[i], s.Port.State&of13.PortStateLive != 0)
			}
		}
	}
	return bits
}

// A link that is silently cut, in both directions or in one, is detected at both ends within the detection time.
// Frames are lost until then and not afterwards. When the link is repaired, frames use it again.
func TestBFDSilentCut(t *testing.T) {
	const interval = 5 * ms
	const most = int(3*interval/ms) + 1 // frames that may be lost, at one each millisecond
	for name, cut := range map[string][]hop{"both": {{0, 2}, {1, 2}}, "there": {{0, 2}}, "back": {{1, 2}}} {
		t.Run(name, func(t *testing.T) {
			w := newTwins(t, interval)
			w.run(5 * time.Second) // until both ends have agreed on the intervals
			if got := w.liveBits(2); len(got[0]) != 1 || len(got[1]) != 1 || !got[0][0] || !got[1][0] {
				t.Fatalf("while it comes up the controllers are told of live bits %v, want one: true", got)
			}
			w.by(w.send(20), 0, 20, 2)
			for _, h := range cut {
				w.cut[h] = true
			}
			came := w.send(100)
			if lost := 100 - len(came); name == "back" {
				moved := slices.IndexFunc(came, func(a arrived) bool { return a.by == 3 })
				if lost > 0 || moved < 0 || moved > most {
					t.Fatalf("by a link that is dead backward there came: %v", came)
				}
			} else if w.by(came, lost, 100, 3); lost == 0 || lost > most {
				t.Fatalf("lost %d frames, want 1 to %d", lost, most)
			}
			w.by(w.send(20), 0, 20, 3)
			if got := w.liveBits(2); len(got[0]) != 1 || len(got[1]) != 1 || got[0][0] || got[1][0] {
				t.Fatalf("after the cut the controllers are told of live bits %v, want one: false", got)
			}
			clear(w.cut)
			w.run(3 * time.Second)
			w.by(w.send(20), 0, 20, 2)
		})
	}
}

// Without a failure there is no alarm.
func TestBFDWithoutFailure(t *testing.T) {
	w := newTwins(t, 5*ms)
	w.run(5 * time.Second)
	w.liveBits(2)
	w.run(time.Minute)
	for _, e := range w.ends {
		if got := e.take(1); len(got) > 0 {
			t.Fatalf("in a minute without a failure the controllers are told of %v", got)
		}
	}
}

// A session accepts the BFD packets that arrive at its port while it exists. All other frames are forwarded.
func TestBFDIsForItsPortOnly(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, nil, out(4)))
	said := bfd.AppendFrame(nil, macB, bfd.Packet{State: bfd.Down, Multiplier: 3, MyDiscriminator: 9,
		DesiredMinTx: time.Second, RequiredMinRx: ms})
	routed := slices.Clone(said)
	routed[ethLen+8]--  // its TTL
	routed[ethLen+10]++ // and its checksum
	r.goes(1, said, 4)

	config := bfd.Config{Discriminator: 7, MinTx: 5 * ms, MinRx: 5 * ms, Multiplier: 3,
		Jitter: func() float64 { return 0 }}
	if r.s.SetBFD(r.now, 9, config) == nil || r.s.SetBFD(r.now, 1, bfd.Config{}) == nil {
		t.Error("a session at no port, or of nothing")
	}
	if err := r.s.SetBFD(r.now, 1, config); err != nil {
		t.Fatal(err)
	}
	if sent := r.frames()[1]; len(sent) != 1 || of13.MAC(sent[0][6:12]) != r.s.ports[1].HwAddr {
		t.Fatalf("a new session sends %x", sent)
	}
	r.goes(1, routed) // dropped, because it is not from this link
	r.goes(1, said, 1)
	if status, ok := r.s.BFD(1); !ok || status.State != bfd.Init || r.live(1) {
		t.Fatalf("after the first packet: %+v, live: %v", status, r.live(1))
	}
	r.goes(1, ping(1), 4)
	r.goes(2, said, 4)
	r.from(1, &of13.PortMod{Port: 1, HwAddr: r.s.ports[1].HwAddr, Config: of13.PortConfigDown,
		Mask: of13.PortConfigDown})
	r.goes(1, said) // no answer by a port that is down

	r.s.ClearBFD(r.now, 1)
	if _, ok := r.s.BFD(1); ok {
		t.Error("a session that was cleared is there")
	}
	r.from(1, &of13.PortMod{Port: 1, HwAddr: r.s.ports[1].HwAddr, Mask: of13.PortConfigDown})
	if r.goes(1, said, 4); !r.live(1) {
		t.Error("a port without a session is not live")
	}
}

func TestFramesDoNotAllocate(t *testing.T) {
	w := newTwins(t, 5*ms)
	w.run(5 * time.Second)
	s, frame := w.ends[0].s, ping(1)
	forward := func() {
		s.Frame(w.now, 1, frame)
		s.Frames()
		s.Frame(w.now, 2, frame)
		s.Frames()
	}
	forward()
	if n := testing.AllocsPerRun(1000, forward); n > 0 {
		t.Errorf("two frames, one by a group and one in by a port with BFD: %v allocations", n)
	}
	said := bfd.AppendFrame(nil, macB, bfd.Packet{State: bfd.Up, Poll: true, Multiplier: 3, MyDiscriminator: 12,
		YourDiscriminator: 2, DesiredMinTx: 5 * ms, RequiredMinRx: 5 * ms})
	answer := func() {
		s.Frame(w.now, 2, said)
		if len(s.Frames()) == 0 {
			t.Fatal("a poll is not answered")
		}
	}
	answer()
	if n := testing.AllocsPerRun(1000, answer); n > 0 {
		t.Errorf("a poll and its final: %v allocations", n)
	}
}

// The runner wakes up when a session needs it, however long its own tick is, and detects a silent cut.
func TestRunnerBFD(t *testing.T) {
	var ends [2]*Runner
	for i := range ends {
		ends[i] = startRunner(t, RunnerConfig{Switch: Config{Ports: Ports(i, 1)}, TickEvery: time.Hour})
	}
	link := Connect(ends[0].Port(1), ends[1].Port(1))
	for i, r := range ends {
		r.Do(func(s *Switch, now time.Duration) {
			err := s.SetBFD(now, 1, bfd.Config{Discriminator: uint32(i + 1), MinTx: 50 * ms, MinRx: 50 * ms,
				Multiplier: 3, Jitter: rand.Float64})
			if err != nil {
				t.Error(err)
			}
		})
	}
	live := func(r *Runner) (up bool) {
		r.Do(func(s *Switch, _ time.Duration) { up = s.ports[1].live() })
		return up
	}
	for _, silent := range []bool{false, true, false} {
		link.SetSilent(silent)
		for i, r := range ends {
			await.Until(t, fmt.Sprintf("with silent=%v end %d has noticed", silent, i),
				func() bool { return live(r) != silent })
		}
	}
}
