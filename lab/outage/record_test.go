package outage

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// play returns the record of a stream of one frame per millisecond, of which those that lost selects do not arrive.
func play(frames int, lost func(n int) bool) *record {
	r := &record{}
	for i := range frames {
		if n := r.send(time.Duration(i) * ms); !lost(n) {
			r.receive(n)
		}
	}
	return r
}

func TestOutage(t *testing.T) {
	between := func(from, to int) func(int) bool { return func(n int) bool { return n >= from && n < to } }
	for _, c := range []struct {
		name       string
		lost       func(int) bool
		since, now time.Duration
		want       time.Duration
		over       bool
	}{
		{"nothing is lost", between(0, 0), 100 * ms, 500 * ms, 0, false},
		{"a gap", between(110, 145), 100 * ms, 500 * ms, 35 * ms, true},
		{"lost before the cut", between(80, 99), 100 * ms, 500 * ms, 0, false},
		{"a gap that was there before the cut", between(90, 110), 100 * ms, 500 * ms, 10 * ms, true},
		{"it stutters", func(n int) bool { return between(110, 120)(n) || n == 125 }, 100 * ms, 500 * ms, 16 * ms,
			true},
		{"it lasts", between(110, 500), 100 * ms, 500 * ms, 0, false},
		{"too few have come again", between(110, 145), 100 * ms, 200 * ms, 0, false},
		{"the newest may be on their way", func(n int) bool { return between(110, 145)(n) || n >= 290 }, 100 * ms,
			305 * ms, 35 * ms, true},
		{"the newest are lost", func(n int) bool { return between(110, 145)(n) || n >= 280 }, 100 * ms, 305 * ms, 0,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := play(int(min(c.now, 500*ms)/ms), c.lost)
			got, over := r.outage(c.since, c.now)
			if got.Outage != c.want || over != c.over {
				t.Errorf("outage %v, over %v; want %v, %v", got.Outage, over, c.want, c.over)
			}
		})
	}
}

// A sender that is late makes the measurement coarser, and the record says so.
func TestResolution(t *testing.T) {
	r := &record{}
	for i, at := range []time.Duration{0, 1, 2, 9, 10, 11, 14, 15, 100} {
		if n := r.send(at * ms); i < 3 || i > 5 {
			r.receive(n)
		}
	}
	got, over := r.outage(0, 200*ms)
	if want := (Sample{Outage: 5 * ms, Resolution: 7 * ms}); got != want || !over {
		t.Errorf("%+v, over %v; want %+v", got, over, want)
	}
}

func TestForget(t *testing.T) {
	r := play(100, func(n int) bool { return n == 3 || n == 7 || n == 95 })
	if lost := r.forget(99 * ms); lost != 2 { // 80 to 99 may still arrive
		t.Errorf("%d lost, want 2", lost)
	}
	r.receive(95)
	r.receive(3) // too late
	if lost := r.forget(200 * ms); lost != 0 || r.send(200*ms) != 100 {
		t.Errorf("%d lost, want 0; then %+v", lost, r)
	}
}

// However the record is trimmed, each lost frame is counted once, and the numbers continue.
func TestForgetProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lost := rapid.SliceOfN(rapid.Bool(), 1, 300).Draw(t, "lost")
		r, want, got := &record{}, 0, 0
		for i, l := range lost {
			n := r.send(time.Duration(i) * ms)
			if n != i {
				t.Fatalf("frame %d has number %d", i, n)
			}
			if l {
				want++
			} else {
				r.receive(n)
			}
			if rapid.Bool().Draw(t, "forget") {
				got += r.forget(time.Duration(i) * ms)
			}
		}
		if got += r.forget(time.Hour); got != want || len(r.sent) != 0 {
			t.Errorf("%d lost, want %d; %d are left", got, want, len(r.sent))
		}
	})
}

func TestRecordIsBounded(t *testing.T) {
	r := &record{}
	for range maxFrames {
		r.send(0)
	}
	if n := r.send(0); n != -1 || !r.full() {
		t.Errorf("frame %d, full %v", n, r.full())
	}
}
