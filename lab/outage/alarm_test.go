package outage

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// clock is a wall clock for tests.
var clock = time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC)

func at(d time.Duration) time.Time { return clock.Add(d) }

// Log lines of Open vSwitch 3.1.0.
const logged = `2026-01-31T23:59:59.001Z|00049|bfd|INFO|p1: BFD state change: admin_down->down "No Diagnostic"->"No Diagnostic".
  Forwarding: false
  Detect Multiplier: 3
2026-01-31T23:59:59.020Z|00052|bfd(monitor12)|INFO|p12: BFD state change: up->down "No Diagnostic"->"Control Detection Time Expired".
  Forwarding: false
2026-01-31T23:59:59.021Z|00053|bfd(monitor12)|INFO|p1: BFD state change: down->up "No Diagnostic"->"No Diagnostic".
2026-01-31T23:59:59.022Z|00054|bridge|INFO|bridge br0: using datapath ID 0000000000000001
2026-01-31T23:59:59.030Z|00055|bfd|INFO|p12: BFD state change: up->down "No Diagnostic"->"Neighbor Signaled Session Down".
no time|00056|bfd|INFO|p1: BFD state change: up->down ""->"".
: BFD state change: up->down `

func TestParseDowns(t *testing.T) {
	got, err := parseDowns(strings.NewReader(logged))
	want := map[string][]time.Time{"p12": {at(20 * ms), at(30 * ms)}}
	if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, error %v; want %v", got, err, want)
	}
}

func TestFalseAlarms(t *testing.T) {
	cable := func(a, b openflow.DatapathID) paths.Link {
		return paths.Both(paths.End{Switch: a, Port: 1}, paths.End{Switch: b, Port: 2}, 1)[0]
	}
	cut, whole, back := cable(1, 2), cable(2, 3), cable(3, 4)
	cuts := map[paths.Link][]span{cut: {{at(100 * ms), at(120 * ms)}, {at(300 * ms), at(320 * ms)}},
		back.Reverse(): {{at(200 * ms), at(220 * ms)}}}
	type downs = map[paths.End][]time.Time
	for _, c := range []struct {
		name  string
		downs downs
		want  []time.Time
	}{
		{"none", nil, nil},
		{"only cuts", downs{cut.From: {at(105 * ms), at(305 * ms)}, cut.To: {at(100 * ms), at(320 * ms)},
			back.To: {at(210 * ms)}}, nil},
		{"both ends see it", downs{whole.From: {at(50 * ms)}, whole.To: {at(51 * ms)}}, []time.Time{at(50 * ms)}},
		{"one end sees it", downs{whole.To: {at(50 * ms)}}, []time.Time{at(50 * ms)}},
		{"one end sees more", downs{whole.From: {at(70 * ms)}, whole.To: {at(50 * ms), at(70 * ms)}},
			[]time.Time{at(50 * ms), at(70 * ms)}},
		{"while another is cut", downs{whole.From: {at(110 * ms)}}, []time.Time{at(110 * ms)}},
		{"of a link that is cut too", downs{cut.From: {at(105 * ms), at(121 * ms), at(305 * ms)},
			back.To: {at(105 * ms)}}, []time.Time{at(105 * ms), at(121 * ms)}},
		{"before and after", downs{whole.From: {at(-ms), at(401 * ms)}}, nil},
	} {
		if got := falseAlarms([]paths.Link{cut, whole, back}, c.downs, cuts,
			span{at(0), at(400 * ms)}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
