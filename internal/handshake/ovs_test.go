package handshake

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/of14"
)

// client is a controller of 1.3 that talks to a switch of any later version.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *ofconn.Reader
	rest []byte
	hs   Handshake
	xid  uint32

	answers []said
	events  []string // in the order of the alphabet: they come when they come
}

// accept takes a connection of a switch and shakes hands.
func accept(t *testing.T, ln net.Listener) *client {
	t.Helper()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: conn, in: ofconn.NewReader(conn)}
	for !c.hs.Done {
		out, err := c.hs.Input(nil, c.next())
		if err != nil {
			t.Fatal(err)
		}
		c.write(out)
	}
	return c
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() []byte {
	c.t.Helper()
	for len(c.rest) == 0 {
		var err error
		if c.rest, err = c.in.Next(); err != nil {
			c.t.Fatal(err)
		}
	}
	msg, rest, err := openflow.Next(c.rest)
	if err != nil {
		c.t.Fatal(err)
	}
	c.rest = rest
	return msg
}

// said is an answer of the switch, with the transaction id of the command.
type said struct {
	XID     uint32
	Message of13.Message
}

// toV13 translates what the switch says. Durations, and which bytes of a command it shows, are of no interest.
func (c *client) toV13(msg []byte) []of13.Message {
	c.t.Helper()
	out := msg
	if msg[0] != of13.Version {
		var err error
		if out, err = of14.ToV13(nil, msg); err != nil {
			c.t.Fatalf("%x: %v", msg, err)
		}
	}
	var list []of13.Message
	for len(out) > 0 {
		var one []byte
		one, out, _ = openflow.Next(bytes.Clone(out))
		m, err := of13.Decode(one)
		if err != nil {
			c.t.Fatalf("%x became %x: %v", msg, one, err)
		}
		list = append(list, timeless(m))
	}
	return list
}

// ask sends a command and takes all that the switch says until it has executed it.
func (c *client) ask(m of13.Message) {
	c.t.Helper()
	c.xid += 2
	var batch []byte
	for i, m := range []of13.Message{m, &of13.BarrierRequest{}} {
		msg := m.Append(nil, c.xid+uint32(i))
		if c.hs.Version != of13.Version {
			var err error
			if msg, err = of14.FromV13(nil, msg, c.hs.Version); err != nil {
				c.t.Fatalf("%s: %v", of13.TypeName(m.Type()), err)
			}
		}
		batch = append(batch, msg...)
	}
	c.write(batch)
	for c.hear() != c.xid+1 {
	}
}

// hear takes one message of the switch, and returns its transaction id if it answers a barrier.
func (c *client) hear() (barrier uint32) {
	c.t.Helper()
	msg := c.next()
	switch msg[1] {
	case openflow.TypeEchoRequest:
		c.write(EchoReply(nil, msg))
		return 0
	case of13.TypeBarrierReply:
		return openflow.XID(msg)
	}
	for _, m := range c.toV13(msg) {
		if xid := openflow.XID(msg); xid != 0 {
			c.answer(xid, m)
			continue
		}
		event := fmt.Sprint(m)
		i, _ := slices.BinarySearch(c.events, event)
		c.events = slices.Insert(c.events, i, event)
	}
	return 0
}

// answer keeps an answer, whole: the versions do not cut it in the same places.
func (c *client) answer(xid uint32, m of13.Message) {
	if part, ok := m.(*of13.MultipartReply); ok && len(c.answers) > 0 {
		last := c.answers[len(c.answers)-1]
		if begun, ok := last.Message.(*of13.MultipartReply); ok && last.XID == xid {
			begun.Body, begun.Flags = append(begun.Body, part.Body...), part.Flags
			return
		}
	}
	c.answers = append(c.answers, said{xid, m})
}

// timeless takes away what is different each time.
func timeless(m of13.Message) of13.Message {
	switch m := m.(type) {
	case *of13.Error:
		if _, ok := m.BundleError(); ok {
			m.Data = m.Data[:4]
		} else {
			m.Data = nil
		}
	case *of13.FlowRemoved:
		m.DurationSec, m.DurationNsec = 0, 0
	case *of13.FeaturesReply:
		m.Capabilities &= 0x1ff // later versions have more
	case *of13.PacketIn:
		m.BufferID = 0
	case *of13.QueueGetConfigReply:
		if len(m.Queues) == 0 {
			m.Port = 0 // later versions do not say which port has none
		}
	case *of13.MultipartReply:
		m.Body = timelessBody(m)
	}
	return m
}

// sorted is the elements in the order of their bytes: groups come in no order.
func sorted(elements [][]byte) []byte {
	slices.SortFunc(elements, bytes.Compare)
	return slices.Concat(elements...)
}

func timelessBody(m *of13.MultipartReply) (body []byte) {
	var groups [][]byte
	switch m.Part {
	case of13.PartFlow:
		for f := range m.Flows().All() {
			f.Duration = of13.Duration{}
			body = f.AppendTo(body)
		}
	case of13.PartPortStats:
		for p := range m.PortStats().All() {
			body = of13.PortStats{Port: p.Port, RxErrors: p.RxErrors, TxErrors: p.TxErrors,
				RxFrameErrors: p.RxFrameErrors, Collisions: p.Collisions}.AppendTo(body)
		}
	case of13.PartGroup:
		for g := range m.Groups().All() {
			g.Duration = of13.Duration{}
			groups = append(groups, g.AppendTo(nil))
		}
		return sorted(groups)
	case of13.PartGroupDesc:
		for g := range m.GroupDescs().All() {
			groups = append(groups, g.AppendTo(nil))
		}
		return sorted(groups)
	case of13.PartMeter:
		for s := range m.Meters().All() {
			s.Duration = of13.Duration{}
			body = s.AppendTo(body)
		}
	case of13.PartTable:
		for s := range m.Tables().All() {
			s.LookupCount, s.MatchedCount = 0, 0
			body = s.AppendTo(body)
		}
	case of13.PartTableFeatures:
		for f := range m.TableFeatures().All() {
			f.Properties = nil // each version has its own match fields
			body = f.AppendTo(body)
		}
	default:
		return m.Body
	}
	return body
}

// commands are what an application may say, good and bad. port has that hardware address.
func commands(port of13.MAC) []of13.Message {
	out := of13.Actions(nil).Output(1, 0)
	flow := func(cookie uint64, table uint8, match of13.Match, in of13.Instructions) *of13.FlowMod {
		return &of13.FlowMod{Cookie: cookie, TableID: table, Priority: 100, IdleTimeout: 300, BufferID: of13.NoBuffer,
			OutPort: of13.PortAny, OutGroup: of13.GroupAny,
			Flags: of13.FlowSendFlowRem, Match: match, Instructions: in}
	}
	group := func(command uint16, typ uint8, id uint32, buckets ...of13.Bucket) *of13.GroupMod {
		m := &of13.GroupMod{Command: command, GroupType: typ, GroupID: id}
		for _, b := range buckets {
			m.Buckets = m.Buckets.With(b)
		}
		return m
	}
	bucket := func(weight uint16, watch of13.Port) of13.Bucket {
		return of13.Bucket{Weight: weight, WatchPort: watch, WatchGroup: of13.GroupAny, Actions: out}
	}
	bundle := func(what uint16) *of13.BundleControl {
		return &of13.BundleControl{ID: 3, CtrlType: what, Flags: of13.BundleAtomic | of13.BundleOrdered}
	}
	add := func(m of13.Message) *of13.BundleAdd {
		return &of13.BundleAdd{ID: 3, Flags: of13.BundleAtomic | of13.BundleOrdered, Message: m.Append(nil, 0)}
	}
	tcp := of13.Match(nil).WithInPort(1).WithEthType(0x0800).WithIPProto(6).WithUint(of13.FieldTCPDst, 80)
	all := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}.AppendTo(nil)
	forget := &of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	part := func(p of13.Part, body []byte) *of13.MultipartRequest {
		return &of13.MultipartRequest{Part: p, Body: body}
	}
	ports, groups, meters, bands := of13.PortStatsRequest(of13.PortAny), of13.GroupStatsRequest(of13.GroupAll),
		of13.MeterStatsRequest(of13.MeterAll), of13.MeterConfigRequest(of13.MeterAll)
	return []of13.Message{
		&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 8},
		&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: 7},
		&of13.SetAsync{PacketIn: [2]uint32{7, 0}, PortStatus: [2]uint32{7, 7}, FlowRemoved: [2]uint32{15, 0}},
		&of13.GetAsyncRequest{},
		&of13.EchoRequest{Data: []byte("are you there")}, &of13.FeaturesRequest{},
		&of13.SetConfig{MissSendLen: of13.MaxLenNoBuffer}, &of13.GetConfigRequest{},
		&of13.Experimenter{ID: 0x12345678, ExpType: 1}, &of13.TableMod{TableID: 3},
		&of13.MeterMod{Command: of13.MeterAdd, Flags: of13.MeterKbps | of13.MeterBurst | of13.MeterStats, MeterID: 5,
			Bands: of13.Bands(nil).With(of13.Band{BandType: of13.BandDrop, Rate: 1000, Burst: 100})},
		group(of13.GroupAdd, of13.GroupTypeAll, 1, bucket(0, of13.PortAny), bucket(0, of13.PortAny)),
		group(of13.GroupAdd, of13.GroupTypeSelect, 2, bucket(7, of13.PortAny), bucket(3, of13.PortAny)),
		group(of13.GroupAdd, of13.GroupTypeIndirect, 3, bucket(0, of13.PortAny)),
		group(of13.GroupAdd, of13.GroupTypeFastFailover, 4, bucket(0, 1), bucket(0, 2)),
		group(of13.GroupModify, of13.GroupTypeSelect, 2, bucket(1, of13.PortAny), bucket(9, of13.PortAny)),
		group(of13.GroupAdd, of13.GroupTypeAll, 1), group(of13.GroupModify, of13.GroupTypeAll, 77),
		flow(1, 0, tcp, of13.Instructions(nil).Meter(5).Apply(out).Goto(1)),
		flow(2, 1, of13.Match(nil).WithVLAN(5), of13.Instructions(nil).Apply(
			of13.Actions(nil).PopVLAN().SetField(of13.Exact(of13.FieldEthDst, port[:])).Group(2)).Write(
			out).WriteMetadata(1, 3).Goto(2)),
		flow(3, 1, nil, of13.Instructions(nil).Clear().Write(
			of13.Actions(nil).PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1007).SetQueue(1).Output(of13.PortFlood,
				0))),
		flow(4, 2, tcp, of13.Instructions(nil).Meter(5)),
		flow(5, 2, of13.Match(nil).WithEthType(0x0800).WithIPv4Src([4]byte{10}, [4]byte{255}),
			of13.Instructions(nil).Apply(of13.Actions(nil).DecNwTTL().Output(of13.PortController, 128))),
		flow(6, 0, nil, of13.Instructions(nil).Apply(of13.Actions(nil).Group(99))),
		flow(6, 0, nil, of13.Instructions(nil).Apply(of13.Actions(nil).Output(0, 0))),
		flow(6, 0, of13.Match(nil).WithUint(of13.FieldTCPDst, 80), nil),
		flow(6, 0, nil, of13.Instructions(nil).Goto(0)),
		flow(6, 0, nil, of13.Instructions(nil).Meter(1234)),
		&of13.FlowMod{Command: 99, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny},
		&of13.PortMod{Port: 1, HwAddr: port, Config: of13.PortConfigNoFwd, Mask: of13.PortConfigNoFwd},
		&of13.PortMod{Port: 1, HwAddr: of13.MAC{2}, Mask: 1},
		&of13.PortMod{Port: 77, HwAddr: port},
		&of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
			Actions: of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer), Data: make([]byte, 60)},
		&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1,
			Actions: of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer), Data: make([]byte, 60)},
		&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: of13.Actions(nil).Group(77),
			Data: make([]byte, 60)},
		part(of13.PartDesc, nil), part(of13.PartFlow, all), part(of13.PartAggregate, all), part(of13.PartTable, nil),
		&ports,
		part(of13.PartQueue, of13.QueueStatsRequest{Port: of13.PortAny, Queue: of13.QueueAll}.AppendTo(nil)), &groups,
		part(of13.PartGroupDesc, nil), part(of13.PartGroupFeatures, nil),
		&meters, &bands, part(of13.PartMeterFeatures, nil), part(of13.PartTableFeatures, nil),
		part(of13.PartPortDesc, nil), &of13.QueueGetConfigRequest{Port: 1},
		bundle(of13.BundleOpenRequest), bundle(of13.BundleOpenRequest), bundle(of13.BundleOpenRequest),
		add(flow(7, 3, tcp, nil)), add(flow(8, 4, nil, of13.Instructions(nil).Meter(5).Apply(out))),
		bundle(of13.BundleCloseRequest), bundle(of13.BundleCommitRequest), bundle(of13.BundleCommitRequest),
		bundle(of13.BundleOpenRequest), add(flow(9, 5, tcp, nil)),
		add(flow(9, 5, nil, of13.Instructions(nil).Apply(of13.Actions(nil).Group(99)))),
		bundle(of13.BundleCommitRequest),
		bundle(of13.BundleOpenRequest), add(&of13.BarrierRequest{}), bundle(of13.BundleDiscardRequest),
		bundle(of13.BundleOpenRequest), add(&of13.PortMod{Port: 1, HwAddr: port, Mask: of13.PortConfigNoFwd}),
		bundle(of13.BundleCommitRequest),
		part(of13.PartFlow, all), forget, group(of13.GroupDelete, of13.GroupTypeAll, of13.GroupAll),
		&of13.MeterMod{Command: of13.MeterDelete, MeterID: 5}, part(of13.PartFlow, all),
	}
}

// events is what comes of commands besides answers: two packets, and the entries that are deleted in the end.
const events = 2 + 8

// TestOpenVSwitch: an application sees one and the same switch in whatever version that is spoken to.
func TestOpenVSwitch(t *testing.T) {
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 7)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Connect(sw, h); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var first *client
	for _, version := range []uint8{openflow.Version13, openflow.Version14, openflow.Version15} {
		if err := sw.SetVersion(fmt.Sprintf("OpenFlow1%d", version-1)); err != nil {
			t.Fatal(err)
		}
		if err := sw.SetControllers(ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
		c := accept(t, ln)
		if c.hs.Version != version || c.hs.Datapath != 7 {
			t.Fatalf("version %d of switch %s", c.hs.Version, c.hs.Datapath)
		}
		var port of13.MAC
		for p := range c.toV13(c.hs.Ports)[0].(*of13.MultipartReply).PortDescs().All() {
			if p.Port == 1 {
				port = p.HwAddr
			}
		}
		for _, m := range commands(port) {
			c.ask(m)
		}
		for len(c.events) < events {
			c.hear()
		}
		if err := sw.SetControllers(); err != nil {
			t.Fatal(err)
		}
		c.conn.Close()
		if first == nil {
			first = c
		}
		if d := cmp.Diff(first.answers, c.answers, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("1.3 and 1.%d: %s", version-1, d)
		}
		if d := cmp.Diff(first.events, c.events); d != "" {
			t.Errorf("1.3 and 1.%d: %s", version-1, d)
		}
	}
	if len(first.answers) < 45 {
		t.Errorf("the switch gave only %d answers", len(first.answers))
	}
}
