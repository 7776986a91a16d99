package southbound

import (
	"net"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/netlab"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestOpenVSwitchWithoutAgent: a stock switch that connects to a controller itself.
func TestOpenVSwitchWithoutAgent(t *testing.T) {
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 7)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	b := (&bed{t: t, lead: true}).startOn(ln, Config{})
	if err := sw.SetControllers(b.addr); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 stock, 7 HOLDFAST_SWITCH_UP")
	s := b.session(7)
	flow := of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny, Cookie: 0x77}
	bad := of13.FlowMod{Command: 99, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	if err := s.Send(1, s.Epoch(), 1, 2, concat(flow.Append(nil, 1), bad.Append(nil, 2))); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 stock, 7 HOLDFAST_SWITCH_UP, 7 done 1, 7 ERROR, 7 done 2")
	flows, err := sw.Flows()
	if err != nil || len(flows) != 2 || !strings.Contains(strings.Join(flows, "\n"), "cookie=0x77") {
		t.Fatalf("%v, %v", flows, err)
	}
	if err := sw.Kill(); err != nil {
		t.Fatal(err)
	}
	b.want(t, "attached 7 stock, 7 HOLDFAST_SWITCH_UP, 7 done 1, 7 ERROR, 7 done 2, 7 HOLDFAST_SWITCH_DOWN, detached 7")
}
