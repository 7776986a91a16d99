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
		{"the peer is silent to us", Alive, 0, bfd.Status{State: bfd.Down, RemoteState: bfd.Down, Diag: bfd.DiagNeighborDown}, Dead},
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
	for i, c := range []struct{ now, at, excuse, due time.Duration }{
		{100 * ms, 100 * ms, 0, 104 * ms},
		{104*ms + tolerance, 104 * ms, 0, 108 * ms}, // as if on time
		{107 * ms, 108 * ms, 0, 112 * ms},           // woken early
		{120 * ms, 120 * ms, 8 * ms, 124 * ms},
		{130 * ms, 130 * ms, 6 * ms, 134 * ms},
		{137 * ms, 137 * ms, 3 * ms, 141 * ms},
		{150 * ms, 150 * ms, 0, 154 * ms}, // late once too often
		{154 * ms, 154 * ms, 0, 158 * ms},
		{168 * ms, 168 * ms, 10 * ms, 172 * ms},
	} {
		at, excuse := p.wake(c.now)
		if at != c.at || excuse != c.excuse || p.due != c.due {
			t.Errorf("pass %d, at %v: time %v, excuse %v, next %v; want %v, %v, %v", i, c.now, at, excuse, p.due, c.at, c.excuse, c.due)
		}
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
