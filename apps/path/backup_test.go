package path

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Each link of a path is cut in turn. Frames arrive at once, before any controller knows, and after each command of the
// way to the next route. That has a backup again, if there is a second way. In the end nothing is left over.
func TestPathWithBackup(t *testing.T) {
	for _, n := range []app.Switch{4, 8} {
		for hop := range 2 {
			t.Run(fmt.Sprintf("link %d of %d switches", hop, n), func(t *testing.T) {
				w := newWorld(t, 3, first)
				w.ring(n)
				p := w.protect()
				w.settle()
				w.verify(p, model.Up)
				link := w.end(t, w.view(p.name), hop)
				w.unplug(link, true)
				if fate := w.follow(p); fate != "" || !w.passes(p) {
					t.Fatalf("a link is cut, and no controller knows: %s", fate)
				}
				w.cut(link)
				w.settle()
				v := w.view(p.name)
				switch {
				case n == 4 && (v.State != model.Bare || v.Backup != nil || !strings.Contains(v.Why, "no second way")):
					t.Errorf("there is one way only: it is %+v", v)
				case n == 8 && (v.State != model.Up || v.Backup == nil):
					t.Errorf("there is a second way: it is %+v", v)
				}
				if !w.passes(p) || w.cutOff(v.Route) || w.cutOff(v.Backup) {
					t.Errorf("frames pass: %v, and it is %+v", w.passes(p), v)
				}
				w.cable(link, w.cables[link])
				w.settle()
				w.verify(p, model.Up)
				w.remove(p.name)
				w.settle()
				w.verify(p, "none")
			})
		}
	}
}

// protect watches a path from switch 1 to switch 3, and asks for it with a backup.
func (w *world) protect() watched {
	w.t.Helper()
	p, d := w.watch(0, 1, 3)
	d.Backup = true
	w.put(p.name, d)
	return p
}

// end is where a link of a route begins.
func (w *world) end(t *testing.T, v View, i int) app.PortOf {
	t.Helper()
	if len(v.Route) < i+2 {
		t.Fatalf("it is %+v", v)
	}
	var id app.Switch
	if _, err := fmt.Sscanf(v.Route[i].Switch, "%x", &id); err != nil {
		t.Fatal(err)
	}
	return app.PortOf{Switch: id, Port: v.Route[i].Out}
}

// A path keeps its route when a link of its backup goes down, and gets another backup. The permitted number of switches
// and those to avoid hold for the backup too.
func TestPathGetsAnotherBackup(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(8)
	p, d := w.watch(0, 1, 3)
	d.Backup, d.Avoid = true, []string{"2"}
	w.put(p.name, d)
	w.settle()
	before := w.view(p.name)
	w.verify(p, model.Up)
	if strings.Contains(fmt.Sprint(before.Route, before.Backup), "{0000000000000002") {
		t.Errorf("it crosses switch 2: %+v", before)
	}
	last := before.Backup[len(before.Backup)-2]
	var id app.Switch
	if _, err := fmt.Sscanf(last.Switch, "%x", &id); err != nil {
		t.Fatal(err)
	}
	link := app.PortOf{Switch: id, Port: last.Out}
	w.unplug(link, true)
	w.cut(link)
	w.settle()
	v := w.view(p.name)
	w.verify(p, model.Up)
	if w.cutOff(v.Backup) || fmt.Sprint(v.Route[0].Out) != fmt.Sprint(before.Route[0].Out) {
		t.Errorf("it was %+v, and is %+v", before, v)
	}
	q, d := w.watch(1, 1, 2)
	d.Backup, d.MaxHops = true, 2
	w.put(q.name, d)
	w.settle()
	if v := w.view(q.name); v.State != model.Bare || !strings.Contains(v.Why, "at most 2") || !w.passes(q) {
		t.Errorf("it is %+v", v)
	}
}

// What somebody does to the groups of a path is undone.
func TestPathGroupsAreRepaired(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(4)
	p := w.protect()
	w.settle()
	w.watched = nil // for a moment it is there by half
	for id, s := range w.switches {
		s.Message(0, 1, (&of13.GroupMod{Command: of13.GroupAdd, GroupID: 0x3fffffff - uint32(id),
			GroupType: of13.GroupTypeIndirect, Buckets: of13.Bucket{WatchPort: of13.PortAny,
				WatchGroup: of13.GroupAny}.AppendTo(nil)}).Append(nil, 9))
	}
	w.compare()
	w.verify(p, model.Up)
	w.switches[1].Message(0, 1, (&of13.GroupMod{Command: of13.GroupDelete, GroupID: of13.GroupAll}).Append(nil, 9))
	w.compare()
	w.verify(p, model.Up)
}

// A switch without room for groups refuses a path with a backup, and nothing of it is left.
func TestPathWithBackupIsRefused(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(4)
	w.refuses = func(c apptest.Sent) bool {
		m, is := c.Message.(*of13.GroupMod)
		return is && c.Switch == 1 && m.Command == of13.GroupAdd
	}
	p := w.protect()
	w.settle()
	w.verify(p, model.Refused)
	if v := w.view(p.name); v.Why == "" {
		t.Errorf("it is %+v", v)
	}
}

// Whichever of its entries a switch refuses, and whichever switches confirm before, nothing of a path is left, and no
// frame has taken it.
func TestPathWithBackupLacksNoEntry(t *testing.T) {
	entries := 0
	for seed := range uint64(3) {
		for refused, more := 0, true; more; refused++ {
			w := newWorld(t, 2, rand.New(rand.NewPCG(seed, 0)).IntN)
			w.ring(4)
			p := w.protect()
			n := 0
			w.refuses = func(c apptest.Sent) bool {
				m, is := c.Message.(*of13.FlowMod)
				if is && m.Command == of13.FlowAdd {
					n++
				}
				return is && m.Command == of13.FlowAdd && n == refused+1
			}
			for w.step() {
				if n > refused && w.passes(p) {
					t.Fatalf("seed %d: frames enter, and entry %d is refused", seed, refused)
				}
			}
			if w.settle(); n > refused {
				w.verify(p, model.Refused)
			}
			more, entries = n > refused, max(entries, n)
		}
	}
	if entries < 7 {
		t.Errorf("a path had %d entries, want one more than it has hops", entries)
	}
}

// When the first frame enters, the backup is there.
func TestPathEntersWithItsBackup(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, 2, rand.New(rand.NewPCG(seed, 0)).IntN)
		w.ring(4)
		p := w.protect()
		for !w.passes(p) && w.step() {
		}
		v := w.view(p.name)
		v.Route = append(v.Route, v.Next...)
		for hop := range 2 {
			link := w.end(t, v, hop)
			w.unplug(link, true)
			if fate := w.follow(p); fate != "" || !w.passes(p) {
				t.Fatalf("seed %d: link %d is cut: %s", seed, hop, fate)
			}
			w.unplug(link, false)
		}
	}
}

// A way that shares a link with the route is no backup.
func TestPathSharesNoLinkWithItsBackup(t *testing.T) {
	w := newWorld(t, 2, first)
	for id := app.Switch(1); id <= 4; id++ {
		w.boot(id, 0)
	}
	for _, ends := range [][2]app.PortOf{{{Switch: 1, Port: 4}, {Switch: 2, Port: 3}},
		{{Switch: 2, Port: 4}, {Switch: 3, Port: 3}}, {{Switch: 1, Port: 5}, {Switch: 4, Port: 6}},
		{{Switch: 4, Port: 5}, {Switch: 2, Port: 6}}} {
		w.cable(ends[0], ends[1])
	}
	w.settle()
	p := w.protect()
	w.settle()
	if v := w.view(p.name); v.State != model.Bare || v.Backup != nil || !w.passes(p) {
		t.Errorf("all ways share a link, and it is %+v", v)
	}
}

// A switch that is lost in the middle of a change has none of its groups when it is back.
func TestPathLeavesNoGroupsAtLostSwitch(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(4)
	p := w.protect()
	for w.groups() == 0 && w.step() {
	}
	if w.groups() != 1 {
		t.Fatalf("there are %d groups", w.groups())
	}
	for id := range w.switches {
		w.down(id)
	}
	w.settle()
	for id := range w.switches {
		w.up(id)
	}
	w.settle()
	w.verify(p, model.Refused)
}

// A link comes up at any time while a path is installed that needs it for its backup.
func TestPathGetsBackupByLinkThatComesMeanwhile(t *testing.T) {
	for steps, more := 0, true; more; steps++ {
		w := newWorld(t, 2, first)
		w.ring(4)
		link := app.PortOf{Switch: 1, Port: 4}
		w.cut(link)
		w.settle()
		p := w.protect()
		for range steps {
			more = w.step() && more
		}
		w.cable(link, w.cables[link])
		w.settle()
		w.verify(p, model.Up)
	}
}
