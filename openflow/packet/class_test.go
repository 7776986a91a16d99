package packet

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Each range of ports is covered exactly, by parts that do not overlap.
func TestCover(t *testing.T) {
	most := 0
	for _, r := range [][2]uint64{{1, 1}, {80, 80}, {1, 65535}, {1, 65534}, {1024, 65535}, {1, 1023}, {3, 12345}} {
		var hit [1 << 16]int
		list := cover(r[0], r[1])
		most = max(most, len(list))
		for _, m := range list {
			for n := range hit {
				if uint64(n)&m.mask == m.value {
					hit[n]++
				}
			}
		}
		for n, got := range hit {
			want := 0
			if r[0] <= uint64(n) && uint64(n) <= r[1] {
				want = 1
			}
			if got != want {
				t.Fatalf("%v: %d is in %d of %v", r, n, got, list)
			}
		}
	}
	if most != maxCover {
		t.Errorf("the worst range has %d parts, not %d", most, maxCover)
	}
}

func TestClass(t *testing.T) {
	tag, none, wrong := uint16(5), uint16(0), uint16(4095)
	for _, c := range []struct {
		class Class
		want  string
	}{
		{Class{}, "any"},
		{Class{Protocol: "arp"}, "eth_type=0x806"},
		{Class{Protocol: "icmp", Source: "10.0.0.0/8"}, "eth_type=0x800,ip_proto=1,ipv4_src=10.0.0.0/255.0.0.0"},
		{Class{Source: "10.0.0.1", Destination: "0.0.0.0/0"}, "eth_type=0x800,ipv4_src=10.0.0.1"},
		{Class{Destination: "2001:db8::/32"}, "eth_type=0x86dd,ipv6_dst=2001:db8::/ffff:ffff::"},
		{Class{Protocol: "udp", SourcePorts: "6-7", Source: "::1"},
			"eth_type=0x86dd,ip_proto=17,ipv6_src=::1,udp_src=6/65534"},
		{Class{Protocol: "89", VLAN: &none}, "vlan_vid=0x0,eth_type=0x800,ip_proto=89 " +
			"vlan_vid=0x0,eth_type=0x86dd,ip_proto=89"},
		{Class{Protocol: "0x88b5"}, "eth_type=0x88b5"},
		{Class{Protocol: "0x0800", Source: "10.0.0.1"}, "eth_type=0x800,ipv4_src=10.0.0.1"},
		{Class{Protocol: "lldp", VLAN: &tag}, "vlan_vid=0x1005,eth_type=0x88cc"},
	} {
		list, err := c.class.Matches(nil)
		var text []string
		for _, m := range list {
			text = append(text, m.String())
			if err := m.Validate(); err != nil {
				t.Errorf("%+v: %v: %v", c.class, m, err)
			}
		}
		if got := strings.Join(text, " "); err != nil || got != c.want {
			t.Errorf("%+v is %s, %v, want %s", c.class, got, err, c.want)
		}
	}
	for want, c := range map[string]Class{
		`protocol "tcq": use`:               {Protocol: "tcq"},
		`protocol "256": use`:               {Protocol: "256"},
		`protocol "0x5ff": use`:             {Protocol: "0x5ff"},
		`source "10.0.0.1/8": use`:          {Source: "10.0.0.1/8"},
		`destination "a": use`:              {Destination: "a"},
		`destination "fe80::1%1": use`:      {Destination: "fe80::1%1"},
		`use one version of IP`:             {Source: "10.0.0.0/8", Destination: "::/0"},
		`protocol "icmp" from "::1"`:        {Protocol: "icmp", Source: "::1"},
		`protocol "arp" from "10.0.0.1"`:    {Protocol: "arp", Source: "10.0.0.1"},
		`source_ports "80": use a port`:     {SourcePorts: "80"},
		`source_ports "0-80": use`:          {Protocol: "tcp", SourcePorts: "0-80"},
		`destination_ports "9-8": use`:      {Protocol: "tcp", DestinationPorts: "9-8"},
		`destination_ports "65536": use`:    {Protocol: "tcp", DestinationPorts: "65536"},
		`destination_ports "1-2-3": use`:    {Protocol: "tcp", DestinationPorts: "1-2-3"},
		`destination_ports "80": use a por`: {Protocol: "icmp", DestinationPorts: "80"},
		`vlan 4095: use`:                    {VLAN: &wrong},
	} {
		if list, err := c.Matches(of13.Match{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v is %v, %v, want %s", c, list, err, want)
		}
	}
	worst := Class{Protocol: "tcp", SourcePorts: "1-65534", DestinationPorts: "1-65534"}
	if list, err := worst.Matches(nil); err != nil || len(list) != 2*maxCover*maxCover {
		t.Errorf("%d matches, %v, want %d", len(list), err, 2*maxCover*maxCover)
	}
}

// Any text is refused, or becomes valid matches.
func FuzzClass(f *testing.F) {
	f.Add("tcp", "10.0.0.0/8", "", "1-1023", "80", uint16(0), true)
	f.Add("89", "", "2001:db8::/32", "", "", uint16(4095), true)
	f.Add("icmp", "::ffff:10.0.0.1", "fe80::1%1", "1", "", uint16(0), false)
	f.Fuzz(func(t *testing.T, protocol, source, destination, from, to string, vlan uint16, tagged bool) {
		c := Class{Protocol: protocol, Source: source, Destination: destination, SourcePorts: from, DestinationPorts: to}
		if tagged {
			c.VLAN = &vlan
		}
		list, err := c.Matches(of13.Match(nil).WithInPort(1))
		if (err == nil) != (len(list) > 0) || len(list) > 2*maxCover*maxCover {
			t.Errorf("%+v is %d matches, %v", c, len(list), err)
		}
		for _, m := range list {
			if err := m.Validate(); err != nil {
				t.Errorf("%+v: %v: %v", c, m, err)
			}
		}
	})
}
