package hub

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestHub(t *testing.T) {
	b := apptest.New(t, New())
	up := b.SwitchUp(1)
	if len(up) != 1 || up[0].Switch != 1 {
		t.Fatalf("a new switch gets %v", up)
	}
	miss := up[0].Message.(*of13.FlowMod)
	all := of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))
	if miss.Command != of13.FlowAdd || miss.Priority != 0 || len(miss.Match) != 0 ||
		string(miss.Instructions) != string(all) {
		t.Errorf("the flow for everything is %v", miss)
	}
	for _, tc := range []struct {
		buffer uint32
		data   string
	}{{of13.NoBuffer, "packet"}, {77, ""}} {
		got := b.PacketIn(1, 3, tc.buffer, "packet")
		if len(got) != 1 || got[0].Switch != 1 {
			t.Fatalf("a packet becomes %v", got)
		}
		out := got[0].Message.(*of13.PacketOut)
		if out.BufferID != tc.buffer || string(out.Data) != tc.data || out.InPort != 3 ||
			string(out.Actions) != string(of13.Actions(nil).Output(of13.PortFlood, 0)) {
			t.Errorf("buffer %x: %v", tc.buffer, out)
		}
	}
}
