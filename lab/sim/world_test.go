package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func started(w *world, name string) *process {
	p := w.newProcess(name)
	p.start()
	return p
}

func runTo(t *testing.T, w *world, until time.Duration) {
	t.Helper()
	if err := w.run(until); err != nil {
		t.Fatal(err)
	}
}

// recorder collects what steps report, with the time.
type recorder struct {
	w    *world
	said []string
}

func (r *recorder) say(what string) func() {
	return func() { r.said = append(r.said, fmt.Sprintf("%v %s", r.w.now, what)) }
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.said, want) {
		t.Errorf("got  %q\nwant %q", r.said, want)
	}
}

func TestStepsRunInOrder(t *testing.T) {
	w := newWorld(1)
	type at struct {
		at  time.Duration
		seq int
	}
	var ran, want []at
	for i := range 5000 {
		s := at{time.Duration(w.rand.IntN(50)) * ms, i}
		want = append(want, s)
		w.after(s.at, nil, func() { ran = append(ran, at{w.now, s.seq}) })
	}
	slices.SortStableFunc(want, func(a, b at) int { return int(a.at - b.at) })
	runTo(t, w, time.Second)
	if !slices.Equal(ran, want) {
		t.Error("steps ran in another order than that of time, and of scheduling at the same time")
	}
	if w.now != time.Second || len(w.queue) != 0 {
		t.Errorf("at %v, with %d steps left", w.now, len(w.queue))
	}
}

func TestRunStopsInTime(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	w.after(2*ms, nil, r.say("b"))
	w.after(ms, nil, func() { r.say("a")(); w.after(0, nil, r.say("now")); w.after(-ms, nil, r.say("past")) })
	w.after(2*ms+1, nil, r.say("late"))
	runTo(t, w, 2*ms)
	r.want(t, "1ms a", "1ms now", "1ms past", "2ms b")
}

func TestKillDropsSteps(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	p := w.newProcess("p")
	p.after(ms, r.say("before the start"))
	p.start()
	p.after(3*ms, r.say("of the first incarnation"))
	p.every(ms, r.say("tick"))
	w.after(2*ms, nil, p.kill)
	w.after(2*ms+1, nil, func() { p.after(0, r.say("while down")) })
	w.after(2*ms+2, nil, func() { p.start(); p.after(4*ms, r.say("of the second")) })
	runTo(t, w, 10*ms)
	r.want(t, "1ms tick", "6.000002ms of the second") // the tick at 2ms was scheduled after the kill
}

func TestPause(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	p, other := started(w, "p"), started(w, "other")
	p.every(2*ms, r.say("tick"))
	p.after(5*ms, func() { r.say("b")(); p.after(0, r.say("c")) })
	p.after(4*ms+1, r.say("a"))
	other.after(5*ms, r.say("other"))
	w.after(3*ms, nil, func() { p.pause(4 * ms) })
	w.after(4*ms, nil, func() { p.pause(6 * ms); p.pause(ms) }) // the longest pause counts
	runTo(t, w, 15*ms)
	r.want(t, "2ms tick", "5ms other", "10ms tick", "10ms a", "10ms b", "10ms c", "12ms tick", "14ms tick")
}

func TestPauseEndsWithIncarnation(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	p := started(w, "p")
	p.pause(10 * ms)
	p.after(ms, r.say("old"))
	w.after(2*ms, nil, func() { p.kill(); p.start(); p.after(ms, r.say("new")) })
	w.after(4*ms, nil, func() { p.pause(20 * ms); p.after(0, r.say("waits")) })
	runTo(t, w, 30*ms)
	r.want(t, "3ms new", "24ms waits")
}

func TestKillWhileResuming(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	p := started(w, "p")
	p.after(ms, r.say("a"))
	p.after(2*ms, func() { p.kill(); p.start() })
	p.after(3*ms, r.say("never"))
	p.pause(5 * ms)
	runTo(t, w, 10*ms)
	r.want(t, "5ms a")
}

func TestPauseWhileResuming(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	p := started(w, "p")
	p.after(ms, func() { p.pause(5 * ms) })
	p.after(2*ms, r.say("a"))
	p.pause(3 * ms)
	p.after(4*ms, r.say("b"))
	runTo(t, w, 20*ms)
	r.want(t, "8ms a", "8ms b")
}

func TestClock(t *testing.T) {
	w := newWorld(1)
	p := started(w, "p")
	at := func(want time.Duration) {
		t.Helper()
		if got := p.clock().Sub(origin); got != want {
			t.Errorf("at %v the clock shows %v, want %v", w.now, got, want)
		}
	}
	at(0)
	runTo(t, w, time.Second)
	at(time.Second)
	p.skew(1.5)
	runTo(t, w, 3*time.Second)
	at(4 * time.Second)
	p.jump(-2 * time.Second)
	at(2 * time.Second)
	p.kill() // the clock belongs to the machine, not to the process
	p.start()
	p.skew(1)
	runTo(t, w, 4*time.Second)
	at(3 * time.Second)
}

func TestFirstFailureEndsRun(t *testing.T) {
	w := newWorld(1)
	r := &recorder{w: w}
	w.after(ms, nil, func() { w.fail("first %d", 1); w.fail("second") })
	w.after(ms, nil, r.say("after it"))
	err := w.run(time.Second)
	if err == nil || err.Error() != "at 1ms: first 1" {
		t.Errorf("error %v", err)
	}
	if again := w.run(2 * time.Second); again != err {
		t.Errorf("then %v", again)
	}
	r.want(t)
}

func TestTimeMustPass(t *testing.T) {
	w := newWorld(1)
	var again func()
	again = func() { w.after(0, nil, again) }
	again()
	if err := w.run(ms); err == nil || !strings.Contains(err.Error(), "time does not pass") {
		t.Errorf("error %v", err)
	}
}

func TestTimeline(t *testing.T) {
	w := newWorld(1)
	p := w.newProcess("c1")
	w.note(nil, "begin")
	for i := range timelineLines + 10 {
		w.after(time.Duration(i)*ms, nil, func() { w.note(p, "line %d", i) })
	}
	runTo(t, w, 10*ms)
	if got, want := w.timeline()[:2], []string{"    0.000000 s  -        begin",
		"    0.000000 s  c1       line 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	runTo(t, w, time.Second)
	lines := w.timeline()
	if len(lines) != timelineLines || !strings.HasSuffix(lines[0], "line 10") ||
		!strings.HasSuffix(lines[timelineLines-1], "line 409") {
		t.Errorf("%d lines from %q to %q", len(lines), lines[0], lines[len(lines)-1])
	}
}

func BenchmarkSteps(b *testing.B) {
	w := newWorld(1)
	steps := 0
	for i := range 20 {
		started(w, "p").every(time.Duration(9500+i*50)*time.Microsecond, func() { steps++ })
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.run(w.now + time.Second); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
