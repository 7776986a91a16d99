package apptest

import (
	"bytes"
	"iter"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Tester is what *testing.T and *rapid.T share.
type Tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Crash is a moment at which a leader dies.
type Crash uint8

// The moments.
const (
	Stays         Crash = iota // it lives
	DiesExecuting              // the input is executed again by the next leader
	DiesReleasing              // the next leader has the outcome, and releases it
)

// Group is three controllers that run the same applications, in one goroutine and in the time that the test tells.
// Unlike Net it has a leader that may die. A failure of an application ends the test.
type Group struct {
	Now   int64  // ns
	Term  uint64 // of the leader; as many have led
	Crash Crash  // what happens to the leader at its next input

	t       Tester
	cores   []*ledger.Core
	leader  int
	release func(ledger.Release)
}

// NewGroup starts a group; apps makes the applications of one controller. release gets what the leader has for
// switches, some of it again after a failover.
func NewGroup(t Tester, now int64, apps func() []*app.App, release func(ledger.Release)) *Group {
	t.Helper()
	g := &Group{Now: now, t: t, release: release, cores: make([]*ledger.Core, 3)}
	g.fill(apps)
	g.lead(0)
	return g
}

func (g *Group) fill(apps func() []*app.App) {
	g.t.Helper()
	for i := range g.cores {
		var list []ledger.Application
		for _, a := range apps() {
			list = append(list, a)
		}
		var err error
		g.cores[i], err = ledger.New(list, ledger.Limits{})
		g.must(err)
	}
}

func (g *Group) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("%v", err)
	}
}

// Replace has all controllers begin again from what is committed, with other applications.
func (g *Group) Replace(apps func() []*app.App) {
	g.t.Helper()
	state := g.snapshot(g.leader)
	g.fill(apps)
	for _, c := range g.cores {
		g.must(c.Restore(state))
	}
	g.lead(g.leader)
}

func (g *Group) lead(i int) {
	g.t.Helper()
	g.Term++
	g.leader = i
	core := g.cores[i]
	g.must(core.Lead(g.Term, g.Now))
	for _, s := range core.Switches() {
		if r, ok := core.Resume(s.Switch); ok {
			g.release(r)
		}
	}
}

// Leader returns the ledger of the leader.
func (g *Group) Leader() *ledger.Core { return g.cores[g.leader] }

// Failover lets the leader die, and the next one lead.
func (g *Group) Failover() {
	g.t.Helper()
	g.must(g.Leader().Follow())
	g.lead((g.leader + 1) % len(g.cores))
}

// Input has the leader execute something, which is called again if it dies meanwhile, and commits it.
func (g *Group) Input(do func(*ledger.Core)) {
	g.t.Helper()
	how := g.Crash
	g.Crash = Stays
	do(g.Leader())
	if how == DiesExecuting {
		g.Failover()
		do(g.Leader())
	}
	core := g.Leader()
	for _, f := range core.Failures() {
		g.t.Fatalf("application %s failed on %s: %v\n%s", f.App, f.Input.String(), f.Err, f.Stack)
	}
	entry, ok := core.Cut()
	if !ok {
		return
	}
	for _, c := range g.cores {
		if c != core || how != DiesReleasing {
			g.must(c.Commit(bytes.Clone(entry)))
		}
	}
	if how == DiesReleasing {
		g.Failover()
		g.must(core.Commit(bytes.Clone(entry)))
	}
	for _, r := range g.Leader().Releases() {
		g.release(r)
	}
}

// Until goes to where the next timer is due, or to end if none is before, and returns the input that says so.
func (g *Group) Until(end int64) func(*ledger.Core) {
	due, ok := g.Leader().NextTimer()
	if !ok || due > end {
		due = end
	}
	g.Now = max(g.Now, due)
	now := g.Now
	return func(c *ledger.Core) { c.Tick(now) }
}

// Commands yields the commands of a release with their sequences.
func (g *Group) Commands(r ledger.Release) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		rest := r.Commands
		for seq := r.First; len(rest) > 0; seq++ {
			msg, after, err := openflow.Next(rest)
			g.must(err)
			if rest = after; !yield(seq, msg) {
				return
			}
		}
	}
}

// Rows returns what an application has in its tables at the leader.
func (g *Group) Rows(name string) []ledger.Row {
	g.t.Helper()
	rows, err := g.Leader().Rows(name, 1<<30)
	g.must(err)
	return rows
}

// Agree ends the test if the controllers have different states.
func (g *Group) Agree() {
	g.t.Helper()
	want := g.snapshot(g.leader)
	for i := range g.cores {
		if !bytes.Equal(g.snapshot(i), want) {
			g.t.Fatalf("controllers %d and %d have different states", i, g.leader)
		}
	}
}

func (g *Group) snapshot(i int) []byte {
	g.t.Helper()
	if !g.Leader().Quiet() { // that commands are done is not logged yet
		g.Input(func(*ledger.Core) {})
	}
	s, err := g.cores[i].Snapshot()
	g.must(err)
	return s
}
