package sentry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/realtime"
)

const (
	// passes in an interval: a packet waits at most a quarter of the interval until it is read.
	passes = 4
	// tolerance is by how much a pass may be late and still trust that a peer was silent. After a longer delay the
	// peers may have been paused too: they may be on the same machine.
	tolerance = time.Millisecond
	// longestExcuse bounds the extra time that a peer gets because this pass was late: machines that pause together
	// resume together.
	longestExcuse = 100 * time.Millisecond
	// maxExcuses bounds how often a peer gets it before it is heard again: a sentry that is often late must still
	// detect a dead link.
	maxExcuses = 3
	// goodbyes is how often the end of a session is sent to the peer, because packets may be lost.
	goodbyes = 3
	// maxFrames bounds the frames that are read from one link in a pass; the rest waits for the next.
	maxFrames = 64
	// maxEvents bounds the events that wait to be reported; further ones are dropped. The reports to switches do not
	// use this queue.
	maxEvents = 4096
)

// link is one end of a link. While it is monitored, its session, state, since, socket and excuses belong to the watch.
type link struct {
	sw, name  string
	session   *bfd.Session
	state     State
	since     time.Duration
	socket    *socket
	changed   chan<- struct{} // capacity 1: tell the switch
	dead      atomic.Bool     // the state to be reported to the switch
	excuses   int             // since the peer was last heard
	unplugged atomic.Bool     // the interface is down or gone: open it again
	told      bool            // what has been reported; owned by its attendant
}

// watch is the loop that runs all sessions, on one thread that is pinned to one processor. So whatever delays it delays
// all links that it monitors, at both ends if it has both, and it can tell its own delay from silence.
type watch struct {
	interval   time.Duration
	multiplier uint8
	links      []*link
	made       uint64                       // passes, so far
	orders     chan func(now time.Duration) // carried out by the loop, between two passes
	frame      [2 * frameLen]byte           // for the loop
	events     chan Event
	ended      chan struct{}
}

func newWatch(interval time.Duration, multiplier uint8) *watch {
	return &watch{
		interval: interval, multiplier: multiplier, orders: make(chan func(time.Duration)),
		events: make(chan Event, maxEvents), ended: make(chan struct{}),
	}
}

// order makes the loop call f, and waits for it. It returns false if the loop has ended.
func (w *watch) order(f func(now time.Duration)) bool {
	done := make(chan struct{})
	select {
	case w.orders <- func(now time.Duration) { f(now); close(done) }:
		<-done
		return true
	case <-w.ended:
		return false
	}
}

// add begins to monitor a link.
func (w *watch) add(l *link) (err error) {
	w.order(func(now time.Duration) {
		l.since = now
		l.session, err = bfd.New(now, bfd.Config{
			Discriminator: rand.Uint32() | 1, MinTx: w.interval, MinRx: w.interval, Multiplier: w.multiplier,
			Jitter: w.jitter,
		})
		if err == nil {
			w.links = append(w.links, l)
		}
	})
	return err
}

// remove ends the monitoring of a link. Its socket is free then. The peer is told if this is on purpose; else it has to
// detect it.
func (w *watch) remove(l *link, onPurpose bool) {
	w.order(func(now time.Duration) {
		for i := range w.links {
			if w.links[i] == l {
				w.links = append(w.links[:i], w.links[i+1:]...)
				break
			}
		}
		if onPurpose {
			l.takeDown(now)
		}
		w.enter(l, now, Unwatched)
	})
}

// takeDown tells the peer that the session ends, so that it does not report the link as dead.
func (l *link) takeDown(now time.Duration) {
	l.session.SetAdminDown(now, true)
	p, ok := l.session.Tick(now)
	for range goodbyes {
		if ok {
			l.socket.write(appendFrame(nil, l.socket.mac, p))
		}
	}
}

// run monitors until ctx ends.
func (w *watch) run(ctx context.Context, pin bool) error {
	defer close(w.ended)
	defer close(w.events)
	runtime.LockOSThread() // never unlocked: the thread, with its processor, ends with the goroutine
	if pin {
		if err := pinThread(); err != nil {
			return err
		}
	}
	realtime.AddProcessors(1) // SleepUntil keeps one
	defer realtime.AddProcessors(-1)
	p := pace{tick: w.interval / passes, due: realtime.Now()}
	next := p.due
	for {
		select {
		case <-ctx.Done():
			for _, l := range w.links {
				l.takeDown(realtime.Now())
			}
			return nil
		case f := <-w.orders:
			f(realtime.Now())
			continue
		default:
		}
		if len(w.links) == 0 {
			select {
			case <-ctx.Done():
			case f := <-w.orders:
				f(realtime.Now())
				p.due = realtime.Now()
				next = p.due
			}
			continue
		}
		// Go's runtime preempts goroutines that run for 10 ms with a signal, which ends the sleep: a pass now would be
		// early.
		if realtime.SleepUntil(next) == unix.EINTR {
			continue
		}
		began := realtime.Now()
		w.pass(p.wake(began))
		next = p.rest(began, realtime.Now())
	}
}

// jitter lets all sessions synchronise. RFC 5880 (6.8.7) advises against that for systems that share a network; these
// share a switch, which wakes once for all frames that leave together. An interval may be shorter by a quarter, which
// is a pass.
func (w *watch) jitter() float64 {
	if w.made%passes != 0 {
		return 1
	}
	return 0
}

// pass reads what has arrived, and then does what is due. It uses one time for all that: if the process is paused amid
// it, the next pass is late.
func (w *watch) pass(now, late time.Duration) {
	w.made++
	for _, l := range w.links {
		w.receive(l, now)
		if late > tolerance && l.excuses < maxExcuses {
			l.excuses++
			l.session.Excuse(now, min(late, longestExcuse)+w.interval)
		}
		l.send(now, w.frame[:])
		w.judge(l, now)
	}
}

// judge updates the state of a link from that of its session.
func (w *watch) judge(l *link, now time.Duration) {
	w.enter(l, now, judge(l.state, l.since, now, l.session.Status()))
}

// enter sets the state of a link, and reports it if it has changed.
func (w *watch) enter(l *link, now time.Duration, s State) {
	if l.state == s {
		return
	}
	l.state, l.since = s, now
	l.dead.Store(s == Dead)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	select {
	case w.events <- Event{At: time.Now(), Switch: l.sw, Interface: l.name, State: s}:
	default:
	}
}

func (w *watch) receive(l *link, now time.Duration) {
	for range maxFrames {
		n, err := l.socket.read(w.frame[:])
		if err != nil {
			l.unplugged.Store(true)
		}
		if n == 0 || err != nil {
			return
		}
		p, err := parseFrame(w.frame[:n])
		if err == nil && l.session.Receive(now, p) == nil { // invalid packets do not count
			l.excuses = 0
			w.judge(l, now) // each packet: a goodbye and the hello of the next session may come together
		}
	}
}

func (l *link) send(now time.Duration, frame []byte) {
	for {
		p, ok := l.session.Tick(now)
		if !ok {
			return
		}
		l.socket.write(appendFrame(frame[:0], l.socket.mac, p))
	}
}

// pinThread pins the thread to the last allowed processor: the first has the most work for the kernel.
func pinThread() error {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("which processors there are: %w", err)
	}
	for cpu, left := 0, all.Count(); left > 0; cpu++ {
		if all.IsSet(cpu) {
			left--
			one = unix.CPUSet{}
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("keep to one processor: %w", err)
	}
	return nil
}
