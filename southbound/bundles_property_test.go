package southbound

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// chaos is a plant in which random things happen.
type chaos struct {
	*plant
	t       *rapid.T
	raised  uint32
	repeats bool // packets may be equal
	up      bool // the state of the port that changes
}

// TestStockWhateverHappens: controllers die, lose their connections, continue to lead after they were deposed, and
// return; switches restart. plant.append, plant.execute and member.checkHeld check the invariants.
func TestStockWhateverHappens(t *testing.T) {
	for _, tc := range []struct {
		name    string
		faults  int  // one step in this many is a fault
		repeats bool // packets may be equal
		queue   int  // bytes that wait for a controller before the switch drops packet-ins; 0 for no bound
		few     bool // bundles take no PACKET_OUT
	}{
		{"calm", 50, false, 0, false},
		{"rough", 10, false, 0, false},
		{"equal events", 20, true, 0, false},
		{"lost events", 20, false, 500, false},
		{"few types in bundles", 15, false, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := &chaos{plant: newPlant(t, 3, tc.queue), t: t, repeats: tc.repeats, up: true}
				if tc.few {
					c.FewBundled = true
					c.boot()
				}
				c.makes = c.commands
				c.happens(rapid.SampledFrom([]int{30, 100, 300}).Draw(t, "steps"), tc.faults)
				c.heal()
			})
		})
	}
}

func (c *chaos) happens(n, every int) {
	for _, m := range c.members {
		m.connect()
	}
	for range n {
		c.now += 7
		if c.some(every) == every {
			faults.Draw(c.t, "fault")(c)
		} else {
			steps.Draw(c.t, "step")(c)
		}
		for _, m := range c.members {
			m.checkHeld()
		}
	}
}

func (c *chaos) member() *member {
	return c.members[rapid.IntRange(0, len(c.members)-1).Draw(c.t, "controller")]
}

func (c *chaos) some(n int) int { return rapid.IntRange(1, n).Draw(c.t, "many") }

// steps are the ordinary steps, with their weights.
var steps = weighted([]weight{
	{14, func(c *chaos) {
		for range c.some(3) {
			c.event()
		}
	}},
	{14, func(c *chaos) {
		if m := c.member(); m.wire != nil {
			c.fromSwitch(m.wire, c.some(8))
		}
	}},
	{14, func(c *chaos) { c.member().hears(c.some(8)) }},
	{12, func(c *chaos) {
		if m := c.member(); m.wire != nil {
			c.toSwitch(m.wire, c.some(12))
		}
	}},
	{8, func(c *chaos) {
		m := c.member()
		for range c.some(3) {
			m.commits()
		}
	}},
	{10, func(c *chaos) { c.member().applies(c.some(6)) }},
	{6, func(c *chaos) { c.member().sends(c.some(3)) }},
	{5, func(c *chaos) { c.member().mark() }},
	{3, func(c *chaos) {
		if len(c.orphans) > 0 {
			c.toSwitch(c.orphans[0], c.some(8))
		}
	}},
	{1, func(c *chaos) { c.bury() }},
	{4, func(c *chaos) { c.member().connect() }},
	{2, func(c *chaos) { c.member().learns(c.term) }},
	{1, func(c *chaos) { c.member().holds = true }},
	{2, func(c *chaos) { c.member().resend() }},
	{10, func(c *chaos) { c.round() }}, // everything moves one step
})

// faults are the faulty steps, with their weights.
var faults = weighted([]weight{
	{5, func(c *chaos) { c.member().elected() }},
	{10, func(c *chaos) { // elects a controller in sync, if there is one
		for _, m := range c.members {
			if m.attached && m.core.State().InSync && !m.leads {
				m.elected()
				return
			}
		}
	}},
	{4, func(c *chaos) { c.member().dies() }},
	{4, func(c *chaos) { c.member().breaks(false) }},
	{1, func(c *chaos) { c.restart() }},
	{1, func(c *chaos) {
		if m := c.member(); m.leads && m.attached {
			m.propose(proposal{Batch: Batch{Epoch: m.core.epoch}, closes: true})
		}
	}},
	{4, func(c *chaos) {
		if m := c.member(); m.wire != nil && m.wire.dead {
			m.breaks(false)
		}
	}},
})

type weight struct {
	n  int
	do func(c *chaos)
}

func weighted(list []weight) *rapid.Generator[func(c *chaos)] {
	var all []func(c *chaos)
	for _, w := range list {
		for range w.n {
			all = append(all, w.do)
		}
	}
	return rapid.SampledFrom(all)
}

// event makes the switch send something to all controllers.
func (c *chaos) event() {
	switch {
	case c.repeats && c.some(4) == 1:
		c.up = !c.up
		c.link(c.up)
	case c.repeats:
		c.raise(uint32(c.some(2)))
	default:
		c.raised++
		c.raise(c.raised)
	}
}

// commands makes the commands of a transaction.
func (c *chaos) commands(epoch, next uint64) (list [][]byte) {
	n := c.some(4) - 1
	void := false
	var kinds []commandKind
	for range n {
		kind := sendPacket
		switch d := c.some(16) - 1; {
		case d < 6:
		case d < 12:
			kind = addFlow
		case d < 13 && !void:
			kind, void = badFlow, true
		case d < 15:
			kind = asks
		default:
			kind = setMeter
		}
		kinds = append(kinds, kind)
	}
	for i, kind := range kinds {
		if void && kind != badFlow {
			kind = addFlow // a message that cannot be bundled would split the transaction
		}
		seq := next + uint64(i)
		if void {
			c.bad[seq|epoch<<20] = true
		}
		list = append(list, makeCommand(kind, epoch, seq, i > 0))
	}
	return list
}

// heal ends all faults. Everything must then be done, also when the leader dies afterwards.
func (c *chaos) heal() {
	for len(c.orphans) > 0 {
		c.toSwitch(c.orphans[0], 1<<20)
		c.bury()
	}
	for _, m := range c.members {
		if m.wire != nil && m.wire.dead {
			m.breaks(false)
		}
		m.connect()
		m.resend()
	}
	leader := c.members[0]
	for _, m := range c.members {
		if m.attached && m.core.State().InSync {
			leader = m
		}
	}
	leader.elected()
	c.settle()
	c.calm(leader)
	epoch := c.state().epoch
	for _, m := range c.members {
		if m != leader {
			leader.dies()
			m.elected()
			c.event()
			c.settle()
			if got := c.state().epoch; got != epoch {
				c.t.Fatalf("a leader that was in sync began epoch %d after %d", got, epoch)
			}
			leader.connect()
			c.settle()
			c.calm(m)
			return
		}
	}
}

// calm checks that nothing remains to be done.
func (c *chaos) calm(leader *member) {
	c.t.Helper()
	s := c.state()
	if !s.live || leader.core.peer.(*bundles).state != leading || leader.core.epoch != s.epoch {
		c.t.Fatalf("controller %d does not lead: state %d, epoch %d; log: %+v", leader.n,
			leader.core.peer.(*bundles).state,
			leader.core.epoch, s.epoch)
	}
	if !c.lossy && (len(c.at) == 0 || c.at[len(c.at)-1] != len(c.order)-1) {
		c.t.Fatalf("the log is at %v of %d events", c.at, len(c.order))
	}
	if s.done != uint64(len(s.commands)) {
		c.t.Fatalf("%d of %d commands are done", s.done, len(s.commands))
	}
	for i, cmd := range s.commands {
		seq := uint64(i + 1)
		if n := c.told[told{s.epoch, openflow.XID(cmd)}]; n == 0 && (repeatable(cmd[1]) || isBad(cmd)) {
			c.t.Fatalf("command %d has no answer in the log", seq)
		}
		if _, _, ours := contentOf(cmd); ours && !c.bad[seq|s.epoch<<20] && seq > c.executed {
			c.t.Fatalf("command %d is not executed: the last is %d", seq, c.executed)
		}
	}
	for _, m := range c.members {
		if !m.attached || !m.core.State().InSync || m.core.Held() != 0 {
			c.t.Fatalf("controller %d: attached %v, in sync %v, holds %d", m.n, m.attached, m.core.State().InSync,
				m.core.Held())
		}
	}
}
