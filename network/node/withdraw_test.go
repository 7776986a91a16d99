package node

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// table is what a switch has, by match.
type table map[string]installed

type installed struct {
	id    uint64
	out   string // instructions, or the buckets of its group
	group uint32
}

// device is a switch that executes commands.
type device struct {
	table
	groups map[uint32]string
}

func (d *device) copy() *device { return &device{maps.Clone(d.table), maps.Clone(d.groups)} }

func (d *device) execute(sent []apptest.Sent) {
	for _, c := range sent {
		switch m := c.Message.(type) {
		case *of13.FlowMod:
			delete(d.table, m.Match.String())
			if m.Command != of13.FlowAdd {
				continue
			}
			f := installed{id: m.Cookie & 0xffffffff, out: m.Instructions.String()}
			apply, _ := m.Instructions.Get(of13.InstructionApplyActions)
			for a := range apply.Actions.All() {
				if a.Type == of13.ActionGroup {
					f.group, f.out = a.Group, d.groups[a.Group]
				}
			}
			d.table[m.Match.String()] = f
		case *of13.GroupMod:
			maps.DeleteFunc(d.table, func(_ string, f installed) bool { return f.group == m.GroupID })
			delete(d.groups, m.GroupID)
			if m.Command == of13.GroupAdd {
				d.groups[m.GroupID] = string(m.Buckets)
			}
		}
	}
}

// is reports whether a device has a table, and the groups for it.
func (d *device) is(want table) bool {
	used := map[uint32]bool{}
	for key, f := range d.table {
		if w := want[key]; w.id != f.id || w.out != f.out {
			return false
		}
		used[f.group] = true
	}
	delete(used, 0)
	return len(d.table) == len(want) && len(d.groups) == len(used)
}

// flowsOf returns what the flow entries of a step do, and their matches.
func flowsOf(s model.Step) (matches []string, out string) {
	var c compiler
	f, keys, err := c.compile(&s.Entry)
	if err != nil {
		panic(err)
	}
	for _, key := range keys {
		match := c.matchOf(key)
		matches = append(matches, match.String())
		if out = c.instructionsOf(&f, match).String(); f.Backup > 0 {
			out = string(f.group(match).Buckets)
		}
	}
	return matches, out
}

// takes reports whether no flow entry of a step belongs to another id.
func (t table) takes(s model.Step) bool {
	matches, _ := flowsOf(s)
	for _, match := range matches {
		has, there := t[match]
		if there && has.id != s.ID {
			return false
		}
	}
	return true
}

// step executes a step as it is defined.
func (t table) step(s model.Step) {
	matches, out := flowsOf(s)
	for _, key := range matches {
		if !s.Remove {
			t[key] = installed{id: s.ID, out: out}
		} else if t[key].id == s.ID {
			delete(t, key)
		}
	}
}

// drawSteps draws steps of entries that have flow entries in common. Some remove what an earlier one removes, or what
// was never there.
func drawSteps(t *rapid.T, on table) (steps []model.Step) {
	on = maps.Clone(on)
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		s := model.Step{ID: rapid.Uint64Range(1, 2).Draw(t, "id"), Remove: rapid.Bool().Draw(t, "remove")}
		s.In, s.Out, s.Priority = 1, app.Port(rapid.IntRange(2, 3).Draw(t, "out")), 5
		s.Class = packet.Class{Protocol: "tcp", Destination: "10.0.0.1",
			DestinationPorts: rapid.SampledFrom([]string{"1", "2-3", "1-3"}).Draw(t, "ports")}
		if rapid.Bool().Draw(t, "backup") {
			s.Push, s.Backup, s.BackupTag = 9, 4, 10
		}
		if on.takes(s) {
			on.step(s)
			steps = append(steps, s)
		}
	}
	return steps
}

// A refused step leaves nothing and takes nothing away: what the switch has, and gets when it comes up again, is what
// the other steps make of what there was before.
func TestRefusedStepsAreTakenBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := newOwner(t)
		o.confirm(t, o.net.SwitchUp(1))
		bundles := &device{table{}, map[uint32]string{}}
		if sent := o.ask(t, "a", 1, drawSteps(rt, bundles.table)...); len(sent) > 0 {
			bundles.execute(sent)
			bundles.execute(o.confirm(t, sent))
		}
		steps, want := drawSteps(rt, bundles.table), maps.Clone(bundles.table)
		o.got = nil
		sent := o.ask(t, "a", 2, steps...)
		if len(sent) == 0 {
			return
		}
		agent := bundles.copy() // which executes what a switch with bundles takes back
		agent.execute(sent)
		no := sent[rapid.IntRange(0, len(sent)-1).Draw(rt, "refused")]
		sent = o.refuse(no)
		bundles.execute(sent)
		agent.execute(sent)
		if rapid.Bool().Draw(rt, "confirmed") {
			if len(sent) > 0 {
				sent = o.confirm(t, sent)
				bundles.execute(sent)
				agent.execute(sent)
			}
			refused := map[int]bool{}
			for _, r := range o.got[0].(model.Changed).Refused {
				refused[r.Step] = true
			}
			for i, s := range steps {
				if !refused[i] {
					want.step(s)
				}
			}
			if !bundles.is(want) || !agent.is(want) {
				rt.Errorf("after %v the switch has %v, with an agent %v; want %v", steps, bundles, agent, want)
			}
		}
		o.net.SwitchDown(1)
		o.has(rt, len(want))
		restored := &device{table{}, map[uint32]string{}}
		if restored.execute(o.net.SwitchUp(1)); !restored.is(want) {
			rt.Errorf("after %v the switch gets %v when it comes up; want %v", steps, restored, want)
		}
	})
}

// has checks how many flow entries are counted.
func (o *owner) has(t *rapid.T, want int) {
	for _, r := range o.net.Rows(Name) {
		var s state
		if r.Table != "states" {
			continue
		}
		if err := codec.Of[state]().Parse(r.Value, &s); err != nil || s.Flows != want {
			t.Errorf("%+v (%v), want %d flows", s, err, want)
		}
	}
}

// A refusal is about the change that the command was sent for, also if another one is not confirmed yet.
func TestRefusalIsOfItsOwner(t *testing.T) {
	o := newOwner(t)
	o.confirm(t, o.net.SwitchUp(1))
	a := o.ask(t, "a", 1, model.Step{Entry: entry(1), ID: 7})
	b := o.ask(t, "b", 1, model.Step{Entry: entry(2), ID: 8})
	o.got = nil
	o.confirm(t, o.refuse(b[0]))
	o.confirm(t, a)
	if len(o.got) != 2 {
		t.Fatalf("told %+v", o.got)
	}
	for _, m := range o.got {
		if c := m.(model.Changed); len(c.Refused) > 0 != (c.Owner == "b") {
			t.Errorf("%+v", c)
		}
	}
}

// A switch with an agent refuses both the group and the flow entry of a step: the other step stays.
func TestStepIsRefusedTwice(t *testing.T) {
	o := newOwner(t)
	o.confirm(t, o.net.SwitchUp(1))
	backup := entry(1)
	backup.Push, backup.Backup, backup.BackupTag = 9, 4, 10
	sent := o.ask(t, "a", 1, model.Step{Entry: backup, ID: 7}, model.Step{Entry: entry(2), ID: 8})
	o.got = nil
	again := o.refuse(sent[1]) // sent[0] deletes what may be there
	if more := o.refuse(sent[2]); len(more) > 0 {
		t.Errorf("the second refusal has the switch sent %v", more)
	}
	o.confirm(t, again)
	if len(o.got) != 1 || len(o.got[0].(model.Changed).Refused) != 1 {
		t.Errorf("told %+v, want one refused step", o.got)
	}
}
