package node

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// compared is a switch whose table is changed behind the back of its node controller.
type compared struct {
	t       testing.TB
	net     *apptest.Net
	node    *node
	s       *vswitch.Switch
	now     time.Duration
	removed []uint64 // ids that were told
}

const compares app.Switch = 7

// newCompared starts a switch, in table of which an owner has entries for ports from 1.
func newCompared(t testing.TB, table uint8, entries app.Port) *compared {
	c := &compared{t: t, s: vswitch.New(vswitch.Config{DatapathID: compares, Ports: vswitch.Ports(1, 4)})}
	owner := app.New("owner")
	var next app.Port
	ask := func(tx *app.Tx) error {
		change := model.Change{Switch: compares, Owner: "owner", Number: uint64(next)}
		for n := 0; next < entries && n < model.MaxSteps; n++ {
			next++
			change.Steps = change.Steps.With(&model.Step{ID: uint64(next),
				Entry: model.Entry{Match: model.Match{In: next}, Priority: 9, Out: 4}})
		}
		if len(change.Steps) == 0 {
			return nil
		}
		return app.Emit(tx, change)
	}
	app.HandleEmitted(owner, func(model.NodeUp) app.Cells { return app.Need() },
		func(tx *app.Tx, _ model.NodeUp) error { return ask(tx) })
	app.HandleEmitted(owner, func(model.Changed) app.Cells { return app.Need() },
		func(tx *app.Tx, _ model.Changed) error { return ask(tx) })
	app.HandleEmitted(owner, func(model.Removed) app.Cells { return app.Need() },
		func(_ *app.Tx, m model.Removed) error { c.removed = append(c.removed, m.ID); return nil })
	a := app.New(Name)
	a.InTable(table)
	c.node = newNode(a)
	c.net = apptest.NewOf(t, 1, a, owner)
	c.s.Open(0, 1)
	c.s.Take(1)
	c.do(c.net.SwitchUp(compares))
	return c
}

// do executes commands. The switch does not tell that entries are removed.
func (c *compared) do(sent []apptest.Sent) {
	c.t.Helper()
	for len(sent) > 0 {
		for _, m := range sent {
			c.s.Message(c.now, 1, m.Message.Append(nil, m.XID))
		}
		sent = nil
		for _, msg := range c.s.Take(1) {
			if msg[1] != of13.TypeFlowRemoved {
				sent = append(sent, c.net.Event(compares, msg)...)
			}
		}
	}
}

func (c *compared) byHand(table uint8, m of13.FlowMod) {
	m.TableID, m.BufferID, m.OutPort, m.OutGroup = table, of13.NoBuffer, of13.PortAny, of13.GroupAny
	c.s.Message(c.now, 1, m.Append(nil, 99))
	c.do(nil)
}

// entries returns the instructions that the switch has, by ingress port, of the entries with a mark.
func (c *compared) entries() map[app.Port]string {
	list := map[app.Port]string{}
	body := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}.AppendTo(nil)
	c.s.Message(c.now, 1, (&of13.MultipartRequest{Part: of13.PartFlow, Body: body}).Append(nil, 98))
	for _, msg := range c.s.Take(1) {
		var r of13.MultipartReply
		if msg[1] == of13.TypeMultipartReply && r.Decode(msg) == nil {
			for f := range r.Flows().All() {
				in, _ := f.Match.InPort()
				list[in] = string(f.Instructions)
			}
		}
	}
	return list
}

// An entry that is gone is told to its owner, once; one that was changed is installed again, one that nobody asked for
// is removed, and entries of others stay. In whichever table the application is.
func TestCompare(t *testing.T) {
	for _, table := range []uint8{0, 3} {
		c := newCompared(t, table, 3)
		was := c.entries()
		if len(was) != 3 {
			t.Fatalf("%d entries", len(was))
		}
		strict := func(in app.Port, command uint8, cookie uint64, drop of13.Instructions) {
			c.byHand(table, of13.FlowMod{Command: command, Cookie: cookie, Priority: 9,
				Match: of13.Match(nil).WithInPort(in), Instructions: drop})
		}
		strict(1, of13.FlowDeleteStrict, 0, nil)
		strict(2, of13.FlowModifyStrict, 0, nil) // it drops now
		strict(4, of13.FlowAdd, cookieMark|77, nil)
		strict(5, of13.FlowAdd, 77, nil)
		for range 2 {
			c.now += 5 * every / 4
			c.do(c.net.Advance(5 * every / 4))
		}
		is := c.entries()
		if len(is) != 3 || is[2] != was[2] || is[3] != was[3] || len(c.removed) != 1 || c.removed[0] != 1 {
			t.Errorf("in table %d: %d entries, told %v, %q, want %q", table, len(is), c.removed, is[2], was[2])
		}
		if _, foreign := is[5]; !foreign {
			t.Error("an entry of somebody else was removed")
		}
	}
}

// Nothing is told if a switch has everything, however many parts its reply has, and whoever handles them.
func TestComparePartByPart(t *testing.T) {
	const entries = 1500
	c := newCompared(t, 0, entries)
	for _, id := range []app.Port{7, entries - 7} {
		c.byHand(0, of13.FlowMod{Command: of13.FlowDeleteStrict, Priority: 9, Match: of13.Match(nil).WithInPort(id)})
	}
	for range 2 {
		c.now += 5 * every / 4
		sent := c.net.Advance(5 * every / 4)
		for _, m := range sent {
			c.s.Message(c.now, 1, m.Message.Append(nil, m.XID))
		}
		parts := c.s.Take(1)
		for i, msg := range parts {
			if c.net.Event(compares, msg); i == 1 {
				clear(c.node.checks) // as those of the next leader
			}
		}
		if len(parts) < 3 {
			t.Fatalf("%d parts", len(parts))
		}
	}
	if slices.Sort(c.removed); !slices.Equal(c.removed, []uint64{7, entries - 7}) {
		t.Errorf("told %v", c.removed)
	}
}

// Compares a switch that has as many entries as it may.
func BenchmarkCompare(b *testing.B) {
	c := newCompared(b, 0, model.MaxEntries)
	for b.Loop() {
		c.now += 5 * every / 4
		c.do(c.net.Advance(5 * every / 4))
	}
	if len(c.removed) > 0 {
		b.Errorf("told %v", c.removed)
	}
}

// An entry in the reply of a switch that nobody can have does not make those beside it missing.
func TestReplyThatCannotBeUsed(t *testing.T) {
	c := newCompared(t, 0, 3)
	for replied := false; !replied; {
		for _, m := range c.net.Advance(time.Second) {
			c.s.Message(c.now, 1, m.Message.Append(nil, m.XID))
			for _, msg := range c.s.Take(1) {
				var r of13.MultipartReply
				if msg[1] != of13.TypeMultipartReply || r.Decode(msg) != nil || r.Part != of13.PartFlow {
					c.do(c.net.Event(compares, msg))
					continue
				}
				replied = true
				bad := of13.FlowStats{TableID: 255, Priority: 1}
				first := of13.MultipartReply{Part: of13.PartFlow, Flags: of13.FlagMore,
					Body: bad.AppendTo(slices.Clone(r.Body))}
				c.do(c.net.Event(compares, first.Append(nil, m.XID)))
				c.do(c.net.Event(compares, (&of13.MultipartReply{Part: of13.PartFlow}).Append(nil, m.XID)))
			}
		}
	}
	if len(c.removed) > 0 {
		t.Errorf("entries %v are told as removed, which the switch has", c.removed)
	}
}
