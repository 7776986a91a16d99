package of13

import (
	"fmt"
	"testing"
)

// TestStrings checks the text in logs.
func TestStrings(t *testing.T) {
	s := samples()
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{Match(nil), "any"},
		{tcpMatch(),
			"in_port=3,eth_dst=02:00:00:00:00:0a,eth_type=0x800,vlan_vid=0x1005,ip_proto=6,ipv4_src=10.1.0.0/255.255.0.0,ipv4_dst=10.0.0.1,tcp_dst=80"},
		{matches()["nd"],
			"eth_type=0x86dd,ip_proto=58,icmpv6_type=135,icmpv6_code=0,ipv6_nd_target=fe80::1,ipv6_nd_sll=02:00:00:00:00:0a"},
		{Match(nil).WithOXM(OXM{Class: ClassNXM1, Field: 3, Value: []byte{1, 2}}), "class(0x0001)field3=0x0102"},
		{Match(nil).WithOXM(OXM{Class: ClassExperimenter, Experimenter: 0x4f4e4600, Field: 42, HasMask: true,
			Value: []byte{0, 2}, Mask: []byte{0, 2}}),
			"experimenter(0x4f4e4600)field42=0x0002/0x0002"},
		{Actions(nil), "drop"},
		{everyAction(),
			"output:1,CONTROLLER:65535,copy_ttl_out,copy_ttl_in,push_mpls:0x8847,set_field:mpls_label=99,set_mpls_ttl:64,dec_mpls_ttl," +
				"pop_mpls:0x800,push_vlan:0x8100,set_field:vlan_vid=0x1005,pop_vlan,set_queue:7,group:5,set_nw_ttl:32,dec_nw_ttl," +
				"set_field:eth_dst=02:00:00:00:00:0b,push_pbb:0x88e7,pop_pbb"},
		{Actions(nil).Output(PortFlood, 0).Experimenter(0x2320, nil), "FLOOD,experimenter:0x2320"},
		{everyInstruction(),
			"meter:1,dec_nw_ttl,output:2,clear_actions,write_actions(output:3),write_metadata:0x10/0xff,goto_table:4"},
		{Instructions(nil), "drop"},
		{Instructions(nil).Experimenter(0x2320, nil), "experimenter:0x2320"},
		{Match(nil).WithEthSrc(macB), "eth_src=02:00:00:00:00:0b"},
		{s["packet in"].(*PacketIn), "PACKET_IN in_port=3,metadata=0x5 reason=action table=2 " +
			"cookie=0x1122334455667788 data=62/62"},
		{s["packet in buffered"].(*PacketIn), "PACKET_IN in_port=3 reason=no_match table=0 " +
			"cookie=0xffffffffffffffff buffer=0x4d data=20/1500"},
		{s["packet out"].(*PacketOut), "PACKET_OUT in_port=CONTROLLER actions=FLOOD data=62"},
		{s["flow add"].(*FlowMod), "FLOW_MOD add table=1 priority=100 cookie=0xc00c1e/0x0 idle_timeout=10 " +
			"hard_timeout=20 flags=0x1 match=" + tcpMatch().String() +
			" actions=" + everyInstruction().String()},
		{s["flow delete"].(*FlowMod), "FLOW_MOD delete table=255 priority=0 cookie=0x0/0xff match=any out_port=2"},
		{s["group add"].(*GroupMod), "GROUP_MOD add group=5 type=ff bucket=watch_port:1,actions=output:1 " +
			"bucket=watch_port:2,actions=set_field:eth_src=02:00:00:00:00:0b,output:2"},
		{s["group select"].(*GroupMod), "GROUP_MOD modify group=6 type=select bucket=weight:7,actions=output:1 " +
			"bucket=weight:3,actions=output:2"},
		{s["port status"].(*PortStatus), "PORT_STATUS modify port=4(eth1) hw_addr=02:00:00:00:00:0a config=0x0 " +
			"state=0x4"},
		{s["error"].(*Error), "BAD_MATCH/BAD_PREREQ"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T:\n got %s\nwant %s", c.v, got, c.want)
		}
	}
}

func TestPortUp(t *testing.T) {
	for _, c := range []struct {
		config, state uint32
		want          bool
	}{
		{0, PortStateLive, true},
		{PortConfigNoFwd, 0, true},
		{PortConfigDown, 0, false},
		{0, PortStateLinkDown, false},
	} {
		if got := (PortDesc{Config: c.config, State: c.state}).Up(); got != c.want {
			t.Errorf("config %#x, state %#x: up is %v", c.config, c.state, got)
		}
	}
}

// A switch cuts names at 15 bytes, if need be within a character.
func TestCutNames(t *testing.T) {
	for name, want := range map[string]string{
		"eth0":             "eth0",
		"":                 "",
		"uplink-Zürich":    "uplink-Zürich",
		"uplink-Zürichü":   "uplink-Zürich?",
		"\xff\xfe":         "?",
		"fifteen letters!": "fifteen letters",
	} {
		if p := (PortDesc{}).parse(PortDesc{Name: name}.AppendTo(nil)); p.Name != want {
			t.Errorf("%q is %q, want %q", name, p.Name, want)
		}
	}
}
