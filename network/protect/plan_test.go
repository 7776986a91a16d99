package protect

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The entries of B in figure 3b for hosts at A, B and E: from A to E by B, C, D, and back by the same path.
func TestProgramOfTheRing(t *testing.T) {
	g := graphs.Ring()
	routes, err := paths.Protect(g, []openflow.DatapathID{1, 2, 5}, paths.LinkDisjoint)
	if err != nil {
		t.Fatal(err)
	}
	hosts := hostsOf(g)
	p, err := Compile(routes, []Host{hosts[0], hosts[1], hosts[4]}, Config{Table: 10, MaxEntries: 100, MaxGroups: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range Diff(Program{}, p.Program(2)).Messages() {
		got = append(got, strings.TrimSpace(strings.ReplaceAll(m.(interface{ String() string }).String(),
			" cookie=0x686670726f74/0x0", "")))
	}
	const last = " bucket=watch_group:32767,actions=output:"
	const tagged = "actions=push_vlan:0x8100,set_field:vlan_vid=0x1fff,"
	want := []string{
		"GROUP_MOD add group=32767 type=indirect bucket=actions=drop",
		"GROUP_MOD add group=1073774594 type=ff bucket=watch_port:1,actions=output:1 " +
			"bucket=watch_port:2," + tagged + "output:2" + last + "1",
		"GROUP_MOD add group=1073807361 type=ff bucket=watch_port:2,actions=output:2 " +
			"bucket=watch_port:1," + tagged + "output:1" + last + "2",
		"GROUP_MOD add group=3221258242 type=ff bucket=watch_port:1,actions=output:1 " +
			"bucket=watch_port:2," + tagged + "IN_PORT" + last + "1",
		"GROUP_MOD add group=3221291009 type=ff bucket=watch_port:2,actions=output:2 " +
			"bucket=watch_port:1," + tagged + "IN_PORT" + last + "2",
		"FLOW_MOD add table=10 priority=100 match=eth_dst=02:00:00:00:00:01 " +
			"actions=write_metadata:0x1/0xffffffffffffffff,goto_table:11",
		"FLOW_MOD add table=10 priority=300 match=eth_dst=02:00:00:00:00:02,vlan_vid=0x1fff " +
			"actions=pop_vlan,output:100",
		"FLOW_MOD add table=10 priority=100 match=eth_dst=02:00:00:00:00:02 actions=output:100",
		"FLOW_MOD add table=10 priority=100 match=eth_dst=02:00:00:00:00:05 " +
			"actions=write_metadata:0x5/0xffffffffffffffff,goto_table:11",
		"FLOW_MOD add table=11 priority=500 match=in_port=1,metadata=0x1,vlan_vid=0x1fff,vlan_pcp=0 " +
			"actions=set_field:vlan_pcp=1,IN_PORT",
		"FLOW_MOD add table=11 priority=400 match=in_port=1,metadata=0x1,vlan_vid=0x0 " +
			"actions=push_vlan:0x8100,set_field:vlan_vid=0x1fff,set_field:vlan_pcp=1,IN_PORT",
		"FLOW_MOD add table=11 priority=300 match=metadata=0x1,vlan_vid=0x1fff actions=output:1",
		"FLOW_MOD add table=11 priority=200 match=in_port=2,metadata=0x1 actions=group:3221258242",
		"FLOW_MOD add table=11 priority=100 match=metadata=0x1 actions=group:1073774594",
		"FLOW_MOD add table=11 priority=400 match=in_port=2,metadata=0x5 actions=output:1",
		"FLOW_MOD add table=11 priority=300 match=metadata=0x5,vlan_vid=0x1fff actions=output:2",
		"FLOW_MOD add table=11 priority=200 match=in_port=1,metadata=0x5 actions=group:3221291009",
		"FLOW_MOD add table=11 priority=100 match=metadata=0x5 actions=group:1073807361",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %d messages:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// In node-disjoint routes, the switches next to the destination mark packets that take their backup. The
// destination removes the mark.
func TestProgramsThatMark(t *testing.T) {
	p := planOf(t, graphs.Triangle(), paths.NodeDisjoint)
	lines := func(s openflow.DatapathID) (all string) {
		for _, m := range Diff(Program{}, p.Program(s)).Messages() {
			all += m.(interface{ String() string }).String() + "\n"
		}
		return all
	}
	for s, want := range map[openflow.DatapathID]string{
		2: "bucket=watch_port:1,actions=push_vlan:0x8100,set_field:vlan_vid=0x1fff,IN_PORT",
		3: "match=eth_dst=02:00:00:00:00:03,vlan_vid=0x1fff actions=pop_vlan,output:100",
		1: "priority=300 cookie=0x686670726f74/0x0 match=metadata=0x2,vlan_vid=0x1fff actions=output:1",
	} {
		if got := lines(s); !strings.Contains(got, want) {
			t.Errorf("switch %v has nothing with %s:\n%s", s, want, got)
		}
	}
}

func TestGroupsAreShared(t *testing.T) {
	g := graphs.Random(1, 100, 200, 10)
	p := planOf(t, g, paths.LinkDisjoint)
	for _, s := range g.Switches() {
		ports := 0
		for _, l := range g.Links() {
			if l.From.Switch == s {
				ports++
			}
		}
		if _, groups := p.Size(s); groups > 2*ports*(ports-1)+1 {
			t.Errorf("switch %v has %d groups for %d ports: with or without IN_PORT there are not more than two "+
				"for each ordered pair of ports", s, groups, ports)
		}
	}
}

func TestGroupIDsOfHighPorts(t *testing.T) {
	h := paths.Hop{Primary: MaxPort, Backup: MaxPort - 1, Back: true, Once: true}
	id := groupOf(h, true)
	if uint32(id) > of13.GroupMax {
		t.Errorf("group %#x is above the highest, %#x", uint32(id), of13.GroupMax)
	}
	if id.Primary() != MaxPort || id.Backup() != MaxPort-1 || !id.Back() || !id.Once() {
		t.Errorf("%v is not the group of %+v", id, h)
	}
}

func TestCompileRefuses(t *testing.T) {
	ring := graphs.Ring()
	routes, err := paths.Protect(ring, []openflow.DatapathID{1, 2, 3}, paths.LinkDisjoint)
	if err != nil {
		t.Fatal(err)
	}
	a, b := paths.End{Switch: 0, Port: 1}, paths.End{Switch: 2, Port: 1}
	routesOf := func(a, b paths.End) *paths.Routes {
		g, err := paths.NewGraph([]openflow.DatapathID{a.Switch, b.Switch}, paths.Both(a, b, 1))
		if err != nil {
			t.Fatal(err)
		}
		r, err := paths.Protect(g, g.Switches(), paths.LinkDisjoint)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	hosts := hostsOf(ring)
	for _, c := range []struct {
		what   string
		routes *paths.Routes
		hosts  []Host
		config Config
		want   string
	}{
		{"too many entries", routes, hosts[:3], Config{MaxEntries: 5, MaxGroups: 9}, "flow entries and may have 5"},
		{"too many groups", routes, hosts[:3], Config{MaxEntries: 99, MaxGroups: 1}, "groups and may have 1"},
		{"no room", routes, nil, Config{}, "0 entries and 0 groups"},
		{"no table for routes", routes, nil, Config{Table: of13.TableMax, MaxEntries: 9, MaxGroups: 9},
			"tables from 254"},
		{"host at no destination", routes, hosts[3:4], roomy, "is no destination"},
		{"one host at two ports", routes, append(hosts[:1:1], Host{hosts[0].MAC, hosts[1].At}), roomy, "keep one"},
		{"group address", routes, []Host{{of13.MAC{1}, hosts[0].At}}, roomy, "no unicast address"},
		{"switch 0", routesOf(a, b), nil, roomy, "give the switch another id"},
		{"high port", routesOf(paths.End{Switch: 1, Port: MaxPort + 1}, b), nil, roomy, "use ports up to 32766"},
	} {
		if _, err := Compile(c.routes, c.hosts, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.what, err, c.want)
		}
	}
}
