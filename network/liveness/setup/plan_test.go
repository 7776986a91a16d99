package setup

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/pace"
)

const ms = time.Millisecond

func at(id app.Switch, p app.Port) app.PortOf { return app.PortOf{Switch: id, Port: p} }

func TestPlan(t *testing.T) {
	view := &liveness.View{
		Links: []liveness.Link{
			{A: at(1, 1), B: at(2, 1), Up: true},
			{A: at(1, 2), B: at(3, 1), RTT: 40200 * time.Microsecond}, // is down
		},
		Former: []app.PortOf{at(2, 7)},
	}
	addresses := map[app.Switch]string{1: "10.0.0.1:40000", 2: "[fe80::2]:40000"} // that of 3 is unknown
	type plan = map[string][]end
	for _, c := range []struct {
		name string
		cfg  Config
		want plan
	}{
		{"by address", Config{Enabled: true, Database: "tcp:{address}:6640", Floor: 15 * ms}, plan{
			"tcp:10.0.0.1:6640": {{at(1, 1), 100 * ms, at(2, 1), true, false},
				{at(1, 2), 105 * ms, at(3, 1), false, false}},
			"tcp:[fe80::2]:6640": {{at(2, 1), 100 * ms, at(1, 1), true, false}, {at: at(2, 7)}},
		}},
		{"by datapath id", Config{Enabled: true, Database: "unix:/run/{dpid}.sock", Floor: 200 * ms}, plan{
			"unix:/run/0000000000000001.sock": {{at(1, 1), 200 * ms, at(2, 1), true, false},
				{at(1, 2), 200 * ms, at(3, 1), false, false}},
			"unix:/run/0000000000000002.sock": {{at(2, 1), 200 * ms, at(1, 1), true, false}, {at: at(2, 7)}},
			"unix:/run/0000000000000003.sock": {{at(3, 1), 200 * ms, at(1, 2), false, false}},
		}},
		{"one database of all, and turned off", Config{Database: "tcp:10.0.0.9:6640", Floor: 15 * ms}, plan{
			"tcp:10.0.0.9:6640": {{at(1, 1), 0, at(2, 1), true, false}, {at(1, 2), 0, at(3, 1), false, false},
				{at(2, 1), 0, at(1, 1), true, false}, {at: at(2, 7)}, {at(3, 1), 0, at(1, 2), false, false}},
		}},
	} {
		got := c.cfg.plan(view, addresses, pace.New(3))
		for _, ends := range got {
			slices.SortFunc(ends, func(a, b end) int {
				return cmp.Or(cmp.Compare(a.at.Switch, b.at.Switch), cmp.Compare(a.at.Port, b.at.Port))
			})
		}
		if diff := gocmp.Diff(c.want, got, gocmp.AllowUnexported(end{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A measurement that differs slightly changes no interval.
func TestIntervalHasSteps(t *testing.T) {
	c := Config{Enabled: true, Floor: 15 * ms}
	a, b := c.least(liveness.Link{RTT: 40100 * time.Microsecond}),
		c.least(liveness.Link{RTT: 41900 * time.Microsecond})
	if a != b || a != 105*ms {
		t.Errorf("intervals %v and %v", a, b)
	}
}

// BFD is set up where it can run at both ends, and removed where it certainly cannot.
func TestNext(t *testing.T) {
	theirs := errors.New("theirs")
	on, off := end{interval: ms, up: true, paced: true}, end{up: true}
	onDown := end{interval: ms, paced: true}
	for _, c := range []struct {
		what string
		end  end
		now  state
		want step
		why  error
	}{
		{"nothing there", on, state{peer: ready}, setUp, nil},
		{"nothing there, of a link that is down", onDown, state{peer: ready}, setUp, nil},
		{"ours, and as it should be", on, state{ours: true, done: true, peer: ready}, leave, nil},
		{"ours, with another interval", on, state{ours: true, peer: ready}, setUp, nil},
		{"ours, with another interval, and the other database is away", on, state{ours: true, peer: unknown}, setUp,
			nil},
		{"ours, with an interval of an earlier leader", end{interval: ms, up: true}, state{ours: true, peer: ready},
			leave, nil},
		{"theirs", on, state{foreign: theirs, peer: ready}, leave, theirs},
		{"turned off", off, state{ours: true, peer: ready}, remove, nil},
		{"turned off, and theirs", off, state{foreign: theirs}, leave, nil},
		{"nothing is known of the other end", on, state{peer: unknown}, leave, errAlone},
		{"the other end is turned off", on, state{peer: refused}, leave, errRefused},
		{"the other end was turned off", on, state{ours: true, done: true, peer: refused}, remove, errRefused},
		{"down, and the other end has a database", on, state{ours: true, done: true, peer: ready, down: time.Hour},
			leave, nil},
		{"down, and the other end has none yet", on, state{ours: true, done: true, peer: unknown, down: orphanAfter},
			leave, nil},
		{"down, and the other end has none any more", on,
			state{ours: true, done: true, peer: unknown, down: orphanAfter + 1}, remove, errAlone},
		{"down like the link", onDown, state{ours: true, done: true, peer: unknown, down: time.Hour}, leave, nil},
	} {
		if got, why := next(c.end, c.now); got != c.want || why != c.why {
			t.Errorf("%s: step %d because of %v, want %d because of %v", c.what, got, why, c.want, c.why)
		}
	}
}

func TestWhichFailureTellsMore(t *testing.T) {
	now := time.Now()
	noticed, told := "Control Detection Time Expired", "Neighbor Signaled Session Down"
	for _, c := range []struct {
		what     string
		f, other failure
		want     bool
	}{
		{"later", failure{now.Add(time.Minute), told}, failure{now, noticed}, true},
		{"earlier", failure{now, noticed}, failure{now.Add(time.Minute), told}, false},
		{"noticed, and told", failure{now, noticed}, failure{now, told}, true},
		{"told, and noticed", failure{now, told}, failure{now, noticed}, false},
		{"seen, and from before", failure{now, told}, failure{time.Time{}, noticed}, true},
	} {
		if got := c.f.tells(&c.other); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
