package sentry_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd/sentry"
	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

const (
	ms = time.Millisecond
	// prompt is a time within which a sentry reacts, and the BFD of the switches does not: with slow it needs two
	// seconds.
	prompt = time.Second
	slow   = time.Second
)

// bed is two Open vSwitches with cables between them, from port 1 to port 1 and so on, and BFD of their own on each.
type bed struct {
	t        *testing.T
	lab      *netlab.Lab
	switches [2]*netlab.Switch
	dbs      [2]*ovsdb.Client
	cables   []*netlab.Link
}

// newBed returns when the switches report all cables as live.
func newBed(t *testing.T, cables int, interval time.Duration) *bed {
	t.Helper()
	b := &bed{t: t, lab: netlab.ForTest(t)}
	var err error
	for i := range b.switches {
		b.switches[i], err = b.lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		b.check(err)
		b.dbs[i], err = ovsdb.New(ovsdb.Config{Remote: b.switches[i].Database(), Logger: slog.New(slog.DiscardHandler)})
		b.check(err)
		b.background(b.dbs[i].Run)
	}
	for range cables {
		k, err := b.lab.Connect(b.switches[0], b.switches[1])
		b.check(err)
		b.cables = append(b.cables, k)
	}
	for port := 1; port <= cables; port++ {
		for i, db := range b.dbs {
			b.check(db.SetBFD(t.Context(), b.end(i, port), ovsdb.BFD{MinTx: interval, MinRx: interval}))
		}
	}
	for port := 1; port <= cables; port++ {
		b.forwarding("after BFD was set up", port, true, true)
	}
	return b
}

func (b *bed) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// background runs f until the end of the test, or until the function that it returns is called.
func (b *bed) background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	stop = func() { cancel(); running.Wait() }
	b.t.Cleanup(stop)
	return stop
}

// end is a port as the database of its switch shows it.
func (b *bed) end(i, port int) (found ovsdb.Interface) {
	b.t.Helper()
	await.Until(b.t, fmt.Sprintf("port %d of switch %d", port, i+1), func() bool {
		view, err := b.dbs[i].View()
		there := false
		found, there = view.Named(fmt.Sprintf("p%d", port))
		return err == nil && there && found.Port > 0 && found.LinkUp
	})
	return found
}

// call makes a switch execute a command of ovs-appctl.
func (b *bed) call(i int, command string, args ...string) (string, error) {
	ctl, err := appctl.Dial(b.switches[i].Control(), 10*time.Second)
	if err != nil {
		return "", err
	}
	defer ctl.Close()
	return ctl.Call(command, args...)
}

// forwards reports whether the groups of a switch use a port.
func (b *bed) forwards(i, port int) bool {
	text, err := b.call(i, "bfd/show") // a switch that does not run forwards nothing
	return err == nil && appctl.Sessions(text)[fmt.Sprintf("p%d", port)].Forwarding
}

// forwarding waits until the ends of a cable have this state.
func (b *bed) forwarding(when string, port int, want ...bool) {
	b.t.Helper()
	await.Until(b.t, fmt.Sprintf("%s, port %d to forward at both ends: %v", when, port, want), func() bool {
		return b.forwards(0, port) == want[0] && b.forwards(1, port) == want[1]
	})
}

// always checks that both ends of a cable forward, or that neither does, until the returned function is called.
func (b *bed) always(port int, want bool) (stop func()) {
	return b.background(func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(10 * ms) {
			if got := [2]bool{b.forwards(0, port), b.forwards(1, port)}; got != [2]bool{want, want} {
				b.t.Errorf("the ends of port %d forward: %v, want %v", port, got, want)
				return
			}
		}
	})
}

// guard is a running sentry.
type guard struct {
	b    *bed
	stop func()

	mu     sync.Mutex // guards the field below
	events []sentry.Event
}

// guard starts a sentry for some switches. If it is late by less than 200 ms, it reports no link as dead, so a busy
// machine causes no false alarms.
func (b *bed) guard(switches ...int) *guard {
	return b.guardEach(100*ms, switches...)
}

func (b *bed) guardEach(interval time.Duration, switches ...int) *guard {
	g := &guard{b: b}
	c := sentry.Config{Interval: interval, Multiplier: 3, Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		Report: g.note}
	for _, i := range switches {
		c.Switches = append(c.Switches, b.switches[i].Control())
	}
	g.stop = b.background(func(ctx context.Context) {
		if err := sentry.Run(ctx, c); err != nil {
			b.t.Error(err)
		}
	})
	return g
}

func (g *guard) note(e sentry.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, e)
}

// of returns the states that a port has entered so far.
func (g *guard) of(port int) (states []sentry.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		if e.Interface == fmt.Sprintf("p%d", port) {
			states = append(states, e.State)
		}
	}
	return states
}

// await waits until a port is in a state.
func (g *guard) await(when string, port int, want sentry.State) {
	g.b.t.Helper()
	await.Until(g.b.t, fmt.Sprintf("%s, port %d to be %v", when, port, want), func() bool {
		states := g.of(port)
		return len(states) > 0 && states[len(states)-1] == want
	})
}

// want checks that a port has entered these states and no others.
func (g *guard) want(port int, want ...sentry.State) {
	g.b.t.Helper()
	if got := g.of(port); !slices.Equal(got, want) {
		g.b.t.Errorf("port %d was %v, want %v", port, got, want)
	}
}

// guards starts a sentry at each end of the cables, and waits until all links are up.
func (b *bed) guards() (ends [2]*guard) {
	b.t.Helper()
	for i := range ends {
		ends[i] = b.guard(i)
	}
	for i := range ends {
		for port := 1; port <= len(b.cables); port++ {
			ends[i].await("with both sentries", port, sentry.Alive)
		}
	}
	return ends
}
