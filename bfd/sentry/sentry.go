package sentry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/incident"
)

const (
	// refreshEvery is how often a switch is asked which of its interfaces have BFD, and how long it takes until a
	// restarted switch is found.
	refreshEvery = time.Second
	// MaxLinks bounds the links of one switch. At 1 ms a processor carries fewer: see pace.rest.
	MaxLinks = 256
	// callLimit bounds how long a switch may take to answer: meanwhile nothing else can be reported to it.
	callLimit = 2 * time.Second
	// exitLimit bounds the time from the end of a process's connections until the process itself ends.
	exitLimit = 100 * time.Millisecond
	// reportLimit is how long Run waits for Report at its end.
	reportLimit = time.Second
)

// Config says what to monitor.
type Config struct {
	// control sockets of ovs-vswitchd or its pid files (see appctl.Dial); their switches may be in other network
	// namespaces
	Switches   []string
	Interval   time.Duration // between two packets: 1 ms to 1 s
	Multiplier int           // missing packets in a row after which a link is dead: 2 or more, and see Multiplier
	Log        *slog.Logger
	// called for each event, in order, by one goroutine. If it falls behind by thousands of events, further ones are
	// dropped; if it blocks, so does the end of Run
	Report func(Event)
}

// Event says that a link has entered a state.
type Event struct {
	At        time.Time `json:"at"`
	Switch    string    `json:"switch"` // as in Config
	Interface string    `json:"interface"`
	State     State     `json:"state"`
}

// wait is how long a sentry with real-time priority may have to wait for a processor while its machine is not paused.
// Longer delays of its own are excused.
const wait = 3 * time.Millisecond

// Multiplier is the default multiplier for an interval.
func Multiplier(interval time.Duration) int { return bfd.MultiplierFor(interval, wait) }

// CheckTimers returns an error if an interval and a multiplier do not fit.
func CheckTimers(interval time.Duration, multiplier int) error {
	const least = 2 * tolerance // of silence that a sentry can distinguish from its own delay
	switch {
	case interval < time.Millisecond || interval > time.Second:
		return fmt.Errorf("interval %v of a sentry: use 1 ms to 1 s", interval)
	case multiplier < 2 || multiplier > 255 || time.Duration(multiplier-1)*interval < least:
		return fmt.Errorf("multiplier %d of a sentry at an interval of %v: use %d to 255", multiplier, interval,
			max(2, 1+int((least+interval-1)/interval)))
	}
	return nil
}

// Run monitors until ctx ends. A switch that does not run, or an interface that cannot be opened, is logged and tried
// again every second.
func Run(ctx context.Context, c Config) error {
	if len(c.Switches) == 0 {
		return errors.New("a sentry needs at least one switch")
	}
	if err := CheckTimers(c.Interval, c.Multiplier); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWatch(c.Interval, uint8(c.Multiplier))
	var running sync.WaitGroup
	for _, path := range c.Switches {
		log := c.Log.With("switch", path)
		a := &attendant{path: path, watch: w, log: log, incidents: incident.New(log), changed: make(chan struct{}, 1)}
		running.Go(func() { a.run(ctx) })
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for e := range w.events {
			c.Report(e)
		}
	}()
	ended := make(chan error)
	go func() { ended <- w.run(ctx, len(c.Switches) > 1) }()
	err := <-ended
	cancel()
	running.Wait()
	select {
	case <-reported:
	case <-time.After(reportLimit):
	}
	return err
}

// attendant serves one switch: which links to monitor for it, and what to report to it.
type attendant struct {
	path      string
	watch     *watch
	log       *slog.Logger
	incidents *incident.Log
	changed   chan struct{} // capacity 1: a link of it has changed

	// Of one connection:
	ctl   *appctl.Client
	pid   int
	links map[string]*link
}

func (a *attendant) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.serve(ctx); err != nil {
			a.incidents.Warn(a.path, "the switch cannot be told of dead links; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(refreshEvery):
		}
	}
}

// serve serves the switch while it runs.
func (a *attendant) serve(ctx context.Context) (err error) {
	if a.ctl, err = appctl.Dial(a.path, callLimit); err != nil {
		return err
	}
	defer func() { a.ctl.Close() }()
	if a.pid, err = a.ctl.PID(); err != nil {
		return err
	}
	lock, err := lockSwitch(a.pid)
	if err != nil {
		return err
	}
	defer lock.Close()
	died, err := watchProcess(a.pid)
	if err != nil {
		return err
	}
	defer died.close()
	a.links = map[string]*link{}
	err = a.attend(ctx, died)
	if err != nil { // its connection ends a moment before the process does
		select {
		case <-died.over:
		case <-time.After(exitLimit):
		}
	}
	select {
	case <-died.over: // peers must detect this as a dead link
		a.dropAll(false)
		return fmt.Errorf("process %d, the switch, has ended", a.pid)
	default:
	}
	a.dropAll(true)
	if err := a.release(); err != nil {
		a.log.Warn("a link may stay reported as dead", "error", err)
	}
	return err
}

func (a *attendant) attend(ctx context.Context, died *process) error {
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	for err := a.refresh(); ; {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-died.over:
			return nil
		case <-a.changed:
			err = a.tell()
		case <-refresh.C:
			err = a.refresh()
		}
	}
}

// refresh monitors exactly the links that the switch monitors by BFD.
func (a *attendant) refresh() error {
	text, err := a.ctl.Call("bfd/show")
	if err != nil {
		return err
	}
	there := appctl.Sessions(text)
	for name, l := range a.links {
		if _, ok := there[name]; !ok || l.unplugged.Load() {
			a.drop(l, true)
			delete(a.links, name)
		}
	}
	for name := range there {
		if a.links[name] != nil {
			continue
		}
		if err := a.begin(name); err != nil {
			a.incidents.Warn(a.path+" "+name, "a link is watched by the switch alone", "interface", name, "error", err)
		}
	}
	return a.tell()
}

func (a *attendant) begin(name string) error {
	if len(a.links) >= MaxLinks {
		return fmt.Errorf("a sentry monitors at most %d links of a switch", MaxLinks)
	}
	s, err := openSocket(a.pid, name)
	if err != nil {
		return err
	}
	// reported dead, as far as is known: by an earlier sentry
	l := &link{sw: a.path, name: name, socket: s, changed: a.changed, told: true}
	if err := a.watch.add(l); err != nil {
		s.close()
		return err
	}
	a.links[name] = l
	return nil
}

func (a *attendant) drop(l *link, onPurpose bool) {
	a.watch.remove(l, onPurpose)
	l.socket.close()
}

func (a *attendant) dropAll(onPurpose bool) {
	for _, l := range a.links {
		a.drop(l, onPurpose)
	}
}

// tell reports to the switch what has changed.
func (a *attendant) tell() error {
	for _, l := range a.links {
		if dead := l.dead.Load(); dead != l.told {
			if err := a.say(l, dead); err != nil {
				return err
			}
		}
	}
	return nil
}

// release lets the switch use its own BFD on all links, over a new connection: on the old one an answer may be
// outstanding.
func (a *attendant) release() error {
	left := []string{}
	for name, l := range a.links {
		if l.told {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	ctl, err := appctl.Dial(a.path, callLimit)
	if err == nil {
		a.ctl.Close()
		a.ctl = ctl
		for _, name := range left {
			err = errors.Join(err, a.say(a.links[name], false))
		}
	}
	if err != nil {
		return fmt.Errorf("ports %v may still count as dead; ovs-appctl bfd/set-forwarding normal makes them alive: %w",
			left, err)
	}
	return nil
}

// say reports to the switch that a link is dead, or that it has to use its own BFD.
func (a *attendant) say(l *link, dead bool) error {
	word := "normal"
	if dead {
		word = "false"
	}
	_, err := a.ctl.Call("bfd/set-forwarding", l.name, word)
	if errors.Is(err, appctl.ErrRefused) { // the interface has no BFD any more; the next refresh will notice
		a.log.Debug("the switch was not told of a link", "interface", l.name, "error", err)
		return nil
	}
	if err == nil {
		l.told = dead
	}
	return err
}
