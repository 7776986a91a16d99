package appctl

import (
	"maps"
	"testing"
	"time"
)

const ms = time.Millisecond

// What Open vSwitch 3.1.0 prints: a session that is up, and one just after it was set up. What is not read is left out.
const shown = `---- p1 ----
	Forwarding: true
	Detect Multiplier: 4
	TX Interval: Approx 15ms
	RX Interval: Approx 15ms
	Detect Time: now +51ms
	Next TX Time: now +6ms

	Local Session State: up

---- p12 ----
	Forwarding: false
	TX Interval: Approx 1000ms
	RX Interval: Approx 15ms
	Detect Time: now -37465374ms
`

func TestSessions(t *testing.T) {
	want := map[string]Session{"p1": {true, 15 * ms, 15 * ms, 51 * ms},
		"p12": {false, time.Second, 15 * ms, -37465374 * ms}}
	if got := Sessions(shown); !maps.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, text := range []string{"", "no session\n", "---- p1", "Forwarding: true\n---- \n"} {
		if got := Sessions(text)["p1"]; got.Forwarding {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
