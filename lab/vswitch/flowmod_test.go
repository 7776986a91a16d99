package vswitch

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// flows returns the entries that DESC FLOW lists.
func (r *rig) flows() (list []of13.FlowStats) {
	r.t.Helper()
	body := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}.AppendTo(nil)
	for _, m := range r.from(1, &of13.MultipartRequest{Part: of13.PartFlow, Body: body}) {
		for f := range m.(*of13.MultipartReply).Flows().All() {
			list = append(list, f)
		}
	}
	return list
}

func (r *rig) wantFlows(n int) {
	r.t.Helper()
	if got := r.flows(); len(got) != n {
		r.t.Fatalf("%d entries, want %d: %+v", len(got), n, got)
	}
}

// Section 6.4: adding over an identical entry, and counters.
func TestAddReplaces(t *testing.T) {
	r := newRig(t)
	m := of13.Match(nil).WithInPort(1)
	r.ok(add(0, 5, m, out(2)))
	r.goes(1, ping(1), 2)
	r.ok(add(0, 5, m, out(3)))
	r.goes(1, ping(1), 3)
	if f := r.flows(); len(f) != 1 || f[0].PacketCount != 2 {
		t.Fatalf("got %+v, want one entry that kept its count", f)
	}
	mod := add(0, 5, m, out(4))
	mod.Flags = of13.FlowResetCounts
	r.ok(mod)
	if f := r.flows(); f[0].PacketCount != 0 || f[0].Flags != of13.FlowResetCounts {
		t.Fatalf("got %+v, want the count reset", f)
	}
	r.ok(add(0, 6, m, out(4)))
	r.wantFlows(2)
}

// Section 6.4: OFPFF_CHECK_OVERLAP.
func TestCheckOverlap(t *testing.T) {
	r := newRig(t)
	r.ok(add(0, 5, of13.Match(nil).WithInPort(1), out(2)))
	mod := add(0, 5, of13.Match(nil).WithEthDst(macA), out(2))
	mod.Flags = of13.FlowCheckOverlap
	r.fails(mod, of13.ErrTypeFlowModFailed, of13.FlowModFailedOverlap)
	mod.Match = of13.Match(nil).WithInPort(2).WithEthDst(macA)
	r.ok(mod)
	mod.Priority, mod.Match = 6, of13.Match(nil).WithEthDst(macA)
	r.ok(mod)
	mod.Flags, mod.Priority = 0, 5
	r.ok(mod)
}

// Section 6.4: strict and non-strict commands, with the filters.
func TestModifyAndDelete(t *testing.T) {
	type filter func(*of13.FlowMod)
	in1 := of13.Match(nil).WithInPort(1)
	in1B := of13.Match(nil).WithInPort(1).WithEthDst(macB)
	for name, c := range map[string]struct {
		command uint8
		match   of13.Match
		filter  filter
		left    int // number of entries that remain of three
	}{
		"delete all":              {of13.FlowDelete, nil, nil, 0},
		"delete included":         {of13.FlowDelete, in1, nil, 1},
		"delete strict":           {of13.FlowDeleteStrict, in1, nil, 2},
		"strict, other priority":  {of13.FlowDeleteStrict, in1, func(m *of13.FlowMod) { m.Priority = 4 }, 3},
		"delete ignores priority": {of13.FlowDelete, in1, func(m *of13.FlowMod) { m.Priority = 4 }, 1},
		"out port":                {of13.FlowDelete, nil, func(m *of13.FlowMod) { m.OutPort = 3 }, 2},
		"out group of none":       {of13.FlowDelete, nil, func(m *of13.FlowMod) { m.OutGroup = 3 }, 3},
		"cookie": {of13.FlowDelete, nil, func(m *of13.FlowMod) { m.Cookie, m.CookieMask = 0x10, 0xf0 },
			1},
		"cookie, none": {of13.FlowDelete, nil, func(m *of13.FlowMod) { m.Cookie, m.CookieMask = 0x30, 0xff }, 3},
		"all tables":   {of13.FlowDelete, in1B, func(m *of13.FlowMod) { m.TableID = of13.TableAll }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for i, f := range []struct {
				m of13.Match
				p of13.Port
			}{{in1, 2}, {in1B, 3}, {of13.Match(nil).WithEthDst(macA), 4}} {
				mod := add(0, 5, f.m, out(f.p))
				mod.Cookie = uint64(0x11 + i)
				if i == 2 {
					mod.Cookie = 0x21
				}
				r.ok(mod)
			}
			mod := add(0, 5, c.match, nil)
			mod.Command = c.command
			if c.filter != nil {
				c.filter(mod)
			}
			r.ok(mod)
			r.wantFlows(c.left)
		})
	}
	r := newRig(t)
	r.ok(add(0, 5, in1, out(2)))
	r.ok(add(0, 6, in1B, out(3)))
	mod := add(0, 9, in1, out(4))
	mod.Command = of13.FlowModifyStrict
	r.ok(mod) // no entry has priority 9
	r.goes(1, ping(1), 3)
	mod.Command = of13.FlowModify
	r.ok(mod)
	r.goes(1, ping(1), 4)
	mod.Match = of13.Match(nil).WithInPort(9)
	r.ok(mod)
	r.wantFlows(2)
}

// Section 5.5: timeouts, and flow-removed.
func TestTimeouts(t *testing.T) {
	r := newRig(t)
	idle := add(0, 5, of13.Match(nil).WithInPort(1), out(2))
	idle.IdleTimeout, idle.Flags, idle.Cookie = 10, of13.FlowSendFlowRem, 1
	hard := add(0, 5, of13.Match(nil).WithInPort(2), out(1))
	hard.HardTimeout, hard.Flags, hard.Cookie = 15, of13.FlowSendFlowRem, 2
	silent := add(0, 5, of13.Match(nil).WithInPort(3), out(1))
	silent.HardTimeout = 1
	for _, m := range []*of13.FlowMod{idle, hard, silent} {
		r.ok(m)
	}
	r.advance(8 * time.Second)
	r.goes(1, ping(1), 2)
	r.advance(4 * time.Second)
	if out := r.take(1); len(out) != 0 {
		t.Fatalf("removed too early: %v", out)
	}
	r.advance(3 * time.Second)
	f := r.take(1)[0].(*of13.FlowRemoved)
	if f.Cookie != 2 || f.Reason != of13.FlowRemovedHardTimeout || f.DurationSec != 15 {
		t.Fatalf("got %+v", f)
	}
	r.advance(3 * time.Second)
	f = r.take(1)[0].(*of13.FlowRemoved)
	if f.Cookie != 1 || f.Reason != of13.FlowRemovedIdleTimeout || f.PacketCount != 1 ||
		f.ByteCount != uint64(len(ping(1))) {
		t.Fatalf("got %+v", f)
	}
	r.wantFlows(0)
	r.ok(idle)
	del := add(0, 0, nil, nil)
	del.Command = of13.FlowDelete
	out := r.from(1, del)
	if f := out[0].(*of13.FlowRemoved); f.Reason != of13.FlowRemovedDelete {
		t.Fatalf("got %+v", f)
	}
}

func TestFlowModErrors(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxFlows = 1 })
	r.ok(add(0, 5, of13.Match(nil).WithInPort(1), nil))
	r.fails(add(0, 5, nil, nil), of13.ErrTypeFlowModFailed, of13.FlowModFailedTableFull)
	bad := add(1, 5, nil, nil)
	bad.Command = 9
	r.fails(bad, of13.ErrTypeFlowModFailed, of13.FlowModFailedBadCommand)
	bad = add(1, 5, nil, nil)
	bad.Flags = 0x80
	r.fails(bad, of13.ErrTypeFlowModFailed, of13.FlowModFailedBadFlags)
	r.fails(add(1, 5, of13.Match(nil).WithIPProto(6), nil), of13.ErrTypeBadMatch, of13.BadMatchBadPrereq)
	r.fails(add(1, 5, nil, actions(of13.Actions(nil).Group(4))), of13.ErrTypeBadAction, of13.BadActionBadOutGroup)
	r.fails(add(1, 5, nil, actions(of13.Actions(nil).PushMPLS(typeMPLS))), of13.ErrTypeBadAction, of13.BadActionBadType)
	r.fails(add(1, 5, nil, out(2).Apply(nil)), of13.ErrTypeBadInstruction, of13.BadInstructionUnsupInst)
}
