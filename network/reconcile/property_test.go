package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Several ways to write each of some matches and instructions. So the test recognises the content of a switch
// without canon.
var (
	matches = [][]of13.Match{
		{nil, any13.WithOXM(masked(of13.FieldEthDst, make([]byte, 6), make([]byte, 6)))},
		{any13.WithInPort(1)},
		{any13.WithMetadata(5, ^uint64(0)), any13.WithOXM(masked(of13.FieldMetadata, []byte{0, 0, 0, 0, 0, 0, 0, 5},
			[]byte{255, 255, 255, 255, 255, 255, 255, 255}))},
		{any13.WithMetadata(4, 4)},
		{any13.WithInPort(1).WithMetadata(5, 5).WithVLAN(7), any13.WithVLAN(7).WithMetadata(5, 5).WithInPort(1)},
	}
	deeds = [][]of13.Instructions{
		{drop, apply(nil)},
		{apply(output(1)), apply(of13.Actions(nil).Output(1, 9))},
		{of13.Instructions(nil).WriteMetadata(4, 6).Goto(3), of13.Instructions(nil).Goto(3).WriteMetadata(4, 6)},
	}
)

// A place identifies an entry: an entry replaces another at the same place. A model is the content of a switch.
type (
	place struct {
		table    uint8
		priority uint16
		match    int
	}
	rule struct {
		cookie uint64
		idle   uint16
		deed   int    // what the entry does, if it has no group
		group  uint32 // 0 for none
	}
	kind struct {
		ports [2]of13.Port // ports of a fast-failover group
		next  uint32       // otherwise, the group to which it leads
	}
	model struct {
		rules  map[place]rule
		groups map[uint32]kind
	}
)

func genModel(cookies ...uint64) *rapid.Generator[model] {
	return rapid.Custom(func(t *rapid.T) model {
		m := model{map[place]rule{}, map[uint32]kind{}}
		for _, id := range []uint32{1, 2, 3, 4, 100, 101, 200, 201} { // the policy knows three owners of these
			below := slices.Sorted(maps.Keys(m.groups))
			switch rapid.IntRange(0, 3).Draw(t, "group") {
			case 0:
				m.groups[id] = kind{ports: [2]of13.Port{1, 2}}
			case 1:
				m.groups[id] = kind{ports: [2]of13.Port{2, 1}}
			case 2:
				if len(below) > 0 {
					m.groups[id] = kind{next: rapid.SampledFrom(below).Draw(t, "next")}
				}
			}
		}
		ids := append(slices.Sorted(maps.Keys(m.groups)), 0)
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			at := place{uint8(rapid.IntRange(0, 1).Draw(t, "table")), uint16(rapid.IntRange(1, 2).Draw(t, "priority")),
				rapid.IntRange(0, len(matches)-1).Draw(t, "match")}
			m.rules[at] = rule{rapid.SampledFrom(cookies).Draw(t, "cookie"),
				uint16(rapid.IntRange(0, 1).Draw(t, "idle") * 60),
				rapid.IntRange(0, len(deeds)-1).Draw(t, "deed"), rapid.SampledFrom(ids).Draw(t, "in group")}
		}
		return m
	})
}

// spell writes a model as flow-mods and group-mods, each in one of its forms.
func (m model) spell(t *rapid.T) Want {
	var w Want
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		if g.next != 0 {
			w.Groups = append(w.Groups, chain(id, g.next))
		} else {
			w.Groups = append(w.Groups, failover(id, g.ports[0], g.ports[1]))
		}
	}
	inOrder := slices.SortedFunc(maps.Keys(m.rules), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.priority, b.priority), cmp.Compare(a.match, b.match))
	})
	for _, at := range inOrder {
		r := m.rules[at]
		in := toGroup(r.group)
		if r.group == 0 {
			in = rapid.SampledFrom(deeds[r.deed]).Draw(t, "way to say it")
		}
		w.Flows = append(w.Flows, of13.FlowMod{Cookie: r.cookie, TableID: at.table, Priority: at.priority,
			IdleTimeout: r.idle,
			Match:       rapid.SampledFrom(matches[at.match]).Draw(t, "way to match"), Instructions: in,
			BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	}
	return w
}

// device is a software switch.
type device struct {
	t  *rapid.T
	sw *vswitch.Switch
}

func newDevice(t *rapid.T, w Want) *device {
	d := &device{t, vswitch.New(vswitch.Config{Ports: vswitch.Ports(1, 2)})}
	d.sw.Open(0, 1)
	d.answers()
	for _, g := range w.Groups {
		d.send(&g)
	}
	for _, f := range w.Flows {
		d.send(&f)
	}
	return d
}

// send makes the switch execute messages, which it must not refuse.
func (d *device) send(msgs ...of13.Message) {
	for _, m := range msgs {
		d.sw.Message(0, 1, m.Append(nil, 2))
		for _, a := range d.answers() {
			d.t.Fatalf("the switch answers %v with %v", m, a)
		}
	}
}

func (d *device) answers() []of13.Message {
	var list []of13.Message
	for _, raw := range d.sw.Take(1) {
		m, err := of13.Decode(raw)
		if err != nil {
			d.t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// ask returns the answers of the switch to the requests of a check.
func (d *device) ask(c *Check) (flows []of13.FlowStats, groups []of13.GroupDesc) {
	for _, m := range c.Requests() {
		d.sw.Message(0, 1, m.Append(nil, 3))
	}
	for _, a := range d.answers() {
		r := a.(*of13.MultipartReply)
		flows = slices.AppendSeq(flows, r.Flows().All())
		groups = slices.AppendSeq(groups, r.GroupDescs().All())
	}
	return flows, groups
}

// holds returns the content of the switch.
func (d *device) holds() model {
	m := model{map[place]rule{}, map[uint32]kind{}}
	flows, groups := d.ask(&Check{})
	for _, g := range groups {
		var k kind
		i := 0
		for b := range g.Buckets.All() {
			if id := slices.Collect(bucketGroups(g.Buckets)); len(id) > 0 {
				k.next = id[0]
			} else {
				k.ports[i] = b.WatchPort
			}
			i++
		}
		m.groups[g.GroupID] = k
	}
	for _, f := range flows {
		at := place{f.TableID, f.Priority, slices.IndexFunc(matches, func(ways []of13.Match) bool {
			return slices.ContainsFunc(ways, func(way of13.Match) bool { return string(way) == string(f.Match) })
		})}
		r := rule{cookie: f.Cookie, idle: f.IdleTimeout,
			deed: slices.IndexFunc(deeds, func(ways []of13.Instructions) bool {
				return slices.ContainsFunc(ways, func(way of13.Instructions) bool {
					return string(way) == string(
						f.Instructions)
				})
			})}
		if r.deed < 0 {
			r.deed, r.group = 0, slices.Collect(instructionGroups(f.Instructions))[0]
		}
		m.rules[at] = r
	}
	return m
}

// repaired is what a switch with content m should contain in the end.
func (m model) repaired(want model, removeForeign bool) model {
	end := model{maps.Clone(want.rules), maps.Clone(want.groups)}
	stays := map[uint32]bool{}
	for at, r := range m.rules {
		if _, wanted := want.rules[at]; !wanted && (r.cookie == theirs || r.cookie != ours && !removeForeign) {
			end.rules[at] = r
			stays[r.group] = true
		}
	}
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(m.groups))) { // users first
		_, wanted := want.groups[id]
		if !wanted && (stays[id] || id >= 100 && id < 200 || id >= 200 && !removeForeign) {
			end.groups[id] = m.groups[id]
			stays[m.groups[id].next] = true
		}
	}
	for at, r := range end.rules { // of an entry with a group, the deed is not used
		if r.group != 0 {
			r.deed = 0
			end.rules[at] = r
		}
	}
	return end
}

// cut splits a list into parts. Some of them are repeated.
func cut[T any](t *rapid.T, list []T, part func(bool, ...T) of13.MultipartReply) []of13.MultipartReply {
	var parts []of13.MultipartReply
	for len(list) > 0 && rapid.Bool().Draw(t, "one more part") {
		n := rapid.IntRange(0, len(list)).Draw(t, "size")
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			parts = append(parts, part(true, list[:n]...))
		}
		list = list[n:]
	}
	return append(parts, part(false, list...))
}

// Whatever a switch contains, after one check it contains what it should, and those foreign entries that stay. A
// check that is resumed elsewhere after any part continues unchanged.
func TestAnySwitchIsRepaired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted, before := genModel(ours).Draw(t, "wanted"), genModel(ours, theirs, 0xcc).Draw(t, "held")
		if rapid.Bool().Draw(t, "nearly right") {
			maps.Copy(before.rules, wanted.rules)
			maps.Copy(before.groups, wanted.groups)
		}
		want, remove := wanted.spell(t), rapid.Bool().Draw(t, "remove foreign")
		d := newDevice(t, before.spell(t))
		c, err := New(want, policy(remove))
		if err != nil {
			t.Fatal(err)
		}
		flows, groups := d.ask(c)
		f, g := cut(t, flows, flowPart), cut(t, groups, groupPart)
		for len(f)+len(g) > 0 {
			if c.Complete() || c.Repair() != nil {
				t.Fatal("complete before the last part")
			}
			from := &f
			if len(f) == 0 || len(g) > 0 && rapid.Bool().Draw(t, "a part of groups") {
				from = &g
			}
			deletions, err := c.Reply((*from)[0])
			if err != nil {
				t.Fatal(err)
			}
			*from = (*from)[1:]
			d.send(deletions...)
			if rapid.Bool().Draw(t, "elsewhere") {
				was := c.Result()
				if c, err = Resume(want, policy(remove), c.State()); err != nil {
					t.Fatal(err)
				}
				if c.Result() != was {
					t.Fatalf("it goes on with %+v, was %+v", c.Result(), was)
				}
			}
		}
		if !c.Complete() {
			t.Fatal("not complete after the last parts")
		}
		d.send(c.Repair()...)

		after, expected := d.holds(), before.repaired(wanted, remove)
		if !maps.Equal(after.rules, expected.rules) || !maps.Equal(after.groups, expected.groups) {
			t.Fatalf("the switch holds\n\t%v\nwant\n\t%v\nheld\n\t%v", after, expected, before)
		}
		again, err := New(want, policy(remove))
		if err != nil {
			t.Fatal(err)
		}
		flows, groups = d.ask(again)
		for _, part := range []of13.MultipartReply{flowPart(false, flows...), groupPart(false, groups...)} {
			if deletions, err := again.Reply(part); err != nil || deletions != nil {
				t.Fatalf("a second check deletes %v, error %v", deletions, err)
			}
		}
		if r := again.Result(); r.Right != len(want.Flows)+len(want.Groups) || r.Wrong+r.Missing > 0 ||
			again.Repair() != nil {
			t.Fatalf("a second check finds %+v, repairs %v", r, again.Repair())
		}
	})
}

func TestStatesThatDoNotFit(t *testing.T) {
	w := Want{Flows: []of13.FlowMod{entry(1, nil, drop), entry(2, nil, drop)}, Groups: []of13.GroupMod{failover(1, 1)}}
	c := newCheck(t, w, policy(false))
	feed(t, c, flowPart(true, held(w.Flows[0]), held(entry(3, nil, toGroup(7)))),
		groupPart(false, described(chain(7, 8))))
	state := c.State()
	if _, err := Resume(w, policy(false), state); err != nil {
		t.Fatal(err)
	}
	for n := range state {
		if _, err := Resume(w, policy(false), state[:n]); err == nil {
			t.Errorf("the first %d bytes of %d are taken for a state", n, len(state))
		}
	}
	if _, err := Resume(w, policy(false), append(slices.Clone(state), 0)); err == nil {
		t.Error("a state with something behind it is taken")
	}
	bad := slices.Clone(state)
	bad[9] |= 3
	if _, err := Resume(w, policy(false), bad); err == nil {
		t.Error("a state with an entry that is neither missing, wrong nor right is taken")
	}
	for name, other := range map[string]Want{
		"other priority": {Flows: []of13.FlowMod{entry(1, nil, drop), entry(3, nil, drop)}, Groups: w.Groups},
		"other action": {Flows: []of13.FlowMod{entry(1, nil, drop), entry(2, nil, apply(output(1)))},
			Groups: w.Groups},
		"other group":   {Flows: w.Flows, Groups: []of13.GroupMod{failover(2, 1)}},
		"other buckets": {Flows: w.Flows, Groups: []of13.GroupMod{failover(1, 2)}},
		"other order":   {Flows: []of13.FlowMod{w.Flows[1], w.Flows[0]}, Groups: w.Groups},
	} {
		if _, err := Resume(other, policy(false), state); err == nil {
			t.Errorf("%s: a state that was made for something else is taken", name)
		}
	}
}
