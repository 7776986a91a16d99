package reconcile

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const foreignCookie uint64 = 0xf0

// ovsPolicy owns the cookies and the groups of program.
func ovsPolicy(removeForeign bool) Policy {
	return Policy{RemoveForeign: removeForeign,
		Flow: func(f of13.FlowStats) Owner {
			switch f.Cookie {
			case ours, protect.Cookie:
				return Own
			case theirs:
				return Spare
			}
			return Foreign
		},
		Group: func(g of13.GroupDesc) Owner {
			id := protect.GroupID(g.GroupID)
			if g.GroupType == id.Type() && string(g.Buckets) == string(id.Buckets()) {
				return Own
			}
			return Foreign
		}}
}

// Open vSwitch reports what it was sent. Changes of others to its tables are found and repaired.
func TestOpenVSwitch(t *testing.T) {
	lab := netlab.ForTest(t)
	sw, err := lab.AddSwitch("s1", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, want := connect(t, lab, sw), program(t)
	n := len(want.Flows) + len(want.Groups)

	if got := s.check(want, false); got != (Result{Missing: n}) {
		t.Fatalf("of an empty switch it finds %+v", got)
	}
	s.parts = 0
	if got := s.check(want, true); got != (Result{Right: n}) || len(s.sent) > 0 {
		t.Fatalf("of a switch that has all %d it finds %+v, and sends %v", n, got, s.sent[:min(3, len(s.sent))])
	}
	if s.parts < 4 {
		t.Errorf("the answers came in %d parts: too few entries to tell anything", s.parts)
	}

	gone := s.spoil(want)
	if got := s.check(want, false); got != (Result{Right: n - 3 - gone, Wrong: 3, Missing: gone, Surplus: 3,
		Foreign: 2}) {
		t.Errorf("after somebody was at its tables it finds %+v, want 3 wrong, %d missing, 3 surplus, 2 foreign of %d",
			got, gone, n)
	}
	if got := s.check(want, false); got != (Result{Right: n, Foreign: 2}) || len(s.sent) > 0 {
		t.Errorf("after the repair it finds %+v, and sends %v", got, s.sent[:min(3, len(s.sent))])
	}
	if got := s.check(want, true); got != (Result{Right: n, Foreign: 2}) {
		t.Errorf("with the policy to remove what is foreign it finds %+v", got)
	}
	if got := s.check(want, true); got != (Result{Right: n}) || len(s.sent) > 0 {
		t.Errorf("when that is removed it finds %+v, and sends %v", got, s.sent[:min(3, len(s.sent))])
	}
	if out, err := sw.OFCtl("dump-flows", fmt.Sprintf("cookie=%#x/-1", theirs)); err != nil ||
		!strings.Contains(out, "priority=7") {
		t.Errorf("the entry of another application is gone: %s, %v", out, err)
	}
}

// spoil makes changes that a check should find, and returns how many entries it has deleted.
func (s *session) spoil(want Want) (gone int) {
	s.t.Helper()
	groups := func(f of13.FlowMod) []uint32 { return slices.Collect(instructionGroups(f.Instructions)) }
	inRoutes := slices.IndexFunc(want.Flows, func(f of13.FlowMod) bool {
		return f.Cookie == protect.Cookie &&
			len(groups(f)) > 0
	})
	used := groups(want.Flows[inRoutes])[0]
	changed := slices.IndexFunc(want.Groups, func(
		g of13.GroupMod) bool {
		return g.GroupType == of13.GroupTypeFastFailover && g.GroupID != used
	})
	for _, f := range want.Flows {
		if slices.Contains(groups(f), used) {
			gone++ // with its group
		}
	}
	const surplus = 900<<15 | 901
	for _, step := range [][]string{
		{"del-flows", "--strict", "table=1,priority=100,dl_dst=02:00:00:00:00:05"},
		{"del-groups", fmt.Sprintf("group_id=%d", used)},
		// Wrong buckets, wrong actions, and wrong actions with the cookie of someone else.
		{"mod-group", fmt.Sprintf("group_id=%d,type=ff,bucket=watch_port:1,output:1", want.Groups[changed].GroupID)},
		{"mod-flows", "--strict", "table=1,priority=100,dl_dst=02:00:00:00:00:07,actions=drop"},
		{"add-flow", fmt.Sprintf("cookie=%#x,table=1,priority=100,dl_dst=02:00:00:00:00:08,actions=drop",
			foreignCookie)},
		// Ours but not wanted: an entry with its group, and another entry.
		{"add-group", fmt.Sprintf("group_id=%d,type=ff,bucket=watch_port:900,output:900,"+
			"bucket=watch_port:901,output:901,bucket=watch_group:%d,output:900", surplus, protect.Live)},
		{"add-flow", fmt.Sprintf("cookie=%#x,table=2,priority=9,metadata=0x999,actions=group:%d", protect.Cookie,
			surplus)},
		{"add-flow", fmt.Sprintf("cookie=%#x,table=0,priority=9,in_port=3,actions=drop", ours)},
		// Foreign entries, and those of another application.
		{"add-group", "group_id=7777,type=all,bucket=output:1"},
		{"add-flow", fmt.Sprintf("cookie=%#x,table=0,priority=8,in_port=3,idle_timeout=600,actions=group:7777",
			foreignCookie)},
		{"add-flow", fmt.Sprintf("cookie=%#x,table=0,priority=7,in_port=3,actions=drop", theirs)},
	} {
		if _, err := s.sw.OFCtl(step[0], step[1:]...); err != nil {
			s.t.Fatal(err)
		}
	}
	return gone + 2
}

// program is what a switch of a node-disjoint network with many hosts contains, with entries and groups of all
// kinds.
func program(t *testing.T) Want {
	t.Helper()
	g := graphs.USNET()
	var hosts []protect.Host
	for i := range 2000 {
		hosts = append(hosts, protect.Host{MAC: of13.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)},
			At: paths.End{Switch: g.Switches()[i%len(g.Switches())], Port: of13.Port(100 + i)}})
	}
	routes, err := paths.Protect(g, g.Switches(), paths.NodeDisjoint)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := protect.Compile(routes, hosts, protect.Config{Table: 1, MaxEntries: 10000, MaxGroups: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := kinds()
	for _, m := range protect.Diff(protect.Program{}, plan.Program(g.Switches()[1])).Messages() {
		switch m := m.(type) {
		case *of13.FlowMod:
			want.Flows = append(want.Flows, *m)
		case *of13.GroupMod:
			want.Groups = append(want.Groups, *m)
		}
	}
	return want
}

// kinds has matches, instructions and groups of all kinds, in forms that a switch might not use.
func kinds() Want {
	var w Want
	add := func(m of13.Match, in of13.Instructions) {
		w.Flows = append(w.Flows, of13.FlowMod{Cookie: ours, TableID: 10, Priority: uint16(len(w.Flows)), Match: m,
			Instructions: in})
	}
	var none of13.Instructions
	var a of13.Actions
	ones := func(n int) []byte { return slices.Repeat([]byte{255}, n) }
	ipv4, ipv6 := any13.WithEthType(0x800), any13.WithEthType(0x86dd)
	udp := ipv4.WithIPProto(17)
	for _, m := range []of13.Match{
		nil,
		any13.WithVLAN(5).WithMetadata(7, 15).WithInPort(1),
		any13.WithOXM(masked(of13.FieldMetadata, []byte{0, 0, 0, 0, 0, 0, 0, 5}, ones(8))),
		any13.WithOXM(masked(of13.FieldMetadata, make([]byte, 8), make([]byte, 8))),
		any13.WithEthDstMasked(of13.MAC{1}, of13.MAC{1}).WithEthSrc(of13.MAC{2}),
		any13.WithEthType(0x806).WithUint(of13.FieldARPOp, 1).With(of13.FieldARPTPA, []byte{10, 0, 0, 0},
			[]byte{255, 0, 0, 0}).With(of13.FieldARPSHA, []byte{2, 0, 0, 0, 0, 1}, nil),
		ipv4.WithUint(of13.FieldIPDSCP, 5).WithUint(of13.FieldIPECN, 1).WithIPv4Src([4]byte{10},
			[4]byte{255}).WithIPv4Dst([4]byte{10, 0, 0, 1}, [4]byte{255, 255, 255, 255}),
		udp.WithUint(of13.FieldUDPDst, 67).WithUint(of13.FieldUDPSrc, 68),
		ipv4.WithIPProto(6).WithUint(of13.FieldTCPDst, 80),
		ipv4.WithIPProto(132).WithUint(of13.FieldSCTPDst, 80),
		ipv4.WithIPProto(1).WithUint(of13.FieldICMPv4Type, 8).WithUint(of13.FieldICMPv4Code, 0),
		ipv6.WithIPProto(58),
		ipv6.WithIPProto(58).WithUint(of13.FieldICMPv6Type, 135).With(of13.FieldIPv6NDTarget,
			slices.Repeat([]byte{1}, 16), nil).WithOXM(of13.Exact(of13.FieldIPv6NDSLL, []byte{2, 0, 0, 0, 0, 1})),
		ipv6.WithOXM(masked(of13.FieldIPv6FLabel, []byte{0, 1, 2, 3},
			[]byte{0, 15, 255, 255})).WithIPv6Src([16]byte{0xfe, 0x80}, [16]byte{0xff, 0xff}),
		any13.WithVLAN(4095),
		any13.WithNoVLAN(),
		any13.WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000),
		any13.WithOXM(masked(of13.FieldVLANVID, []byte{0x10, 5}, []byte{0x1f, 0xff})),
		any13.WithVLAN(5).WithUint(of13.FieldVLANPCP, 3).WithEthType(0x800),
		any13.WithEthType(0x8847).WithUint(of13.FieldMPLSLabel, 5).WithUint(of13.FieldMPLSBOS,
			1).WithUint(of13.FieldMPLSTC, 2),
		any13.WithUint(of13.FieldTunnelID, 5),
	} {
		add(m, none.Apply(output(1)))
	}
	for _, in := range []of13.Instructions{
		drop,
		none.Apply(nil),
		none.Goto(12).WriteMetadata(5, 4).Apply(output(1)),
		none.WriteMetadata(5, ^uint64(0)).Goto(11),
		none.WriteMetadata(5, 0),
		none.Write(a.PopVLAN().Output(1, 0)).Clear(),
		none.Apply(a.Output(1, 9).Output(of13.PortController, 128).Output(of13.PortController,
			of13.MaxLenNoBuffer).Output(of13.PortController, 0)),
		none.Apply(a.Output(of13.PortInPort, 1).Output(of13.PortAll, 2).Output(of13.PortFlood,
			3).Output(of13.PortNormal, 4).Output(of13.PortLocal, 5)),
		none.Apply(a.PushVLAN(0x8100).SetUint(of13.FieldVLANVID, 0x1fff).SetUint(of13.FieldVLANPCP, 3).Output(1, 0)),
		none.Apply(a.SetQueue(7).Output(1, 0).PushMPLS(0x8847).SetMPLSTTL(9).DecMPLSTTL().PopMPLS(0x800).Output(2, 0)),
		none.Apply(a.SetField(of13.Exact(of13.FieldEthDst, []byte{2, 0, 0, 0, 0, 1})).SetUint(of13.FieldTunnelID,
			9).Output(1, 0)),
		none.Apply(a.Group(2)),
	} {
		add(any13.WithInPort(9), in)
	}
	add(udp, none.Apply(a.SetUint(of13.FieldUDPDst,
		9).SetField(of13.Exact(of13.FieldIPv4Dst, []byte{1, 2, 3, 4})).SetUint(of13.FieldIPDSCP,
		3).DecNwTTL().SetNwTTL(5).Output(1, 0)))
	w.Flows = append(w.Flows, of13.FlowMod{Cookie: ours, TableID: 11, IdleTimeout: 600, HardTimeout: 900,
		Flags: of13.FlowSendFlowRem | of13.FlowCheckOverlap | of13.FlowResetCounts | of13.FlowNoBytCounts | of13.FlowNoPktCounts})

	bucket := func(weight uint16, watch of13.Port, group uint32, a of13.Actions) of13.Buckets {
		return of13.Buckets(nil).With(of13.Bucket{Weight: weight, WatchPort: watch, WatchGroup: group, Actions: a})
	}
	two := func(b of13.Buckets) of13.Buckets { return append(slices.Clone(b), b...) }
	w.Groups = []of13.GroupMod{
		{GroupType: of13.GroupTypeIndirect, GroupID: 1, Buckets: bucket(0, of13.PortAny, of13.GroupAny, output(1))},
		{GroupType: of13.GroupTypeAll, GroupID: 2, Buckets: two(bucket(0, of13.PortAny, of13.GroupAny,
			a.PopVLAN().Group(1)))},
		{GroupType: of13.GroupTypeSelect, GroupID: 3,
			Buckets: two(bucket(5, of13.PortAny, of13.GroupAny, a.SetQueue(1).Output(1, 9)))},
		{GroupType: of13.GroupTypeFastFailover, GroupID: 4,
			Buckets: append(bucket(0, 1, of13.GroupAny, output(1)), bucket(0, of13.PortAny, 3, a.Group(3))...)},
		{GroupType: of13.GroupTypeAll, GroupID: 5},
	}
	return w
}

// session is the connection of a switch.
type session struct {
	t     *testing.T
	sw    *netlab.Switch
	nc    net.Conn
	r     *ofconn.Reader
	parts int            // number of replies
	sent  []of13.Message // sent by the last check
}

func connect(t *testing.T, lab *netlab.Lab, sw *netlab.Switch) *session {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := sw.SetControllers(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, sw: sw, nc: nc, r: ofconn.NewReader(nc)}
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	if _, err := nc.Write(hello.Append(nil, 1)); err != nil {
		t.Fatal(err)
	}
	return s
}

// send makes the switch execute messages, and calls reply for its answers.
func (s *session) send(msgs []of13.Message, reply func(of13.MultipartReply)) {
	s.t.Helper()
	var b []byte
	for i, m := range msgs {
		b = m.Append(b, uint32(i))
	}
	if _, err := s.nc.Write((&of13.BarrierRequest{}).Append(b, 0)); err != nil {
		s.t.Fatal(err)
	}
	for {
		batch, err := s.r.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		for len(batch) > 0 {
			var raw []byte
			raw, batch, _ = openflow.Next(batch)
			m, err := of13.Decode(raw)
			if err != nil {
				s.t.Fatal(err)
			}
			switch m := m.(type) {
			case *of13.Error:
				s.t.Fatalf("the switch refuses %v: %v", msgs[openflow.XID(raw)], m)
			case *of13.MultipartReply:
				s.parts++
				reply(*m)
			case *of13.BarrierReply:
				return
			}
		}
	}
}

// check runs a check, sends the repairs, and returns what it has found.
func (s *session) check(want Want, removeForeign bool) Result {
	s.t.Helper()
	c, err := New(want, ovsPolicy(removeForeign))
	if err != nil {
		s.t.Fatal(err)
	}
	var deletions []of13.Message
	s.send(c.Requests(), func(m of13.MultipartReply) {
		d, err := c.Reply(m)
		if err != nil {
			s.t.Fatal(err)
		}
		deletions = append(deletions, d...)
	})
	if !c.Complete() {
		s.t.Fatal("the check is not complete after all replies")
	}
	msgs := append(deletions, c.Repair()...)
	s.sent = msgs
	s.send(msgs, func(m of13.MultipartReply) { s.t.Fatalf("unasked: %v", &m) })
	return c.Result()
}
