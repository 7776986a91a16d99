package southbound

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/of14"
)

// versioned returns msg with another version.
func versioned(version uint8, msg []byte) []byte {
	msg = bytes.Clone(msg)
	msg[0] = version
	return msg
}

// helloOf offers one version.
func helloOf(version uint8) []byte {
	h := of13.NewHello(of13.VersionsOf(version))
	return h.Append(nil, 1)
}

// barePorts is a PORT_DESC reply of OpenFlow 1.4 with n ports without properties. In 1.3 it is longer.
func barePorts(version uint8, xid uint32, n int) []byte {
	body := append([]byte{0, byte(of13.PartPortDesc), 0, 0, 0, 0, 0, 0},
		bytes.Repeat(append([]byte{0, 0, 0, 1, 0, 40, 0, 0}, make([]byte, 32)...), n)...)
	return raw(version, of13.TypeMultipartReply, xid, body...)
}

// Messages from the agent of a switch of version 1.4 or 1.5 are translated to 1.3, and keep the numbers that the
// agent gave them. A message that one message of 1.3 cannot express becomes an ERROR in its place.
func TestAgentOfLaterSwitchKeepsTheNumbers(t *testing.T) {
	for _, v := range []uint8{openflow.Version14, openflow.Version15} {
		c := &Core{}
		features := versioned(v, features13(7))
		mustFeed(t, c, helloOf(v), experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, v), features)
		c.Claim(3, 0, Resume{})
		up := experimenter.SwitchUp{Features: features, Ports: barePorts(v, 0, 2)}.Append(nil, v)
		all := concat(up, versioned(v, packetIn13(1)), raw(v, of14.TypeTableStatus, 0, make([]byte, 16)...),
			barePorts(v, 9, 1), barePorts(v, 10, 1200))
		b := experimenter.Block{Epoch: 100, First: 1, Count: 5, Bytes: uint32(len(all))}
		got := mustFeed(t, c, roleReply(3), b.Append(nil, v, experimenter.TypeEvents), all)
		if len(got) != 1 || got[0].Batch.Count != 5 || countMessages(got[0].Batch.Messages) != 5 {
			t.Fatalf("version %d: %+v", v, got)
		}
		first, rest, _ := openflow.Next(got[0].Batch.Messages)
		u, err := experimenter.ParseSwitchUp(first)
		var f of13.FeaturesReply
		var p of13.MultipartReply
		if err != nil || f.Decode(u.Features) != nil || f.DatapathID != 7 || p.Decode(u.Ports) != nil ||
			p.PortDescs().Len() != 2 {
			t.Fatalf("version %d: SWITCH_UP %+v, %v", v, u, err)
		}
		for i, typ := range []uint8{of13.TypePacketIn, of13.TypeError, of13.TypeMultipartReply, of13.TypeError} {
			var msg []byte
			if msg, rest, _ = openflow.Next(rest); msg[0] != 4 || msg[1] != typ {
				t.Errorf("version %d: event %d is %x, want type %d", v, i+2, msg, typ)
			}
		}
		if n := c.Untranslated(); n != 2 {
			t.Errorf("version %d: %d untranslated", v, n)
		}
	}
}

// A command that the switch's version cannot express is sent all the same. The switch refuses it.
func TestCommandsForLaterSwitch(t *testing.T) {
	long := of13.PacketOut{BufferID: of13.NoBuffer, Data: make([]byte, openflow.MaxMessageLen-24)}
	commands := concat((&of13.FlowMod{BufferID: of13.NoBuffer}).Append(nil, 8), long.Append(nil, 9),
		(&of13.QueueGetConfigRequest{Port: 1}).Append(nil, 10))
	c := &Core{}
	mustFeed(t, c, helloOf(6), experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, 6),
		versioned(6, features13(7)))
	c.Claim(3, 0, Resume{})
	c.types(t)
	if err := c.Send(commandBlock(3, 100, 1, 3), commands); err != nil {
		t.Fatal(err)
	}
	out := bytes.Clone(c.out)
	// an experimenter message of Holdfast, whose type 0 does not exist
	if got := c.types(t); got != "6:COMMANDS 6:FLOW_MOD 6:type 0 6:MULTIPART_REQUEST" {
		t.Errorf("the agent gets %s", got)
	}
	for xid := uint32(7); len(out) > 0; xid++ {
		msg, rest, _ := openflow.Next(out)
		if out = rest; xid > 7 && openflow.XID(msg) != xid {
			t.Errorf("xid %d instead of %d", openflow.XID(msg), xid)
		}
	}
	if n := c.Untranslated(); n != 1 {
		t.Errorf("%d untranslated", n)
	}
}

// An application that asks a switch of OpenFlow 1.0 for its ports gets them, also if the reply comes to a session that
// has not sent the request, or comes again. A replayed one, which may also ask for the features, gets what it has asked
// for from the session that has sent the request.
func TestPortsOf10Switch(t *testing.T) {
	const ports, replayedPorts, features, reused = 0x01000005, 0x7f000005, 0x7f000006, 0x7f000007 // xids
	request := func(xid uint32, ofPorts bool) []byte {
		if ofPorts {
			return raw(4, of13.TypeMultipartRequest, xid, 0, byte(of13.PartPortDesc), 0, 0, 0, 0, 0, 0)
		}
		return raw(4, of13.TypeFeaturesRequest, xid)
	}
	const multipart, plain = of13.TypeMultipartReply, of13.TypeFeaturesReply
	for _, asked := range []bool{false, true} {
		c := &Core{}
		mustFeed(t, c, hello10, experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, 1),
			features10(7))
		c.Claim(3, 0, Resume{})
		want := []uint8{openflow.TypeExperimenter, multipart, multipart, plain, plain, plain, plain}
		if asked {
			want[3], want[4] = multipart, multipart
			commands := concat(request(replayedPorts, true), request(features, false), request(reused, true),
				request(reused, false))
			for i := range uint32(maxAsked) { // what others ask for takes no place
				commands = append(commands, request(ports+i, true)...)
			}
			if err := c.Send(commandBlock(3, 100, 1, 4+maxAsked), commands); err != nil {
				t.Fatal(err)
			}
		}
		events := [][]byte{experimenter.SwitchUp{Features: features10(7)}.Append(nil, 1)}
		for _, xid := range []uint32{ports, ports, replayedPorts, replayedPorts, features, reused} {
			msg := features10(7)
			binary.BigEndian.PutUint32(msg[4:], xid)
			events = append(events, msg)
		}
		got := mustFeed(t, c, roleReply(3), eventBlock(100, 1, events...))
		if len(got) != 1 || got[0].Batch.Count != len(want) {
			t.Fatalf("asked %v: %+v", asked, got)
		}
		for rest := got[0].Batch.Messages; len(rest) > 0; want = want[1:] {
			var msg []byte
			if msg, rest, _ = openflow.Next(rest); msg[1] != want[0] {
				t.Errorf("asked %v: %x is not of type %d", asked, msg, want[0])
			}
		}
	}
}

// A peer that waits for our HELLO receives it after a while, and not before.
func TestPeerThatWaits(t *testing.T) {
	c := &Core{}
	if out := c.TakeOut(); len(out) > 0 {
		t.Fatalf("before it says anything: %x", out)
	}
	for range 5 {
		c.Echo()
	}
	if got := c.types(t); got != "4:HELLO" {
		t.Fatalf("wrote %s", got)
	}
	mustFeed(t, c, hello13, features13(7))
	if got := c.types(t); got != "4:FEATURES_REQUEST 4:EXPERIMENTER 4:EXPERIMENTER 4:ROLE_REQUEST "+
		"4:BARRIER_REQUEST 4:MULTIPART_REQUEST" || c.hs.Version != 4 {
		t.Fatalf("wrote %s", got)
	}
}
