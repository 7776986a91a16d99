package topology

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A switch that is reachable again repeats the SWITCH_UP of the beginning of its epoch. Since then a port has come
// up, another has gone down, and a third was added.
func TestPortsThatHaveChangedInTheEpoch(t *testing.T) {
	w := line(t, 2)
	w.setPort(at(1, 2), false)
	w.stop(1)
	w.start(1, 3)
	w.setPort(at(1, 2), true)
	w.setPort(at(1, 3), false)
	w.input(func(c *ledger.Core) { c.Unreachable(1) })
	w.input(func(c *ledger.Core) { c.Reachable(1, w.switches[1].epoch) })
	w.settle()
	var now of13.List[of13.PortDesc]
	for p, up := range map[of13.Port]bool{1: true, 2: true, 3: false, 4: true} {
		now = now.With(portDesc(1, p, up))
	}
	w.event(1, (&of13.MultipartReply{Part: of13.PartPortDesc, Body: now}).Append(nil, 1<<24|9))
	w.advance(2 * Interval)
	s := w.view()
	for _, p := range s.Switches[0].Ports {
		if want := p.Port != 3; p.Up != want {
			t.Errorf("port %v is up: %v, want %v", p.Port, p.Up, want)
		}
	}
	if len(s.Switches[0].Ports) != 4 {
		t.Errorf("ports %+v", s.Switches[0].Ports)
	}
	w.wantLinks(t, Link{at(1, 2), at(2, 1)}, Link{at(2, 1), at(1, 2)})
	w.check()
}

// A port was removed while no controller was connected to the switch, whose epoch goes on.
func TestPortThatIsGoneInTheEpoch(t *testing.T) {
	w := line(t, 2)
	w.input(func(c *ledger.Core) { c.Unreachable(1) })
	delete(w.switches[1].ports, 3)
	w.input(func(c *ledger.Core) { c.Reachable(1, w.switches[1].epoch) })
	w.settle()
	var now of13.List[of13.PortDesc]
	for p := range w.switches[1].ports {
		now = now.With(portDesc(1, p, true))
	}
	w.event(1, (&of13.MultipartReply{Part: of13.PartPortDesc, Body: now}).Append(nil, w.asked))
	w.settle()
	for _, p := range w.view().Switches[0].Ports {
		if p.Port == 3 {
			t.Errorf("port 3 is gone, and topology has %+v", p)
		}
	}
}

// A port has a name whose 15 bytes end within a character.
func TestPortWithACutName(t *testing.T) {
	w := line(t, 2)
	d := portDesc(1, 3, true)
	d.Name = "uplink-Zürichü"
	w.portStatus(at(1, 3), of13.PortStatus{Reason: of13.PortModify, Port: d})
	for _, p := range w.view().Switches[0].Ports {
		if p.Port == 3 && p.Name != "uplink-Zürich?" {
			t.Errorf("its name is %q", p.Name)
		}
	}
}
