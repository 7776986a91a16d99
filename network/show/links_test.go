package show

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
)

func TestWriteLinks(t *testing.T) {
	short, long, when := 0.0, 41.4, now.Add(-90*time.Second)
	end := func(id string, state string, flaps int, why string) setup.End {
		return setup.End{Switch: "000000000000000" + id, Port: 1, Name: "p1", State: state, Flaps: flaps, Why: why}
	}
	r := &setup.Report{BFD: true, Multiplier: 3, Refused: 2, Links: []setup.Link{
		{Up: true, Since: now.Add(-time.Minute), RTTMs: &short, IntervalMs: 60, LeastMs: 15, FalseAlarms: 2,
			Ends: [2]setup.End{end("1", "up", 1, ""), end("2", "up", 1, "")}},
		{Since: now.Add(-time.Hour), Reason: "probes lost", RTTMs: &long, IntervalMs: 105, LeastMs: 105,
			Ends: [2]setup.End{end("1", "down", 2, ""), end("3", "init", 4, "")},
			Failure: &setup.Failure{Switch: "0000000000000001", Port: 1, At: &when,
				Diagnostic: "Control Detection Time Expired"}},
		{Up: true, Since: now, IntervalMs: 15, LeastMs: 15, Ends: [2]setup.End{end("2", "down", 1, ""),
			end("3", "", 0, "no connection")},
			Failure: &setup.Failure{Switch: "0000000000000002", Port: 1, Diagnostic: "Path Down"}},
	}}
	var b strings.Builder
	if err := WriteLinks(&b, r, now); err != nil {
		t.Fatal(err)
	}
	wantLines(t, b.String(),
		"LINK STATE SINCE REASON ROUND TRIP BFD INTERVAL FLAPS LAST FAILURE",
		"0000000000000001:1 (p1) ─ 0000000000000002:1 (p1) up 1m0s - below 1 ms up 60 ms × 3 (later 15 ms) 1, 1 -",
		"0000000000000001:1 (p1) ─ 0000000000000003:1 (p1) down 1h0m probes lost 41 ms down, init 105 ms × 3 2, 4 "+
			"1m30s ago, 0000000000000001:1: Control Detection Time Expired",
		"0000000000000002:1 (p1) ─ 0000000000000003:1 (p1) up 0s - not measured none 15 ms × 3 - before this "+
			"leader, 0000000000000002:1: Path Down",
		"0000000000000003:1 (p1): no connection",
		"1 of 3 links have no BFD. If one of these loses packets while its ports look fine, no switch notices: the "+
			"probes of",
		"application topology do, after 9 to 12 s. A port that loses its carrier is noticed at once.",
		"BFD detects a dead link within 315 ms. On 1 of 2 links it is slower than it could be, because there was a "+
			"false alarm",
		"or the link is new: 2 false alarms since this controller leads.",
		"2 links are not watched: there are too many",
	)
	b.Reset()
	off := &setup.Report{Links: []setup.Link{{Up: true, Since: now, Ends: [2]setup.End{end("1", "", 0, setup.TurnedOff),
		end("2", "", 0, setup.TurnedOff)}}, {Up: true, Since: now,
		Ends: [2]setup.End{end("1", "", 0, setup.NotRead+"refused"), end("3", "", 0, setup.NotRead+"refused")}}}}
	if err := WriteLinks(&b, off, now); err != nil || strings.Count(b.String(), setup.TurnedOff) != 1 ||
		strings.Count(b.String(), setup.NotRead) != 1 || !strings.Contains(b.String(), "2 of 4 ends cannot be read") {
		t.Errorf("turned off: %q, error %v", b.String(), err)
	}
	b.Reset()
	if err := WriteLinks(&b, &setup.Report{}, now); err != nil ||
		b.String() != "no link between two switches was found yet\n" {
		t.Errorf("without links: %q, error %v", b.String(), err)
	}
}

// A switch cannot control the terminal by the names of its ports.
func TestPortNamesAreEscaped(t *testing.T) {
	got := linkEnd(setup.End{Switch: "0000000000000001", Port: 2, Name: "a\x1b[2J"})
	if want := `0000000000000001:2 (a\x1b[2J)`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
