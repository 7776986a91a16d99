package shells

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/openflow"
)

const (
	// settleTime is how long the network may take, after the last fault, until everything is done.
	settleTime = 60 * time.Second
	// poll is how often the run looks whether it is over.
	poll = 50 * time.Millisecond
)

// Result is what a run was like.
type Result struct {
	Simulated               time.Duration
	Events, Commands, Terms uint64
	Items                   uint64   // of streams between groups
	Moves, SwitchMoves      uint64   // of actors, and of switches
	Violation               string   // "" if everything holds
	Notes                   []string // what happened before it, oldest first
}

// Run runs a scenario. It must be called in a bubble of testing/synctest, and returns when all goroutines have ended
// that should. progress is called now and then; it must not block.
func Run(sc Scenario, progress func()) Result {
	ctx, cancel := context.WithCancel(context.Background())
	s := newSimulation(ctx, sc)
	x := &schedule{s: s, progress: progress}
	moves, end := context.WithCancel(ctx)
	x.plan()
	x.move(moves)
	x.run(sc.Duration + 500*time.Millisecond)
	end()
	x.heal()
	x.settle()
	for _, n := range s.controllers {
		n.stop()
	}
	for _, a := range s.agents {
		a.kill(false)
	}
	for _, sw := range s.switches {
		sw.kill(false)
	}
	cancel()
	s.tasks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Result{Simulated: time.Since(s.began), Violation: s.violation, Notes: s.notes}
	r.Events, r.Commands, r.Terms = s.h.Counts()
	r.Items = s.h.Received()
	r.Moves, r.SwitchMoves = s.h.Moves()
	return r
}

// schedule is what is to happen, by time. One goroutine does it all.
type schedule struct {
	s        *simulation
	progress func()
	list     plans
	planned  int
	heals    map[int]func() // of faults that go on
	traffic  bool
}

type plan struct {
	at    time.Time
	order int
	do    func()
}

type plans []plan

func (p plans) Len() int      { return len(p) }
func (p plans) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *plans) Push(x any)   { *p = append(*p, x.(plan)) }
func (p plans) Less(i, j int) bool {
	return p[i].at.Before(p[j].at) || p[i].at.Equal(p[j].at) && p[i].order < p[j].order
}
func (p *plans) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

func (x *schedule) after(d time.Duration, do func()) {
	x.planned++
	heap.Push(&x.list, plan{time.Now().Add(d), x.planned, do})
}

// lasting undoes something later, or when all faults end.
func (x *schedule) lasting(d time.Duration, undo func()) {
	x.planned++
	key := x.planned
	x.heals[key] = undo
	x.after(d, func() {
		if undo := x.heals[key]; undo != nil {
			delete(x.heals, key)
			undo()
		}
	})
}

// plan begins: everything starts, in any order.
func (x *schedule) plan() {
	x.heals, x.traffic = map[int]func(){}, true
	for _, start := range x.starts() {
		x.after(time.Duration(x.s.rand.Int64N(int64(100*time.Millisecond))), start)
	}
	for _, sw := range x.s.switches {
		x.talk(sw)
	}
	for _, f := range x.s.sc.Faults {
		x.after(f.At, func() { x.inflict(f) })
	}
}

func (x *schedule) starts() (starts []func()) {
	for _, n := range x.s.controllers {
		starts = append(starts, func() { x.start(n) })
	}
	for _, a := range x.s.agents {
		starts = append(starts, a.start)
	}
	for _, sw := range x.s.switches {
		starts = append(starts, sw.start)
	}
	return starts
}

// start starts a controller, also one that has ended because of its disk.
func (x *schedule) start(n *controllerNode) {
	if n.life != nil && !n.running() {
		n.kill(false)
	}
	n.disk.set(func(d *disk) {
		if n.life == nil {
			d.failed = false
		}
	})
	n.start()
}

// talk has the host of a switch send frames.
func (x *schedule) talk(sw *switchNode) {
	interval := time.Second / time.Duration(x.s.sc.FramesPerSecond)
	x.after(time.Duration(x.s.rand.Int64N(int64(2*interval))), func() {
		if x.traffic {
			sw.send(1 + x.s.rand.IntN(len(x.s.switches)+1))
			x.talk(sw)
		}
	})
}

// run does what is planned until then, or until something is wrong.
func (x *schedule) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !x.s.over(); {
		wait := min(poll, time.Until(end))
		if len(x.list) > 0 {
			wait = min(wait, time.Until(x.list[0].at))
		}
		if wait > 0 {
			time.Sleep(wait)
		}
		x.progress()
		for len(x.list) > 0 && !x.list[0].at.After(time.Now()) {
			heap.Pop(&x.list).(plan).do()
		}
	}
}

// heal ends all faults and the traffic, and brings everybody back.
func (x *schedule) heal() {
	x.s.note("-", "all faults end")
	x.list, x.traffic = nil, false
	for _, undo := range x.heals {
		undo()
	}
	clear(x.heals)
	for _, start := range x.starts() {
		start()
	}
}

// settle lets the network come to rest, and looks at the whole of it.
func (x *schedule) settle() {
	text := "nothing"
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		if x.run(poll); x.s.over() {
			return
		}
		if text = x.s.unsettled(); text == "" {
			return
		}
	}
	x.s.fail("%v after the last fault, %s", settleTime, text)
}

// unsettled says what is still to be done; "" is nothing, and then the history is finished.
func (s *simulation) unsettled() string {
	var all []controller.Status
	for _, n := range s.controllers {
		if !n.running() {
			return fmt.Sprintf("controller %d is down", n.id)
		}
		st, err := n.life.c.Status(s.ctx)
		if err != nil {
			return err.Error()
		}
		all = append(all, st)
	}
	leaders := s.leaders(all)
	for g, leader := range leaders {
		if leader == nil {
			return fmt.Sprintf("group %d has no leader", g)
		}
		for _, st := range all {
			if have, all := st.Groups[g].Applied, leader.Groups[g].Applied; have != all {
				return fmt.Sprintf("%s has applied entry %d of group %d, the leader %d", st.Name, have, g, all)
			}
		}
		for _, wait := range leader.Groups[g].Backlog {
			return fmt.Sprintf("%d items of group %d wait for group %d", wait.Items, g, wait.Group)
		}
	}
	live := map[openflow.DatapathID]uint64{}
	for _, sw := range s.switches {
		if text := s.unsettledSwitch(sw, leaders, all, live); text != "" {
			return text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.h.Quiet() {
		return "commands are not executed"
	}
	if moving := s.h.Moving(); moving != "" {
		return moving
	}
	s.h.Finish(live)
	for _, g := range s.groups {
		g.Finish(nil)
	}
	return ""
}

func (s *simulation) unsettledSwitch(sw *switchNode, leaders []*controller.Status, all []controller.Status,
	live map[openflow.DatapathID]uint64) string {
	st := statusOf(sw.id, leaders[statusOf(sw.id, leaders[0]).Group])
	var epoch uint64
	if sw.agent != nil {
		var text string
		if epoch, text = sw.agent.settled(); text != "" {
			return text
		}
		live[sw.id] = epoch
	} else {
		s.mu.Lock()
		unlogged := s.h.Unlogged(sw.id)
		epoch = s.h.Live(sw.id)
		s.mu.Unlock()
		if unlogged > 0 {
			return fmt.Sprintf("%d events of switch %s are not logged", unlogged, sw.id)
		}
		for _, other := range all {
			if !slices.Contains(sw.dials, other.Name+":6653") {
				continue // it does not know this one
			}
			if x := statusOf(sw.id, &other); x.Role == "none" || !x.InSync {
				return fmt.Sprintf("%s is not in sync with switch %s", other.Name, sw.id)
			}
		}
	}
	switch {
	case st.State != "up" || st.Epoch != epoch:
		return fmt.Sprintf("switch %s is in epoch %d, and for the leader %s in epoch %d", sw.id, epoch, st.State,
			st.Epoch)
	case st.CommandsDone != st.CommandsSent:
		return fmt.Sprintf("switch %s has done %d commands of %d", sw.id, st.CommandsDone, st.CommandsSent)
	}
	return ""
}

// String is for who reads why a run failed.
func (r Result) String() string { return strings.Join(r.Notes, "\n") + "\n" + r.Violation }
