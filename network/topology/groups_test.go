package topology

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// sites is a network whose switches, and the graph, are in several groups.
type sites struct {
	t      apptest.Tester
	net    *apptest.Net
	wires  map[app.PortOf]app.PortOf
	ports  map[app.PortOf]bool // up; of all switches, also of those that are down
	down   map[app.Switch]bool
	frames []arrival
	probes int // that have arrived
	told   []any
}

func newSites(t apptest.Tester, groups uint64) *sites {
	s := &sites{t: t, wires: map[app.PortOf]app.PortOf{}, ports: map[app.PortOf]bool{}, down: map[app.Switch]bool{}}
	ear := app.New("ear").Whole()
	app.HandleEmitted(ear, nil, func(_ *app.Tx, m LinkUp) error { s.told = append(s.told, m); return nil })
	app.HandleEmitted(ear, nil, func(_ *app.Tx, m LinkDown) error { s.told = append(s.told, m); return nil })
	s.net = apptest.NewOf(t, groups, New(), ear)
	return s
}

// took moves probes over the wires.
func (s *sites) took(sent []apptest.Sent) {
	s.t.Helper()
	for _, c := range sent {
		if m, ok := c.Message.(*of13.PacketOut); ok {
			for a := range m.Actions.All() {
				from := at(c.Switch, a.Port)
				if to, wired := s.wires[from]; wired && s.alive(from) && s.alive(to) {
					s.frames = append(s.frames, arrival{to, m.Data})
				}
			}
		}
	}
	for len(s.frames) > 0 {
		f := s.frames[0]
		s.frames = s.frames[1:]
		s.probes++
		if s.alive(f.at) {
			s.took(s.net.PacketIn(f.at.Switch, f.at.Port, of13.NoBuffer, string(f.frame)))
		}
	}
}

func (s *sites) alive(p app.PortOf) bool { return s.ports[p] && !s.down[p.Switch] }

func (s *sites) start(id app.Switch) {
	s.t.Helper()
	s.down[id] = false
	var list []of13.PortDesc
	for _, p := range slices.SortedFunc(maps.Keys(s.ports), app.PortOf.Compare) {
		if p.Switch == id {
			list = append(list, portDesc(id, p.Port, s.ports[p]))
		}
	}
	s.took(s.net.SwitchUp(id, list...))
}

func (s *sites) stop(id app.Switch) {
	s.t.Helper()
	s.down[id] = true
	s.took(s.net.SwitchDown(id))
}

func (s *sites) setPort(p app.PortOf, up bool) {
	s.t.Helper()
	if s.ports[p] = up; !s.down[p.Switch] {
		s.took(s.net.Message(p.Switch, &of13.PortStatus{Reason: of13.PortModify,
			Port: portDesc(p.Switch, p.Port, up)}, 0))
	}
}

// advance lets time pass, in steps between which some of the frames between groups arrive.
func (s *sites) advance(d time.Duration, frames func(waiting int) int) {
	s.t.Helper()
	const step = 50 * time.Millisecond
	for ; d > 0; d -= step {
		s.took(s.net.Advance(step))
		for n := s.net.Waiting(); n > 0; n = s.net.Waiting() {
			i := frames(n)
			if i < 0 {
				break
			}
			s.took(s.net.Deliver(i))
		}
	}
}

func oldest(int) int { return 0 }

func (s *sites) wiring() (list []Link) {
	for from, to := range s.wires {
		if s.alive(from) && s.alive(to) {
			list = append(list, Link{from, to})
		}
	}
	slices.SortFunc(list, func(a, b Link) int { return a.From.Compare(b.From) })
	return list
}

func (s *sites) view() *Snapshot {
	s.t.Helper()
	v, err := Of(slices.Values(s.net.Rows(Name)))
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	return v
}

// Probes of links that are known stay in the group of the switch where they arrive.
func TestProbesStayInTheirGroup(t *testing.T) {
	s := newSites(t, 3)
	for id := app.Switch(1); id <= 6; id++ { // a ring
		s.wires[at(id, 2)], s.wires[at(id%6+1, 1)] = at(id%6+1, 1), at(id, 2)
		for p := app.Port(1); p <= 3; p++ {
			s.ports[at(id, p)] = true
		}
	}
	for id := app.Switch(1); id <= 6; id++ {
		s.start(id)
	}
	s.advance(2*Interval, oldest)
	if got := s.view().linksUp(); !slices.Equal(got, s.wiring()) {
		t.Fatalf("links %v, wired are %v", got, s.wiring())
	}
	passed, probes := s.net.Passed, s.probes
	s.advance(10*Interval, oldest)
	if n := s.net.Passed - passed; n != 0 || s.probes-probes < 100 {
		t.Errorf("%d frames passed between groups, for %d probes", n, s.probes-probes)
	}
	delete(s.wires, at(1, 2)) // one direction
	s.told = nil
	s.advance(2*Interval, oldest)
	if got := s.view().linksUp(); len(got) != 12 {
		t.Errorf("links %v", got)
	}
	s.advance(2*Interval+time.Millisecond, oldest)
	if got := s.view().linksUp(); !slices.Equal(got, s.wiring()) || len(s.told) != 1 {
		t.Errorf("links %v, wired are %v; told %v", got, s.wiring(), s.told)
	}
}

// However long groups take to hear of each other, in whatever order, in the end the links are those that are wired.
func TestSlowGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSites(t, uint64(rapid.IntRange(2, 4).Draw(t, "groups")))
		s.net.Delay()
		cables := drawSites(t, s)
		var did []string
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			p := at(app.Switch(rapid.IntRange(1, 4).Draw(t, "switch")), app.Port(rapid.IntRange(1, 3).Draw(t, "port")))
			what := rapid.SampledFrom([]string{"cut", "cut one way", "mend", "move", "port", "port", "switch", "time",
				"time", "time"}).Draw(t, "what")
			did = append(did, fmt.Sprintf("%s %v", what, p))
			c := rapid.SampledFrom(cables).Draw(t, "cable")
			switch what {
			case "cut":
				delete(s.wires, c[0])
				delete(s.wires, c[1])
			case "cut one way":
				delete(s.wires, c[0])
			case "mend":
				s.connect(c[0], c[1])
			case "move": // one end, without that any port goes down
				if c[0] != p {
					s.connect(c[0], p)
					cables = append(cables, [2]app.PortOf{c[0], p})
				}
			case "port":
				s.setPort(p, !s.ports[p])
			case "switch":
				if s.down[p.Switch] {
					s.start(p.Switch)
				} else {
					s.stop(p.Switch)
				}
			case "time":
				slow := rapid.Bool().Draw(t, "slow")
				s.advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "time"))*100*time.Millisecond,
					func(waiting int) int {
						if slow && rapid.IntRange(0, 9).Draw(t, "wait") > 0 {
							return -1
						}
						return rapid.IntRange(0, waiting-1).Draw(t, "frame")
					})
			}
		}
		s.advance(10*Interval, oldest)
		if got := s.view().linksUp(); !slices.Equal(got, s.wiring()) {
			t.Fatalf("links %v\nwired %v\n%v", got, s.wiring(), did)
		}
		s.checkTold()
	})
}

// drawSites starts four switches, and connects some of their ports.
func drawSites(t *rapid.T, s *sites) (cables [][2]app.PortOf) {
	var free []app.PortOf
	for id := app.Switch(1); id <= 4; id++ {
		for p := app.Port(1); p <= 3; p++ {
			s.ports[at(id, p)] = true
			free = append(free, at(id, p))
		}
	}
	free = rapid.Permutation(free).Draw(t, "ports")
	for range rapid.IntRange(1, 6).Draw(t, "cables") {
		cables = append(cables, [2]app.PortOf{free[0], free[1]})
		s.wires[free[0]], s.wires[free[1]] = free[1], free[0]
		free = free[2:]
	}
	for id := app.Switch(1); id <= 4; id++ {
		s.start(id)
	}
	return cables
}

// connect connects two ports, and nothing else to them.
func (s *sites) connect(a, b app.PortOf) {
	maps.DeleteFunc(s.wires, func(from, to app.PortOf) bool {
		return from == a || from == b || to == a || to == b
	})
	s.wires[a], s.wires[b] = b, a
}

// checkTold compares the view with what another application was told.
func (s *sites) checkTold() {
	s.t.Helper()
	up := map[Link]bool{}
	for _, m := range s.told {
		switch m := m.(type) {
		case LinkUp:
			if up[m.Link] {
				s.t.Errorf("told twice that %v is up", m.Link)
			}
			up[m.Link] = true
		case LinkDown:
			for _, l := range m.Links {
				if !up[l] {
					s.t.Errorf("told that %v is down, which was not up", l)
				}
				delete(up, l)
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(up), func(a, b Link) int { return a.From.Compare(b.From) })
	if got := s.view().linksUp(); !slices.Equal(got, list) {
		s.t.Errorf("links %v, told were %v\n%v", got, list, s.told)
	}
}
