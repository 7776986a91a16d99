package recovery

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// of returns the view's row for a switch.
func (w *world) of(id app.Switch) SwitchView {
	w.t.Helper()
	for _, s := range w.view().Switches {
		if s.ID == id {
			return s
		}
	}
	w.t.Fatalf("switch %v is not in the view", id)
	return SwitchView{}
}

func foreign(cookie uint64, table uint8) of13.FlowMod {
	return of13.FlowMod{TableID: table, Priority: 7, Cookie: cookie, Match: of13.Match(nil).WithInPort(3)}
}

// damage removes, changes and adds entries and groups of a switch.
func damage(s *fakeSwitch) {
	n := 0
	for _, k := range slices.Sorted(maps.Keys(s.flows)) {
		f := s.flows[k]
		if f.Cookie != protect.Cookie {
			continue
		}
		switch n++; {
		case n == 1:
			delete(s.flows, k)
		case n == 2:
			f.Instructions = of13.Instructions(nil).Apply(of13.Actions(nil).Output(77, 0))
			s.flows[k] = f
		}
	}
	id := slices.Sorted(maps.Keys(s.groups))[0]
	g := s.groups[id]
	g.Buckets = protect.GroupID(77<<15 | 78).Buckets()
	s.groups[id] = g
	for _, f := range []of13.FlowMod{foreign(protect.Cookie, 2), foreign(99, 3), foreign(0x48<<56|1, 254),
		foreign(liveness.Cookie, 4)} {
		s.flows[flowKey(f)] = f
	}
}

// Each switch is checked and repaired once in Reconcile, even if the leader changes, and into however many parts
// the switch splits its answer.
func TestWhatSomebodyHasChangedIsMadeRight(t *testing.T) {
	for _, remove := range []bool{false, true} {
		for seed := range uint64(8) {
			c := defaults
			c.RemoveForeign = remove
			w := build(t, seed, graphs.Ring(), c)
			for _, s := range w.switches {
				s.partial = 1 + int(seed)
				damage(s)
			}
			w.fever = int(seed) * 10
			w.advance(c.Reconcile + answerIn)
			w.fever = 0
			w.check()
			for id, s := range w.switches {
				_, marker := s.flows[flowKey(foreign(0x48<<56|1, 254))]
				_, spare := s.flows[flowKey(foreign(liveness.Cookie, 4))]
				_, other := s.flows[flowKey(foreign(99, 3))]
				if !marker || !spare || other == remove {
					t.Errorf("remove %v, seed %d, switch %v: the marker is there: %v, what is spared %v, what is "+
						"foreign %v", remove, seed, id, marker, spare, other)
				}
				v, removed := w.of(id), uint64(1)
				if remove {
					removed++
				}
				if v.PutBack != 3 || v.Removed != removed || !remove && v.Found.Foreign != 1 {
					t.Errorf("remove %v, seed %d, switch %v: %+v", remove, seed, id, v)
				}
			}
		}
	}
}

// A switch that refuses a command does not delay the others. The status names it, and it is retried at growing
// intervals.
func TestRefused(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.switches[2].refuses = 1 << 20
	w.host(app.MAC{2, 9}, at(1, 7))
	w.advance(500 * time.Millisecond)
	v := w.of(2)
	if v.InSync || !strings.Contains(v.Error, "TABLE_FULL") || !strings.Contains(v.Command, "FLOW_MOD") {
		t.Errorf("%+v", v)
	}
	for id := range w.switches {
		if id != 2 && !w.of(id).InSync {
			t.Errorf("switch %v waits for another: %+v", id, w.of(id))
		}
	}
	before := len(w.switches[2].errors)
	w.advance(2 * time.Minute)
	// after 1, 2, 4, 8, 16, 32 and 60 s; one command at a time, since the switch refuses several
	if n := len(w.switches[2].errors) - before; n < 5 || n > 12 {
		t.Errorf("%d more refusals in two minutes", n)
	}
	w.switches[2].refuses = 0
	w.advance(maxRetry)
	if v := w.of(2); !v.InSync || v.Error != "" {
		t.Errorf("%+v", v)
	}
	w.check()
}

// A switch that does not answer does not delay the others either.
func TestNoAnswer(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.switches[2].mute = true
	w.host(app.MAC{2, 9}, at(1, 7))
	w.advance(answerIn - time.Second)
	if !w.view().Changing {
		t.Error("it was not waited for")
	}
	w.advance(2*time.Second + mostPause)
	if v := w.view(); v.Changing || w.of(2).InSync || w.of(2).Error == "" {
		t.Errorf("%+v", v)
	}
	w.switches[2].mute = false
	w.advance(maxRetry)
	w.check()
}

// A switch that answers late may forward by its old entries for as long again. So the next round waits.
func TestPauseAfterALateAnswer(t *testing.T) {
	const late, step = 200 * time.Millisecond, 10 * time.Millisecond
	w := build(t, 1, graphs.Ring(), defaults)
	w.switches[2].slow = true
	w.host(app.MAC{2, 9}, at(1, 7))
	for !w.view().Changing {
		w.advance(step)
	}
	w.advance(late)
	w.switches[2].slow = false
	w.advance(late)
	if !w.view().Changing {
		t.Error("no pause")
	}
	w.advance(late + 2*step)
	if w.view().Changing {
		t.Error("the pause does not end")
	}
	w.check()
}

// A switch that restarts while a plan is installed receives no more of that plan, which would refer to lost
// entries.
func TestASwitchThatIsRestartedMeanwhile(t *testing.T) {
	for restart := 1; ; restart++ {
		w := build(t, 1, graphs.Ring(), defaults)
		w.setCable(cables(graphs.Ring())[2], false)
		w.Now += int64(lossQuiet)
		w.tick()
		steps := 0
		for ; steps < restart && w.step(); steps++ {
		}
		if !w.view().Changing {
			if restart < 10 {
				t.Errorf("the plan was there after %d steps", steps)
			}
			return
		}
		w.stop(3)
		w.start(3, 0, true)
		w.advance(w.config.HoldDown)
		w.check()
		for id, s := range w.switches {
			if len(s.errors) > 0 {
				t.Fatalf("restarted after step %d: switch %v has refused %v", restart, id, s.errors)
			}
		}
	}
}

// A plan that a leader has made and could not commit is not confused with the next leader's plan.
func TestAPlanThatWasTakenBack(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	w.setCable(cables(graphs.Ring())[2], false)
	w.Now += int64(lossQuiet)
	lost, now := w.Leader(), w.Now
	lost.Tick(now) // this leader has the plan in memory
	w.Failover()
	w.host(app.MAC{2, 9}, at(1, 7))
	w.Now += int64(time.Second)
	w.tick()
	for i := 0; w.Leader() != lost; i++ { // it leads again in the middle of the transition
		w.step()
		w.Failover()
	}
	if !w.view().Changing {
		t.Fatal("all is done already")
	}
	w.advance(time.Second)
	w.check()
}

// If a leader continues a check and cannot commit that, the next leader does not continue from there.
func TestACheckThatWasTakenBack(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	s := w.switches[2]
	s.partial = 1
	damage(s)
	w.stop(2)
	w.start(2, 0, false)
	for range 10 {
		answers := s.step()
		if len(answers) == 0 {
			continue
		}
		w.must(w.Leader().Done(2, s.epoch, s.taken-uint64(len(s.queue))))
		for i, a := range answers {
			if i == 1 { // only this leader has seen it
				lost := w.Leader()
				w.must(lost.Event(2, s.epoch, s.seq+1, a))
				w.Failover()
			}
			if i == 2 {
				for range 2 {
					w.Failover() // back to where it was lost
				}
			}
			w.event(2, a)
		}
	}
	w.advance(time.Minute)
	w.check()
}

// If the configuration changes the kind of protection, the other kind is installed.
func TestTheKindOfProtectionChanges(t *testing.T) {
	w := build(t, 1, graphs.Ring(), defaults)
	c := defaults
	c.Disjoint = 1
	w.upgrade(c)
	w.advance(c.Reconcile)
	w.check()
}

// A view does not depend on the order of the rows. Without rows it is empty.
func TestOfNothing(t *testing.T) {
	v, err := Of(func(func(ledger.Row) bool) {})
	if err != nil || len(v.Graph.Switches()) != 0 || v.Changing || !v.Stable() {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := v.Plan(); err != nil {
		t.Error(err)
	}
	if _, err := Of(func(yield func(ledger.Row) bool) {
		yield(ledger.Row{Table: "links",
			Value: []byte{1}})
	}); err == nil {
		t.Error("a row that is no link passes")
	}
}

// A plan waits a bounded time for switches that have just returned, so that it can include them.
func TestAPlanWaitsForSwitchesThatAreBack(t *testing.T) {
	for _, answers := range []bool{true, false} {
		w := build(t, 1, graphs.Ring(), defaults)
		w.stop(3)
		w.start(3, 0, true)
		w.setCable(cables(graphs.Ring())[0], false)
		end := w.Now + int64(lossQuiet)
		for w.Now < end {
			w.tick()
		}
		if w.view().Changing {
			t.Error("it has not waited")
		}
		for end += int64(patience); !answers && w.Now < end; {
			w.tick()
		}
		if answers {
			w.settle()
		}
		if v := w.view(); !v.Due.IsZero() || answers == v.Changing || !w.of(1).InSync {
			t.Errorf("answers: %v: %+v", answers, v)
		}
		w.advance(defaults.HoldDown)
		w.check()
	}
}

// The repair of a switch takes several parts, and the next plan begins after the first of them. The switch is repaired
// all the same.
func TestAPlanThatBeginsWithinARepair(t *testing.T) {
	w := build(t, 1, graphs.Triangle(), defaults)
	for i := range 2 * maxPart {
		w.host(app.MAC{2, 1, byte(i >> 8), byte(i)}, at(2, 4))
	}
	w.advance(2 * time.Second)
	s := w.switches[1]
	clear(s.flows)
	for w.jobs()[1].Sent != maxPart {
		if !w.step() {
			w.input(w.Until(w.Now + int64(time.Minute)))
		}
	}
	s.slow = true
	w.setCable(at(2, 1), false)
	w.Now += int64(lossQuiet)
	w.tick()
	s.slow = false
	w.advance(5 * time.Second)
	w.check()
}

func (w *world) jobs() map[app.Switch]job {
	w.t.Helper()
	jobs := map[app.Switch]job{}
	d := tablesOf(app.New(Name))
	w.must(app.Read(slices.Values(w.Rows(Name)), d.jobs.Each(func(_ uint32, s app.Switch, j job) { jobs[s] = j })))
	return jobs
}
