package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// timelineLines is how much of the timeline is kept.
	timelineLines = 400
	// maxStepsAtOnce bounds the steps of one instant: more is a loop without end.
	maxStepsAtOnce = 1 << 20
)

// origin is the wall clock when a simulation begins.
var origin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Violation is the first thing that went wrong in a run.
type Violation struct {
	At   time.Duration `json:"at_ns"` // since the start of the simulation
	Text string        `json:"text"`
}

func (v *Violation) Error() string { return fmt.Sprintf("at %v: %s", v.At, v.Text) }

// world is virtual time, what is to happen in it, and the one source of randomness.
type world struct {
	now       time.Duration // since the start of the simulation
	rand      *rand.Rand
	queue     queue
	scheduled uint64 // steps so far
	atOnce    int    // steps of this instant
	violation *Violation
	observers []observer
	lines     []line // a ring once it is full
	noted     int    // lines so far
}

// observer learns what happens to processes. It is called before a killed process counts as another
// incarnation, and after one has started.
type observer interface {
	started(p *process)
	killed(p *process, power bool)
}

func newWorld(seed uint64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 0x686f6c6466617374))}
}

// after schedules a step in d, of a process or, if p is nil, of the world itself. Steps of the
// same instant run in the order in which they were scheduled. A step of a process runs only if
// that incarnation is still up; while it is paused, the step waits.
func (w *world) after(d time.Duration, p *process, f func()) {
	s := step{at: w.now + max(d, 0), seq: w.scheduled, f: f}
	if p != nil {
		if !p.up {
			return
		}
		s.p, s.incarnation = p, p.incarnation
	}
	w.scheduled++
	w.queue.push(s)
}

// run takes the steps in order until then, or until one of them has failed.
func (w *world) run(until time.Duration) error {
	for w.violation == nil && len(w.queue) > 0 && w.queue[0].at <= until {
		s := w.queue.pop()
		if s.at > w.now {
			w.now, w.atOnce = s.at, 0
		}
		if w.atOnce++; w.atOnce > maxStepsAtOnce {
			w.fail("%d steps and time does not pass", w.atOnce)
			break
		}
		s.run()
	}
	if w.violation != nil {
		return w.violation
	}
	w.now = max(w.now, until)
	return nil
}

// upTo draws a time up to d.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d) + 1))
}

// fail ends the run. Only the first failure counts.
func (w *world) fail(format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{At: w.now, Text: fmt.Sprintf(format, args...)}
	}
}

// line is one of the timeline, formatted only when somebody reads it.
type line struct {
	at     time.Duration
	p      *process
	format string
	args   []any
}

// note adds a line to the timeline, of a process or, if p is nil, of the world. The arguments must
// not change afterwards.
func (w *world) note(p *process, format string, args ...any) {
	l := line{w.now, p, format, args}
	if len(w.lines) < timelineLines {
		w.lines = append(w.lines, l)
	} else {
		w.lines[w.noted%timelineLines] = l
	}
	w.noted++
}

// timeline returns the last lines, the oldest first.
func (w *world) timeline() []string {
	text := make([]string, 0, len(w.lines))
	for i := range w.lines {
		l := w.lines[(w.noted-len(w.lines)+i)%len(w.lines)]
		name := "-"
		if l.p != nil {
			name = l.p.name
		}
		text = append(text, fmt.Sprintf("%12.6f s  %-8s %s", l.at.Seconds(), name, fmt.Sprintf(l.format, l.args...)))
	}
	return text
}

// process is what a kill ends and a pause stops: a controller, an agent, a switch.
type process struct {
	name string
	up   bool

	w           *world
	incarnation uint32
	off         bool // its machine has no power
	paused      bool
	pausedUntil time.Duration
	waiting     []step // steps that came due in a pause, oldest first

	// The wall clock, linear since the last change.
	clockAt   time.Duration // when it changed
	clockThen time.Duration // what it showed, since origin
	clockRate float64
	late      time.Duration // how far it was set back in all
}

// newProcess makes one that is not started.
func (w *world) newProcess(name string) *process {
	return &process{name: name, w: w, clockRate: 1}
}

func (w *world) observe(o observer) { w.observers = append(w.observers, o) }

// start begins an incarnation. It does nothing if the process is up.
func (p *process) start() {
	if p.up {
		return
	}
	p.up, p.off = true, false
	for _, o := range p.w.observers {
		o.started(p)
	}
}

// kill ends the process at once; its machine goes on.
func (p *process) kill() { p.end(false) }

// powerOff crashes the machine, which has power again when the process is started. If the process
// is down already, only the machine is lost.
func (p *process) powerOff() { p.end(true) }

func (p *process) end(power bool) {
	if !p.up && (!power || p.off) {
		return
	}
	for _, o := range p.w.observers {
		o.killed(p, power)
	}
	if p.up {
		p.incarnation++
	}
	p.up, p.off, p.paused, p.waiting = false, power, false, nil
}

// pause stops the process for a while, as SIGSTOP or a garbage collector does. What comes due
// meanwhile runs at the end of it, oldest first.
func (p *process) pause(d time.Duration) {
	if !p.up || d <= 0 || p.paused && p.w.now+d <= p.pausedUntil {
		return
	}
	p.paused, p.pausedUntil = true, p.w.now+d
	incarnation := p.incarnation
	p.w.after(d, nil, func() {
		if p.incarnation == incarnation && p.paused && p.w.now >= p.pausedUntil {
			p.resume()
		}
	})
}

// resume ends a pause.
func (p *process) resume() {
	p.paused = false
	incarnation := p.incarnation
	for len(p.waiting) > 0 && !p.paused && p.w.violation == nil {
		f := p.waiting[0].f
		p.waiting = p.waiting[1:]
		f()
		if p.incarnation != incarnation {
			return
		}
	}
}

// clock is the process's wall clock.
func (p *process) clock() time.Time {
	return origin.Add(p.clockThen + time.Duration(float64(p.w.now-p.clockAt)*p.clockRate))
}

// skew lets the clock run at another rate from now on; 1 is right.
func (p *process) skew(rate float64) {
	p.jump(0)
	p.clockRate = rate
}

// jump sets the clock forward, or back.
func (p *process) jump(d time.Duration) {
	p.late += max(0, -d)
	p.clockThen = p.clock().Sub(origin) + d
	p.clockAt = p.w.now
}

// after schedules a step of this incarnation.
func (p *process) after(d time.Duration, f func()) { p.w.after(d, p, f) }

// every runs f again and again, as long as this incarnation lives. Like a time.Ticker it keeps
// its phase, and what a pause made it miss is one call.
func (p *process) every(d time.Duration, f func()) {
	t := &ticker{p: p, period: d, due: p.w.now + d, f: f}
	t.tick = t.run
	p.after(d, t.tick)
}

type ticker struct {
	p      *process
	period time.Duration
	due    time.Duration
	f      func()
	tick   func() // run, made once
}

func (t *ticker) run() {
	now := t.p.w.now
	t.due += t.period * (1 + (now-t.due)/t.period)
	t.p.after(t.due-now, t.tick)
	t.f()
}

// step is something that happens at a time.
type step struct {
	at          time.Duration
	seq         uint64 // in order of scheduling
	p           *process
	f           func()
	incarnation uint32
}

func (s *step) run() {
	switch p := s.p; {
	case p == nil:
		s.f()
	case !p.up || p.incarnation != s.incarnation:
	case p.paused:
		p.waiting = append(p.waiting, *s)
	default:
		s.f()
	}
}

func (s *step) before(o *step) bool { return s.at < o.at || s.at == o.at && s.seq < o.seq }

// queue is a heap of steps, four children to a parent: it is pushed and popped a million times a
// second, and this is half as deep as a binary one.
type queue []step

func (q *queue) push(s step) {
	h := append(*q, s)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !s.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = s
	*q = h
}

func (q *queue) pop() step {
	h := *q
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = step{}
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		least := 4*i + 1
		if least >= len(h) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return top
}
