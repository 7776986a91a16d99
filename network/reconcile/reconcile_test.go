package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	ours   uint64 = 0xaa
	theirs uint64 = 0xbb
)

// policy owns entries with our cookie, and groups up to 99.
func policy(removeForeign bool) Policy {
	return Policy{
		Flow: func(f of13.FlowStats) Owner {
			switch f.Cookie {
			case ours:
				return Own
			case theirs:
				return Spare
			}
			return Foreign
		},
		Group: func(g of13.GroupDesc) Owner {
			switch {
			case g.GroupID < 100:
				return Own
			case g.GroupID < 200:
				return Spare
			}
			return Foreign
		},
		RemoveForeign: removeForeign,
	}
}

var (
	any13 of13.Match
	drop  of13.Instructions
)

func output(p of13.Port) of13.Actions { return of13.Actions(nil).Output(p, 0) }

func apply(a of13.Actions) of13.Instructions { return of13.Instructions(nil).Apply(a) }

func toGroup(id uint32) of13.Instructions { return apply(of13.Actions(nil).Group(id)) }

func entry(priority uint16, m of13.Match, in of13.Instructions) of13.FlowMod {
	return of13.FlowMod{Cookie: ours, Priority: priority, Match: m, Instructions: in}
}

// held is how a switch describes an entry that it has received.
func held(f of13.FlowMod) of13.FlowStats {
	return of13.FlowStats{TableID: f.TableID, Priority: f.Priority, IdleTimeout: f.IdleTimeout,
		HardTimeout: f.HardTimeout, Flags: f.Flags, Cookie: f.Cookie,
		Match: f.Match, Instructions: f.Instructions, PacketCount: 7}
}

func failover(id uint32, ports ...of13.Port) of13.GroupMod {
	g := of13.GroupMod{GroupType: of13.GroupTypeFastFailover, GroupID: id}
	for _, p := range ports {
		g.Buckets = g.Buckets.With(of13.Bucket{WatchPort: p, WatchGroup: of13.GroupAny, Actions: output(p)})
	}
	return g
}

// chain is a group that passes packets to others.
func chain(id uint32, to ...uint32) of13.GroupMod {
	g := of13.GroupMod{GroupType: of13.GroupTypeAll, GroupID: id}
	for _, next := range to {
		g.Buckets = g.Buckets.With(of13.Bucket{WatchPort: of13.PortAny, WatchGroup: of13.GroupAny,
			Actions: of13.Actions(nil).Group(next)})
	}
	return g
}

func described(g of13.GroupMod) of13.GroupDesc {
	return of13.GroupDesc{GroupType: g.GroupType, GroupID: g.GroupID, Buckets: g.Buckets}
}

func flowPart(more bool, list ...of13.FlowStats) of13.MultipartReply {
	m := of13.MultipartReply{Part: of13.PartFlow}
	for _, f := range list {
		m.Body = f.AppendTo(m.Body)
	}
	if more {
		m.Flags = of13.FlagMore
	}
	return m
}

func groupPart(more bool, list ...of13.GroupDesc) of13.MultipartReply {
	m := of13.MultipartReply{Part: of13.PartGroupDesc}
	for _, g := range list {
		m.Body = g.AppendTo(m.Body)
	}
	if more {
		m.Flags = of13.FlagMore
	}
	return m
}

func newCheck(t *testing.T, w Want, p Policy) *Check {
	t.Helper()
	c, err := New(w, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// feed passes parts of replies to a check, and returns the deletions.
func feed(t *testing.T, c *Check, parts ...of13.MultipartReply) []of13.Message {
	t.Helper()
	var msgs []of13.Message
	for _, p := range parts {
		d, err := c.Reply(p)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, d...)
	}
	return msgs
}

func expect(t *testing.T, what string, msgs []of13.Message, want ...string) {
	t.Helper()
	var got []string
	for _, m := range msgs {
		got = append(got, fmt.Sprint(m))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n\t%s\nwant:\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestRepair(t *testing.T) {
	a, b := entry(1, any13.WithInPort(1), toGroup(1)), entry(2, any13.WithInPort(2), apply(output(3)))
	mine := entry(3, any13.WithInPort(3), drop)
	spare, foreign := mine, mine
	spare.Cookie, foreign.Cookie = theirs, 0xcc
	shortLived, unmarked := a, a
	shortLived.IdleTimeout = 5
	unmarked.Cookie = 0
	one, other := failover(1, 1, 2), failover(1, 2, 1)
	want := Want{[]of13.FlowMod{a, b}, []of13.GroupMod{one}}

	const (
		addA = "FLOW_MOD add table=0 priority=1 cookie=0xaa/0x0 match=in_port=1 actions=group:1"
		addB = "FLOW_MOD add table=0 priority=2 cookie=0xaa/0x0 match=in_port=2 actions=output:3"
		add1 = "GROUP_MOD add group=1 type=ff bucket=watch_port:1,actions=output:1 " +
			"bucket=watch_port:2,actions=output:2"
		set1 = "GROUP_MOD modify group=1 type=ff bucket=watch_port:1,actions=output:1 " +
			"bucket=watch_port:2,actions=output:2"
		noOur = "FLOW_MOD delete_strict table=0 priority=3 cookie=0xaa/0xffffffffffffffff match=in_port=3"
		noFor = "FLOW_MOD delete_strict table=0 priority=3 cookie=0xcc/0xffffffffffffffff match=in_port=3"
	)
	flows := func(list ...of13.FlowMod) []of13.FlowMod { return list }
	groups := func(list ...of13.GroupMod) []of13.GroupMod { return list }
	for _, tc := range []struct {
		name    string
		flows   []of13.FlowMod
		groups  []of13.GroupMod
		remove  bool
		deleted []string
		repair  []string
		result  Result
	}{
		{"all right", flows(a, b), groups(one), false, nil, nil, Result{Right: 3}},
		{"all right, in another order", flows(b, a), groups(one), true, nil, nil, Result{Right: 3}},
		{"nothing there", nil, nil, false, nil, []string{add1, addA, addB}, Result{Missing: 3}},
		{"entry missing", flows(a), groups(one), false, nil, []string{addB}, Result{Right: 2, Missing: 1}},
		{"cookie wrong", flows(unmarked, b), groups(one), true, nil, []string{addA}, Result{Right: 2, Wrong: 1}},
		{"would time out", flows(shortLived, b), groups(one), false, nil, []string{addA}, Result{Right: 2, Wrong: 1}},
		{"action wrong", flows(a, entry(2, b.Match, drop)), groups(one), false, nil, []string{addB},
			Result{Right: 2, Wrong: 1}},
		{"buckets wrong", flows(a, b), groups(other), false, nil, []string{set1}, Result{Right: 2, Wrong: 1}},
		{"group missing and its entry with it", flows(b), nil, false, nil, []string{add1, addA},
			Result{Right: 1, Missing: 2}},
		{"ours too many", flows(a, b, mine), groups(one), false, []string{noOur}, nil, Result{Right: 3, Surplus: 1}},
		{"another application's", flows(a, b, spare), groups(one, failover(100, 1)), true, nil, nil, Result{Right: 3}},
		{"foreign, left", flows(a, b, foreign), groups(one, failover(200, 1)), false, nil, nil,
			Result{Right: 3, Foreign: 2}},
		{"foreign, removed", flows(a, b, foreign), groups(one, failover(200, 1)), true, []string{noFor},
			[]string{"GROUP_MOD delete group=200 type=all"}, Result{Right: 3, Foreign: 2}},
		{"groups too many, users first", flows(a, b), groups(one, failover(2, 1), chain(3, 2), chain(4, 3)), false, nil,
			[]string{"GROUP_MOD delete group=4 type=all", "GROUP_MOD delete group=3 type=all",
				"GROUP_MOD delete group=2 type=all"}, Result{Right: 3, Surplus: 3}},
		{"groups of what stays", flows(a, b, of13.FlowMod{Cookie: theirs, Instructions: toGroup(3)}),
			groups(one, failover(2, 1), chain(3, 2), failover(4, 1)), false, nil,
			[]string{"GROUP_MOD delete group=4 type=all"}, Result{Right: 3, Surplus: 3}},
		{"group of a group that stays", flows(a, b), groups(one, failover(2, 1), chain(300, 2)), false, nil, nil,
			Result{Right: 3, Surplus: 1, Foreign: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCheck(t, want, policy(tc.remove))
			flows, groups := flowPart(false), groupPart(false)
			for _, f := range tc.flows {
				flows.Body = held(f).AppendTo(flows.Body)
			}
			for _, g := range tc.groups {
				groups.Body = described(g).AppendTo(groups.Body)
			}
			expect(t, "deletes at once", feed(t, c, flows, groups), tc.deleted...)
			expect(t, "repairs", c.Repair(), tc.repair...)
			if got := c.Result(); got != tc.result {
				t.Errorf("result %+v, want %+v", got, tc.result)
			}
		})
	}
}

// A wanted group may use an unwanted one. That stays, because its deletion would delete the entries.
func TestGroupThatTheWantedUse(t *testing.T) {
	c := newCheck(t, Want{Flows: []of13.FlowMod{entry(1, nil, toGroup(5))}, Groups: []of13.GroupMod{chain(6, 7)}},
		policy(true))
	feed(t, c, flowPart(false, held(entry(1, nil, toGroup(5)))),
		groupPart(false, described(failover(5, 1)), described(failover(7, 1)), described(chain(6, 7)),
			described(failover(8, 1))))
	expect(t, "repairs", c.Repair(), "GROUP_MOD delete group=8 type=all")
}

// Nothing counts as missing before the last parts of both replies.
func TestParts(t *testing.T) {
	a, b := entry(1, any13.WithInPort(1), drop), entry(2, any13.WithInPort(2), drop)
	changed := entry(1, a.Match, apply(output(1)))
	c := newCheck(t, Want{Flows: []of13.FlowMod{a, b}}, policy(false))
	for i, p := range []of13.MultipartReply{
		flowPart(true, held(a)), groupPart(true), flowPart(true, held(changed)), // asked again after a change
		flowPart(false, held(b)),
	} {
		feed(t, c, p)
		if c.Complete() || c.Repair() != nil {
			t.Fatalf("after part %d the check is complete: %v, repairs %v", i, c.Complete(), c.Repair())
		}
	}
	feed(t, c, groupPart(false))
	if !c.Complete() {
		t.Fatal("not complete after the last parts")
	}
	expect(t, "repairs", c.Repair(), "FLOW_MOD add table=0 priority=1 cookie=0xaa/0x0 match=in_port=1 actions=drop")
}

func TestErrorsEndTheCheck(t *testing.T) {
	for _, tc := range []struct {
		name string
		part of13.MultipartReply
		want string
	}{
		{"other reply", of13.MultipartReply{Part: of13.PartDesc}, "DESC was not asked for"},
		{"after the last part", flowPart(false), "a part of FLOW after the last one"},
		{"group of all groups", groupPart(false, of13.GroupDesc{GroupID: of13.GroupAll}),
			"group 4294967292: the highest is 4294967040"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCheck(t, Want{}, policy(true))
			feed(t, c, flowPart(false))
			_, err := c.Reply(tc.part)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if _, again := c.Reply(groupPart(false)); again == nil || c.Complete() || c.Repair() != nil ||
				c.State() != nil {
				t.Errorf("the check goes on after %v", err)
			}
		})
	}
	c := newCheck(t, Want{}, policy(true))
	_, err := c.Reply(flowPart(true, of13.FlowStats{TableID: of13.TableAll, Priority: 9, Match: any13.WithInPort(4)}))
	if err == nil || !strings.Contains(err.Error(), "entry of table 255, priority 9, match in_port=4") {
		t.Errorf("error %v does not name the entry", err)
	}
}

func TestBadWants(t *testing.T) {
	twice := []of13.FlowMod{entry(1, any13.WithInPort(1).WithVLAN(5), drop),
		entry(1, any13.WithVLAN(5).WithInPort(1), toGroup(1))}
	for _, tc := range []struct {
		want  Want
		error string
	}{
		{Want{Flows: twice}, "entry of table 0, priority 1, match vlan_vid=0x1005,in_port=1 is wanted twice"},
		{Want{Flows: []of13.FlowMod{{TableID: of13.TableAll}}}, "table 255"},
		{Want{Groups: []of13.GroupMod{failover(1, 1), failover(1, 2)}}, "group 1 is wanted twice"},
		{Want{Groups: []of13.GroupMod{failover(of13.GroupAll, 1)}}, "group 4294967292"},
	} {
		if _, err := New(tc.want, Policy{}); err == nil || !strings.Contains(err.Error(), tc.error) {
			t.Errorf("error %v, want one with %q", err, tc.error)
		}
	}
}

func TestRequests(t *testing.T) {
	var parts []of13.Part
	for _, m := range newCheck(t, Want{}, Policy{}).Requests() {
		var r of13.MultipartRequest
		if err := r.Decode(m.Append(nil, 1)); err != nil {
			t.Fatal(err)
		}
		if f, ok := r.Flow(); ok && (f.TableID != of13.TableAll || f.OutPort != of13.PortAny ||
			f.OutGroup != of13.GroupAny || f.CookieMask != 0 || len(f.Match) > 0) {
			t.Errorf("does not ask for all entries: %+v", f)
		}
		parts = append(parts, r.Part)
	}
	if !slices.Equal(parts, []of13.Part{of13.PartFlow, of13.PartGroupDesc}) {
		t.Errorf("asks for %v", parts)
	}
}

// elsewhere continues a check from its state.
func elsewhere(t *testing.T, c *Check) *Check {
	t.Helper()
	c, err := Resume(c.want, c.policy, c.State())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The removals of one check are bounded, and groups whose entries remain stay.
func TestBounds(t *testing.T) {
	c := newCheck(t, Want{}, policy(false))
	deletions := 0
	for i := range maxRemovals + 10 {
		if i%1000 == 0 {
			c = elsewhere(t, c)
		}
		deletions += len(feed(t, c, flowPart(true, held(entry(uint16(i), nil, toGroup(uint32(i)%100))))))
	}
	feed(t, c, flowPart(false), groupPart(false, described(failover(1, 1)), described(failover(50, 1)),
		described(failover(99, 1))))
	if deletions != maxRemovals {
		t.Errorf("%d entries deleted, want %d", deletions, maxRemovals)
	}
	// The ten remaining entries use groups 96 to 99, and 0 to 5.
	expect(t, "repairs", c.Repair(), "GROUP_MOD delete group=50 type=all")

	c = newCheck(t, Want{}, Policy{RemoveForeign: true})
	for i := range maxGroups + 10 {
		feed(t, c, groupPart(true, described(failover(uint32(i), 1))))
	}
	feed(t, c, flowPart(false), groupPart(false))
	if n := len(c.Repair()); n != maxGroups {
		t.Errorf("%d groups deleted, want %d", n, maxGroups)
	}

	c = newCheck(t, Want{}, policy(false))
	for i := range uint32(maxGroups + 1) {
		feed(t, c, flowPart(true, of13.FlowStats{Cookie: theirs, Priority: uint16(i), Instructions: toGroup(1000 + i)}))
	}
	c = elsewhere(t, c)
	feed(t, c, flowPart(false), groupPart(false, described(failover(1, 1))))
	expect(t, "repairs when it cannot know which groups are in use", c.Repair())
}
