package learning

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// wired is the application with a switch that executes its commands.
type wired struct {
	net    *apptest.Net
	device *vswitch.Switch
	asked  int // how often the switch has asked
}

// newWired has alice at port 1 and bob at port 2, and both have sent to each other.
func newWired(t *testing.T) *wired {
	w := &wired{net: apptest.New(t, New()), device: vswitch.New(vswitch.Config{DatapathID: 1, Ports: vswitch.Ports(1, 4)})}
	w.device.Open(0, 1)
	w.device.Take(1)
	w.do(w.net.SwitchUp(1))
	w.send(1, frame(broadcast, alice))
	w.send(2, frame(alice, bob))
	w.send(1, frame(bob, alice))
	return w
}

func (w *wired) do(sent []apptest.Sent) {
	for _, c := range sent {
		w.device.Message(0, 1, c.Message.Append(nil, c.XID))
	}
}

// send sends a frame into a port, and returns the ports by which it leaves.
func (w *wired) send(in app.Port, data string) (by []app.Port) {
	w.device.Frame(0, in, []byte(data))
	for _, msg := range w.device.Take(1) {
		if msg[1] == of13.TypePacketIn {
			w.asked++
			w.do(w.net.Event(1, msg))
		}
	}
	for _, f := range w.device.Frames() {
		by = append(by, f.Port)
	}
	return by
}

// A host that moves and comes back, while its flow is in the switch, is found where it is.
func TestHostMovesBack(t *testing.T) {
	w := newWired(t)
	w.send(3, frame(broadcast, alice))
	w.send(2, frame(alice, bob))
	w.send(1, frame(bob, alice))
	if by := w.send(2, frame(alice, bob)); len(by) != 1 || by[0] != 1 {
		t.Errorf("a frame to a host that is back at port 1 leaves by %v", by)
	}
}

// A host whose link was down, while its flow is in the switch, is learned again.
func TestLinkFlaps(t *testing.T) {
	w := newWired(t)
	for _, state := range []uint32{of13.PortStateLinkDown, of13.PortStateLive} {
		port := of13.PortDesc{Port: 1, State: state}
		w.do(w.net.Message(1, &of13.PortStatus{Reason: of13.PortModify, Port: port}, 0))
	}
	talk := func() {
		w.send(1, frame(bob, alice))
		w.send(2, frame(alice, bob))
	}
	talk()
	w.asked = 0
	if talk(); w.asked > 0 {
		t.Errorf("hosts that have talked ask %d times", w.asked)
	}
}
