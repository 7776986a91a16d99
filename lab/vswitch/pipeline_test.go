package vswitch

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Section 5.4: without a table-miss entry, a packet that matches nothing is dropped. With one, that entry is
// executed, and the reason is NO_MATCH.
func TestTableMiss(t *testing.T) {
	r := newRig(t)
	r.goes(1, ping(1))
	if in := r.take(1); len(in) != 0 {
		t.Fatalf("packet-in without a table-miss entry: %v", in)
	}
	miss := add(0, 0, nil, actions(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)))
	miss.Cookie = 7
	r.ok(miss)
	r.goes(1, ping(2))
	in := r.take(1)
	p, ok := in[0].(*of13.PacketIn)
	port, _ := p.Match.InPort()
	if !ok || p.Reason != of13.PacketInNoMatch || p.Cookie != 7 || port != 1 || p.BufferID != of13.NoBuffer ||
		!bytes.Equal(p.Data, ping(2)) {
		t.Fatalf("got %v", in)
	}
	r.ok(add(0, 1, nil, actions(of13.Actions(nil).Output(of13.PortController, 20))))
	r.goes(1, ping(3))
	p = r.take(1)[0].(*of13.PacketIn)
	if p.Reason != of13.PacketInAction || len(p.Data) != 20 || p.TotalLen != uint16(len(ping(3))) ||
		p.BufferID == of13.NoBuffer {
		t.Fatalf("got %v", p)
	}
}

// Section 5.3: the highest priority wins.
func TestPriority(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, nil, out(2)))
	r.goes(1, ping(1), 2)
	r.ok(add(0, 5, of13.Match(nil).WithEthType(typeIPv4).WithIPv4Dst(ipB, [4]byte{255, 255, 255, 0}), out(3)))
	r.goes(1, ping(1), 3)
	r.ok(add(0, 3, of13.Match(nil).WithEthDst(macB), out(4)))
	r.goes(1, ping(1), 3)
	r.ok(add(0, 9, of13.Match(nil).WithInPort(1), nil)) // no instructions means drop
	r.goes(1, ping(1))
	r.goes(2, ping(1), 3)
}

// Sections 5.1 and 5.9: tables, metadata, the action set.
func TestInstructions(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, nil, of13.Instructions(nil).WriteMetadata(0xab00,
		0xff00).Write(of13.Actions(nil).Output(2, 0)).Goto(5)))
	r.goes(1, ping(1)) // a miss in table 5 drops the packet, including its action set
	r.ok(add(5, 1, of13.Match(nil).WithMetadata(0xab00, 0xff00), of13.Instructions(nil)))
	r.goes(1, ping(1), 2)
	r.ok(add(5, 1, of13.Match(nil).WithMetadata(0xab00, 0xff00),
		of13.Instructions(nil).Clear().Apply(of13.Actions(nil).Output(3, 0))))
	r.goes(1, ping(1), 3)
	r.ok(add(5, 1, of13.Match(nil).WithMetadata(0xab00, 0xff00),
		of13.Instructions(nil).Write(of13.Actions(nil).Output(4, 0))))
	r.goes(1, ping(1), 4)
	r.fails(add(5, 1, nil, of13.Instructions(nil).Goto(5)), of13.ErrTypeBadInstruction, of13.BadInstructionBadTableID)
	r.fails(add(0, 1, nil, of13.Instructions(nil).Goto(64)), of13.ErrTypeBadInstruction, of13.BadInstructionBadTableID)
	r.fails(add(0, 1, nil, of13.Instructions(nil).Meter(3)), of13.ErrTypeMeterModFailed,
		of13.MeterModFailedUnknownMeter)
	r.fails(add(64, 1, nil, nil), of13.ErrTypeFlowModFailed, of13.FlowModFailedBadTableID)
}

// Section 4.5: reserved ports.
func TestReservedPorts(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		port of13.Port
		want []of13.Port
	}{
		{of13.PortAll, []of13.Port{1, 3, 4}},
		{of13.PortFlood, []of13.Port{1, 3, 4}},
		{of13.PortInPort, []of13.Port{2}},
		{2, nil}, // output to the ingress port needs IN_PORT
		{3, []of13.Port{3}},
		{99, nil},
	} {
		r.ok(add(0, 1, nil, out(c.port)))
		r.goes(2, ping(1), c.want...)
	}
	r.fails(add(0, 1, nil, out(of13.PortNormal)), of13.ErrTypeBadAction, of13.BadActionBadOutPort)
	r.fails(add(0, 1, nil, out(of13.PortTable)), of13.ErrTypeBadAction, of13.BadActionBadOutPort)
	r.fails(add(0, 1, nil, out(of13.PortAny)), of13.ErrTypeBadAction, of13.BadActionBadOutPort)
}

// Section 5.12 and table 7: an action changes only the outputs after it.
func TestSetFieldMendsChecksums(t *testing.T) {
	r := newRig(t)
	a := of13.Actions(nil).Output(2, 0).
		SetField(of13.Exact(of13.FieldIPv4Src, []byte{192, 168, 7, 9})).SetUint(of13.FieldUDPDst,
		4789).SetUint(of13.FieldIPDSCP, 46).
		DecNwTTL().SetField(of13.Exact(of13.FieldEthSrc, macB[:])).Output(3, 0)
	r.ok(add(0, 1, of13.Match(nil).WithEthType(typeIPv4).WithIPProto(protoUDP), actions(a)))
	for _, payload := range []int{0, 1, 17, 100} {
		got := r.frame(1, udp(1000, 53, payload))
		if !bytes.Equal(got[2][0], udp(1000, 53, payload)) {
			t.Fatal("a frame that was sent before the edit has changed")
		}
		b := got[3][0]
		if sum(b[14:34]) != 0xffff {
			t.Errorf("payload %d: IPv4 checksum is wrong", payload)
		}
		if want := l4Sum(b); binary.BigEndian.Uint16(b[40:]) != want {
			t.Errorf("payload %d: UDP checksum %#x, want %#x", payload, b[40:42], want)
		}
		if b[22] != 63 || b[15] != 46<<2 || !bytes.Equal(b[26:30], []byte{192, 168, 7, 9}) ||
			binary.BigEndian.Uint16(b[36:]) != 4789 || of13.MAC(b[6:12]) != macB {
			t.Errorf("fields are not set: %x", b)
		}
	}
	r.fails(add(0, 1, nil, actions(of13.Actions(nil).SetUint(of13.FieldUDPDst, 1))), of13.ErrTypeBadAction,
		of13.BadActionMatchInconsistent)
}

// Section 5.12.1 and 7.2.5: VLAN tags.
func TestVLAN(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, of13.Match(nil).WithNoVLAN(), actions(of13.Actions(nil).PushVLAN(typeVLAN).SetUint(of13.FieldVLANVID,
		0x1000|77).
		SetUint(of13.FieldVLANPCP, 5).Output(2, 0).PushVLAN(typeQinQ).Output(3, 0).PopVLAN().PopVLAN().Output(4, 0))))
	got := r.frame(1, ping(1))
	tag := []byte{0x81, 0, 5 << 5, 77}
	one := append(append(append([]byte(nil), ping(1)[:12]...), tag...), ping(1)[12:]...)
	if !bytes.Equal(got[2][0], one) {
		t.Fatalf("one tag: %x", got[2][0])
	}
	two := append(append(append([]byte(nil), ping(1)[:12]...), 0x88, 0xa8, 5<<5, 77), one[12:]...)
	if !bytes.Equal(got[3][0], two) {
		t.Fatalf("two tags: %x", got[3][0])
	}
	if !bytes.Equal(got[4][0], ping(1)) {
		t.Fatalf("no tags: %x", got[4][0])
	}
	r.ok(add(0, 2, of13.Match(nil).WithVLAN(77), out(2)))
	r.ok(add(0, 1, of13.Match(nil).WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000), out(3)))
	r.goes(1, one, 2)
	one[15] = 78
	r.goes(1, one, 3)
}

// Section 5.12 and 6.1.2: a packet with an invalid TTL is sent to the controllers that ask for it.
func TestInvalidTTL(t *testing.T) {
	r := newRig(t)
	r.ok(&of13.SetConfig{MissSendLen: 30})
	r.ok(&of13.SetAsync{PacketIn: [2]uint32{1 << of13.PacketInInvalidTTL, 0}})
	r.ok(add(0, 1, of13.Match(nil).WithEthType(typeIPv4), actions(of13.Actions(nil).DecNwTTL().Output(2, 0))))
	b := ping(1)
	b[22] = 1
	r.goes(1, b)
	p := r.take(1)[0].(*of13.PacketIn)
	if p.Reason != of13.PacketInInvalidTTL || len(p.Data) != 30 {
		t.Fatalf("got %v", p)
	}
	b[22] = 2
	r.goes(1, b, 2)
}

// Section 6.1.2: buffers are bounded, used once, and expire.
func TestBuffers(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Buffers = 2; c.BufferLife = time.Second })
	r.ok(add(0, 0, nil, actions(of13.Actions(nil).Output(of13.PortController, 14))))
	var ids []uint32
	for i := range 3 {
		r.goes(1, ping(uint16(i)))
		p := r.take(1)[0].(*of13.PacketIn)
		ids = append(ids, p.BufferID)
		if whole := len(p.Data) == len(ping(0)); whole != (p.BufferID == of13.NoBuffer) {
			t.Fatalf("packet %d: %v", i, p)
		}
	}
	if ids[0] == of13.NoBuffer || ids[1] == of13.NoBuffer || ids[2] != of13.NoBuffer {
		t.Fatalf("buffers %x, want two and none", ids)
	}
	packetOut := &of13.PacketOut{BufferID: ids[0], InPort: 1, Actions: of13.Actions(nil).Output(3, 0)}
	r.ok(packetOut)
	if got := r.frames()[3]; len(got) != 1 || !bytes.Equal(got[0], ping(0)) {
		t.Fatalf("sent %x", got)
	}
	r.fails(packetOut, of13.ErrTypeBadRequest, of13.BadRequestBufferEmpty)
	packetOut.BufferID = 12345
	r.fails(packetOut, of13.ErrTypeBadRequest, of13.BadRequestBufferUnknown)
	flow := add(0, 5, of13.Match(nil).WithInPort(1), out(4)) // section 6.4: a flow-mod may apply to a buffered packet
	flow.BufferID = ids[1]
	r.ok(flow)
	if got := r.frames()[4]; len(got) != 1 || !bytes.Equal(got[0], ping(1)) {
		t.Fatalf("sent %x", got)
	}
	r.goes(2, ping(9))
	id := r.take(1)[0].(*of13.PacketIn).BufferID
	r.now += time.Second
	packetOut.BufferID = id
	r.fails(packetOut, of13.ErrTypeBadRequest, of13.BadRequestBufferEmpty)
}

// Section 7.3.7: a packet-out may be sent through the tables; its ingress port must exist.
func TestPacketOut(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 1, of13.Match(nil).WithInPort(of13.PortController), out(of13.PortFlood)))
	m := &of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(of13.PortTable, 0), Data: ping(1)}
	r.ok(m)
	if got := r.frames(); len(got) != 4 {
		t.Fatalf("sent to %v", got)
	}
	m.InPort = 17
	r.fails(m, of13.ErrTypeBadRequest, of13.BadRequestBadPort)
	m.InPort, m.Data = 1, ping(1)[:10]
	r.fails(m, of13.ErrTypeBadRequest, of13.BadRequestBadPacket)
}

// Section 5.7: a meter drops packets above its rate.
func TestMeter(t *testing.T) {
	r := newRig(t)
	bands := of13.Bands(nil).With(of13.Band{BandType: of13.BandDrop, Rate: 10})
	mod := &of13.MeterMod{Command: of13.MeterAdd, Flags: of13.MeterPktps | of13.MeterStats, MeterID: 4, Bands: bands}
	r.ok(mod)
	r.fails(mod, of13.ErrTypeMeterModFailed, of13.MeterModFailedMeterExists)
	r.ok(add(0, 1, nil, out(2).Meter(4)))
	passed := func() (n int) {
		for range 30 {
			n += len(r.frame(1, ping(1))[2])
		}
		return n
	}
	if n := passed(); n != 10 {
		t.Fatalf("%d packets of a burst passed, want 10", n)
	}
	r.now += 500 * time.Millisecond
	if n := passed(); n != 5 {
		t.Fatalf("%d packets passed after half a second, want 5", n)
	}
	req := of13.MeterStatsRequest(4)
	for st := range answer[*of13.MultipartReply](r, &req).Meters().All() {
		if st.In.Packets != 60 || st.FlowCount != 1 {
			t.Errorf("meter statistics %+v", st)
		}
		for b := range st.Bands.All() {
			if b.Packets != 45 {
				t.Errorf("%d packets in the band, want 45", b.Packets)
			}
		}
	}
	r.ok(&of13.MeterMod{Command: of13.MeterDelete, MeterID: 4}) // also deletes the flow entries that use it
	r.goes(1, ping(1))
}
