package vswitch

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func bucketTo(p of13.Port, watch of13.Port, weight uint16) of13.Bucket {
	return of13.Bucket{Weight: weight, WatchPort: watch, WatchGroup: of13.GroupAny,
		Actions: of13.Actions(nil).Output(p, 0)}
}

func groupMod(id uint32, kind uint8, buckets ...of13.Bucket) *of13.GroupMod {
	m := &of13.GroupMod{GroupID: id, GroupType: kind}
	for _, b := range buckets {
		m.Buckets = m.Buckets.With(b)
	}
	return m
}

func toGroup(id uint32) of13.Instructions { return actions(of13.Actions(nil).Group(id)) }

// Section 5.6.1: what each type of group does with a packet.
func TestGroupTypes(t *testing.T) {
	r := newRig(t)
	r.ok(groupMod(1, of13.GroupTypeAll, bucketTo(2, of13.PortAny, 0), bucketTo(3, of13.PortAny, 0)))
	r.ok(groupMod(2, of13.GroupTypeIndirect, bucketTo(4, of13.PortAny, 0)))
	r.ok(groupMod(3, of13.GroupTypeFastFailover, bucketTo(2, 2, 0), bucketTo(3, 3, 0), bucketTo(4, 4, 0)))
	r.ok(add(0, 1, nil, toGroup(1)))
	r.goes(1, ping(1), 2, 3)
	r.ok(add(0, 1, nil, toGroup(2)))
	r.goes(1, ping(1), 4)
	r.ok(add(0, 1, nil, toGroup(3)))
	r.goes(1, ping(1), 2)
	req := of13.GroupStatsRequest(of13.GroupAll)
	for g := range answer[*of13.MultipartReply](r, &req).Groups().All() {
		if g.Total.Packets != 1 || (g.RefCount == 1) != (g.GroupID == 3) {
			t.Errorf("group %+v", g)
		}
	}
}

// Section 6.5: a bucket is used while its port is live. When it is not, the next bucket is used at once.
func TestFastFailover(t *testing.T) {
	r := newRig(t)
	r.ok(groupMod(3, of13.GroupTypeFastFailover, bucketTo(2, 2, 0), bucketTo(3, 3, 0)))
	outer := of13.Bucket{WatchPort: of13.PortAny, WatchGroup: 3, Actions: of13.Actions(nil).Group(3)}
	r.ok(groupMod(4, of13.GroupTypeFastFailover, outer, bucketTo(4, 4, 0)))
	r.ok(add(0, 1, nil, toGroup(4)))
	r.goes(1, ping(1), 2)
	r.s.SetPortLive(r.now, 2, false)
	r.goes(1, ping(1), 3)
	r.s.SetPortLive(r.now, 3, false)
	r.goes(1, ping(1), 4)
	r.take(1)
	r.s.SetPortLive(r.now, 2, true)
	r.goes(1, ping(1), 2)
	r.take(1)
	// A port that is configured down is as dead as one without a link.
	r.from(1, &of13.PortMod{Port: 2, HwAddr: Ports(1, 4)[1].HwAddr, Config: of13.PortConfigDown,
		Mask: of13.PortConfigDown})
	r.goes(1, ping(1), 4)
}

// Section 5.6.1: select groups distribute by weight, and keep a connection together.
func TestSelect(t *testing.T) {
	r := newRig(t)
	r.ok(groupMod(1, of13.GroupTypeSelect, bucketTo(2, of13.PortAny, 1), bucketTo(3, of13.PortAny, 3),
		bucketTo(4, of13.PortAny, 0)))
	r.ok(add(0, 1, nil, toGroup(1)))
	n := map[of13.Port]int{}
	for src := range uint16(400) {
		first := r.frame(1, udp(src, 53, 0))
		again := r.frame(1, udp(src, 53, 0))
		for p := range first {
			n[p]++
			if len(again[p]) != 1 {
				t.Fatalf("connection %d moved from %v to %v", src, first, again)
			}
		}
	}
	if n[2] < 60 || n[2] > 140 || n[2]+n[3] != 400 {
		t.Fatalf("shares %v, want about 100 and 300", n)
	}
}

func TestGroupModErrors(t *testing.T) {
	r := newRig(t)
	const e = of13.ErrTypeGroupModFailed
	r.ok(groupMod(1, of13.GroupTypeAll, bucketTo(2, of13.PortAny, 0)))
	r.fails(groupMod(1, of13.GroupTypeAll), e, of13.GroupModFailedGroupExists)
	r.fails(groupMod(of13.GroupAll, of13.GroupTypeAll), e, of13.GroupModFailedInvalidGroup)
	r.fails(groupMod(2, 9), e, of13.GroupModFailedBadType)
	r.fails(groupMod(2, of13.GroupTypeIndirect), e, of13.GroupModFailedInvalidGroup)
	r.fails(groupMod(2, of13.GroupTypeFastFailover, bucketTo(2, of13.PortAny, 0)), e, of13.GroupModFailedBadWatch)
	r.fails(groupMod(2, of13.GroupTypeFastFailover, bucketTo(2, 77, 0)), e, of13.GroupModFailedBadWatch)
	chain := func(to uint32) of13.Bucket {
		return of13.Bucket{WatchPort: of13.PortAny, WatchGroup: of13.GroupAny, Actions: of13.Actions(nil).Group(to)}
	}
	r.fails(groupMod(2, of13.GroupTypeAll, chain(3)), of13.ErrTypeBadAction, of13.BadActionBadOutGroup)
	r.fails(groupMod(2, of13.GroupTypeAll, chain(2)), e, of13.GroupModFailedLoop)
	r.ok(groupMod(2, of13.GroupTypeAll, chain(1)))
	loop := groupMod(1, of13.GroupTypeAll, chain(2))
	loop.Command = of13.GroupModify
	r.fails(loop, e, of13.GroupModFailedLoop)
	loop.GroupID = 9
	r.fails(loop, e, of13.GroupModFailedUnknownGroup)
	r.fails(&of13.GroupMod{Command: of13.GroupDelete, GroupID: 1}, e, of13.GroupModFailedChainedGroup)
	r.ok(&of13.GroupMod{Command: of13.GroupDelete, GroupID: 99})
	// Section 6.5: flow entries that use a group are deleted with it.
	mod := add(0, 1, nil, toGroup(2))
	mod.Flags = of13.FlowSendFlowRem
	r.ok(mod)
	removed := r.from(1, &of13.GroupMod{Command: of13.GroupDelete, GroupID: of13.GroupAll})
	if f, ok := removed[0].(*of13.FlowRemoved); !ok || f.Reason != of13.FlowRemovedGroupDelete {
		t.Fatalf("got %v", removed)
	}
	r.wantFlows(0)
}

// If groups refer to groups many times over, the cost is bounded.
func TestFloodsAreBounded(t *testing.T) {
	r := newRig(t)
	for id := uint32(1); id <= maxGroupDepth; id++ {
		m := groupMod(id, of13.GroupTypeAll)
		for range 64 {
			a := of13.Actions(nil).Output(2, 0)
			if id > 1 {
				a = of13.Actions(nil).Group(id - 1)
			}
			m.Buckets = m.Buckets.With(of13.Bucket{WatchPort: of13.PortAny, WatchGroup: of13.GroupAny, Actions: a})
		}
		r.s.Message(0, 1, m.Append(nil, 1))
	}
	r.take(1)
	r.ok(add(0, 1, nil, toGroup(5)))
	if n := len(r.frame(1, ping(1))[2]); n == 0 || n > maxSteps || r.s.Counters().Steps != 1 {
		t.Fatalf("%d frames, %+v", n, r.s.Counters())
	}
}
