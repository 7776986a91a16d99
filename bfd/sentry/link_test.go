package sentry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		was  State
		age  time.Duration
		s    bfd.Status
		want State
	}{
		{"nobody there", Unwatched, time.Hour, bfd.Status{State: bfd.Down}, Unwatched},
		{"coming up", Unwatched, 0, bfd.Status{State: bfd.Init, RemoteState: bfd.Down}, Unwatched},
		{"up", Unwatched, 0, bfd.Status{State: bfd.Up, RemoteState: bfd.Up}, Alive},
		{"silent", Alive, time.Hour, bfd.Status{State: bfd.Down, RemoteState: bfd.Up, Diag: bfd.DiagExpired}, Dead},
		{"the peer is silent to us", Alive, 0, bfd.Status{State: bfd.Down, RemoteState: bfd.Down,
			Diag: bfd.DiagNeighborDown}, Dead},
		{"the peer has ended", Alive, 0, bfd.Status{State: bfd.Down, RemoteState: bfd.AdminDown}, Unwatched},
		{"still dead", Dead, Hold - 1, bfd.Status{State: bfd.Down}, Dead},
		{"dead for long", Dead, Hold, bfd.Status{State: bfd.Down}, Unwatched},
		{"back", Dead, 0, bfd.Status{State: bfd.Up}, Alive},
		{"nearly back, for long", Dead, Hold, bfd.Status{State: bfd.Init}, Unwatched},
	} {
		if got := judge(c.was, 7, 7+c.age, c.s); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	p := pace{tick: 4 * ms, due: 100 * ms}
	for i, c := range []struct{ now, at, late, due time.Duration }{
		{100 * ms, 100 * ms, 0, 104 * ms},
		{104*ms + tolerance, 104 * ms, tolerance, 108 * ms}, // as if on time
		{107 * ms, 108 * ms, -ms, 112 * ms},                 // woken early
		{120 * ms, 120 * ms, 8 * ms, 122 * ms},
		{122 * ms, 122 * ms, 0, 126 * ms},
	} {
		at, late := p.wake(c.now)
		if at != c.at || late != c.late || p.due != c.due {
			t.Errorf("pass %d, at %v: time %v, late %v, next %v; want %v, %v, %v", i, c.now, at, late, p.due, c.at,
				c.late, c.due)
		}
	}
	for _, c := range []struct{ ended, until time.Duration }{{123 * ms, 126 * ms}, {125 * ms, 128 * ms},
		{127 * ms, 131 * ms}, {150 * ms, 154 * ms}} {
		if got := p.rest(122*ms, c.ended); got != c.until {
			t.Errorf("after a pass until %v the next is at %v, want %v", c.ended, got, c.until)
		}
	}
	if _, late := p.wake(154 * ms); late != 28*ms {
		t.Errorf("after a stop amid a pass the next is late by %v: peers would be taken for silent", late)
	}
}

func TestStateText(t *testing.T) {
	for s := Unwatched; s <= Dead; s++ {
		text, err := json.Marshal(Event{State: s})
		var back Event
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back.State != s {
			t.Errorf("%v: %s, %v, %v", s, text, back.State, err)
		}
	}
	if err := new(State).UnmarshalText([]byte("up")); err == nil {
		t.Error("no state is called up")
	}
}
