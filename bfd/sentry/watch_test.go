package sentry

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/bfd"
)

const (
	ms       = time.Millisecond
	interval = 4 * ms
	tick     = interval / passes
)

// rig is a watch in virtual time, with both ends of some links.
type rig struct {
	t     *testing.T
	w     *watch
	pace  pace
	now   time.Duration
	links []*link // 0 and 1 are the ends of a link, 2 and 3, …
}

func newRig(t *testing.T, cables int) *rig {
	t.Helper()
	r := &rig{t: t, w: newWatch(interval, 3), pace: pace{tick: tick}}
	go func() { // carries orders out, as the loop does; add and remove give some
		for f := range r.w.orders {
			f(r.now)
		}
	}()
	t.Cleanup(func() { close(r.w.orders) })
	r.plug(cables)
	return r
}

func (r *rig) plug(cables int) {
	r.t.Helper()
	for range cables {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, fd := range fds {
			l := &link{socket: &socket{fd: fd}, changed: make(chan struct{}, 1)}
			r.t.Cleanup(func() { l.socket.close() })
			if err := r.w.add(l); err != nil {
				r.t.Fatal(err)
			}
			r.links = append(r.links, l)
		}
	}
}

// run advances the clock. A pass runs whenever one is due, as late as late says.
func (r *rig) run(d, late time.Duration) {
	for end := r.now + d; r.now < end; {
		r.now = max(r.now, r.pace.due) + late
		r.w.pass(r.pace.wake(r.now))
	}
}

// isolate cuts an end of a link off, in both directions.
func (r *rig) isolate(l *link) {
	r.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	old := l.socket
	l.socket = &socket{fd: fds[0]}
	// the socket of the old end stays open: frames to it are lost, not refused
	r.t.Cleanup(func() { old.close(); unix.Close(fds[1]) })
}

func (r *rig) want(when string, states ...State) {
	r.t.Helper()
	for i, s := range states {
		if got := r.links[i].state; got != s {
			r.t.Errorf("%s: end %d is %v, want %v", when, i, got, s)
		}
	}
}

func (r *rig) up() {
	r.t.Helper()
	r.run(2*time.Second, 0)
	r.want("after two seconds", slices.Repeat([]State{Alive}, len(r.links))...)
	for len(r.w.events) > 0 {
		<-r.w.events
	}
}

func TestCut(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	r.isolate(r.links[0])
	r.run(2*interval-tick, 0)
	r.want("before the detection time", Alive, Alive)
	r.run(interval+2*tick, 0)
	r.want("after it", Dead, Dead)
	if !r.links[0].dead.Load() || len(r.links[0].changed) != 1 {
		t.Error("the switch is not told")
	}
	r.run(Hold-interval, 0)
	r.want("while the word holds", Dead, Dead)
	r.run(2*interval, 0)
	r.want("then", Unwatched, Unwatched)
	if r.links[0].dead.Load() {
		t.Error("the switch is not left to its own BFD")
	}
	for i, want := range []State{Dead, Dead, Unwatched, Unwatched} {
		if e := <-r.w.events; e.State != want {
			t.Errorf("event %d: %v, want %v", i, e.State, want)
		}
	}
}

func TestOneWay(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	for end := r.now + 4*interval; r.now < end; {
		r.run(tick, 0)
		for {
			if n, _ := r.links[0].socket.read(make([]byte, 100)); n == 0 { // frames to end 0 are lost
				break
			}
		}
	}
	r.want("an end that hears a peer that does not hear", Dead, Dead)
}

// A machine that stands still, for longer than the detection time and any number of times, causes no false alarm.
func TestStandstill(t *testing.T) {
	r := newRig(t, 2)
	r.up()
	for _, stop := range []time.Duration{2 * ms, 5 * ms, 11 * ms, 13 * ms, 35 * ms, time.Second, 12 * ms} {
		r.now += stop
		r.run(7*tick, 0)
	}
	r.want("after standstills", Alive, Alive, Alive, Alive)
	if len(r.w.events) > 0 {
		t.Errorf("%+v", <-r.w.events)
	}
}

// A watch that is late, always or sometimes, still detects a failure.
func TestOftenLate(t *testing.T) {
	for inTime := range 4 {
		r := newRig(t, 1)
		r.up()
		r.isolate(r.links[0])
		for range 10 {
			r.run(1, 3*ms)
			r.run(time.Duration(inTime)*tick, 0)
		}
		r.want("after being late ten times", Dead, Dead)
	}
}

// A link that died during a long standstill is detected soon after it.
func TestLongStandstill(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	r.isolate(r.links[0])
	r.now += time.Minute
	r.run(longestExcuse+4*interval, 0)
	r.want("after a minute", Dead, Dead)
}

// A session ends on purpose and the next one starts, in one pass of the peer.
func TestRestart(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	old := r.links[0]
	r.w.remove(old, true)
	l := &link{socket: old.socket, changed: old.changed}
	if err := r.w.add(l); err != nil {
		t.Fatal(err)
	}
	r.links[0] = l
	l.send(r.now, make([]byte, frameLen))
	r.run(2*time.Second, 0)
	r.want("after a restart", Alive, Alive)
	for len(r.w.events) > 0 {
		if e := <-r.w.events; e.State == Dead {
			t.Errorf("%+v", e)
		}
	}
}

func TestEndOnPurpose(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	r.w.remove(r.links[0], true)
	r.run(2*Hold, 0)
	r.want("after the other has ended", Unwatched, Unwatched)
	for len(r.w.events) > 0 {
		if e := <-r.w.events; e.State == Dead {
			t.Errorf("%+v", e)
		}
	}
}

func TestEndByDeath(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	r.w.remove(r.links[0], false)
	r.run(4*interval, 0)
	r.want("after the other's switch has died", Unwatched, Dead)
}

// Frames of all links are sent together, whenever their sessions started.
func TestInStep(t *testing.T) {
	r := newRig(t, 1)
	r.run(2*time.Second+tick, 0)
	r.plug(2)
	r.run(2*time.Second+2*tick, 0)
	r.want("all", Alive, Alive, Alive, Alive, Alive, Alive)
	together := 0
	for range 10 * passes {
		waiting := 0
		r.run(tick, 0)
		for _, l := range r.links {
			n, err := unix.IoctlGetInt(l.socket.fd, unix.TIOCINQ)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				waiting++
			}
		}
		// What the second end of a link sends waits for the next pass; the first end's is read in this one.
		switch waiting {
		case 0:
		case len(r.links) / 2:
			together++
		default:
			t.Fatalf("%d of %d frames wait after a pass", waiting, len(r.links)/2)
		}
	}
	if together != 10 {
		t.Errorf("frames left in %d passes, want 10", together)
	}
}

func TestNoAllocation(t *testing.T) {
	r := newRig(t, 2)
	r.up()
	if n := testing.AllocsPerRun(1000, func() { r.run(tick, 0) }); n > 0 {
		t.Errorf("%v allocations in a pass", n)
	}
}

// Bytes that are not a BFD packet are ignored.
func TestNonsense(t *testing.T) {
	r := newRig(t, 1)
	r.up()
	for _, frame := range [][]byte{{}, {1}, make([]byte, ethLen), make([]byte, frameLen), make([]byte, 1500)} {
		r.links[0].socket.write(frame)
		r.run(tick, 0)
	}
	r.want("after nonsense", Alive, Alive)
	good := appendFrame(nil, [6]byte{2}, bfd.Packet{State: bfd.Up, Multiplier: 3, MyDiscriminator: 1,
		YourDiscriminator: 2, DesiredMinTx: ms, RequiredMinRx: ms})
	if p, err := parseFrame(good); err != nil || p.State != bfd.Up || len(good) != frameLen {
		t.Errorf("%+v, %v, %d bytes", p, err, len(good))
	}
}
