package liveness

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Frames that a sentry sends over a link never reach an application, whatever the application does with unknown
// frames.
func TestSwitchDropsFramesOfSentries(t *testing.T) {
	s := switchUp(t)
	miss := of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0))}
	s.Message(0, 1, miss.Append(nil, 1))
	s.Frames()
	frame := make([]byte, 60)
	frame[12], frame[13] = bfd.EtherTypeSentry>>8, bfd.EtherTypeSentry&0xff
	if s.Frame(0, 1, frame); len(s.Frames()) != 0 {
		t.Error("the frame of a sentry is forwarded")
	}
	frame[13]++
	if s.Frame(0, 1, frame); len(s.Frames()) != 1 {
		t.Error("another frame is dropped")
	}
}

// A switch returns a frame that arrives outward, by the port of arrival. It does not return a frame that was
// returned before.
func TestSwitchTurnsFramesRound(t *testing.T) {
	s := switchUp(t)
	sent := appendFrame(nil, []byte("k"), frame{at(2, 9), 7, true})
	s.Frame(0, 1, sent)
	turned := s.Frames()
	if len(turned) != 1 || turned[0].Port != 1 || !bytes.Equal(turned[0].Data[:6], homeward[:]) ||
		!bytes.Equal(turned[0].Data[6:], sent[6:]) {
		t.Fatalf("of %x became %x", sent, turned)
	}
	s.Frame(0, 2, turned[0].Data)
	if again := s.Frames(); len(again) != 0 {
		t.Errorf("a frame that has been turned leaves again: %x", again)
	}
}

// switchUp returns a switch with the flow entries of the application.
func switchUp(t *testing.T) *vswitch.Switch {
	t.Helper()
	s := vswitch.New(vswitch.Config{DatapathID: 1, Ports: vswitch.Ports(1, 2)})
	s.Open(0, 1)
	for _, m := range apptest.New(t, New()).SwitchUp(1) {
		s.Message(0, 1, m.Message.Append(nil, 1))
	}
	s.Frames()
	return s
}
