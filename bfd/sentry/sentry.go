package sentry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/incident"
)

const (
	// refreshEvery is how often a switch is asked which of its interfaces have BFD, and how long it takes until one that has restarted is found.
	refreshEvery = time.Second
	// MaxLinks bounds the links of one switch.
	MaxLinks = 1024
)

// Config says what to watch.
type Config struct {
	Switches   []string      // control sockets of ovs-vswitchd or its pid files (see appctl.Dial); their switches may be in other network namespaces
	Interval   time.Duration // between two packets: 1 ms or more
	Multiplier uint8         // packets in a row that are missing when a link is dead
	Log        *slog.Logger
	Report     func(Event) // is called for each event, in order, by one goroutine; what it delays is events alone
}

// Event is that a link has entered a state.
type Event struct {
	At        time.Time `json:"at"`
	Switch    string    `json:"switch"` // as in Config
	Interface string    `json:"interface"`
	State     State     `json:"state"`
}

// Run watches until ctx ends. A switch that does not run, or an interface that cannot be opened, is tried again every second and logged.
func Run(ctx context.Context, c Config) error {
	switch {
	case len(c.Switches) == 0:
		return errors.New("sentry: no switch to watch for")
	case c.Interval < time.Millisecond || c.Interval > time.Second:
		return fmt.Errorf("sentry: interval %v: use 1 ms to 1 s", c.Interval)
	case c.Multiplier == 0:
		return errors.New("sentry: multiplier 0: use 1 to 255, as a rule 3")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWatch(c.Interval, c.Multiplier)
	var running sync.WaitGroup
	defer running.Wait()
	for _, path := range c.Switches {
		a := &attendant{path: path, watch: w, log: c.Log.With("switch", path), incidents: incident.New(c.Log), changed: make(chan struct{}, 1)}
		running.Go(func() { a.run(ctx) })
	}
	running.Go(func() {
		for e := range w.events {
			c.Report(e)
		}
	})
	ended := make(chan error)
	go func() { ended <- w.run(ctx, len(c.Switches) > 1) }()
	err := <-ended
	cancel()
	return err
}

// attendant knows one switch: what to watch for it, and what to tell it.
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
			a.incidents.Warn(a.path, "the switch cannot be told of dead links; it is tried again", "switch", a.path, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(refreshEvery):
		}
	}
}

// serve attends to the switch while it lives.
func (a *attendant) serve(ctx context.Context) (err error) {
	if a.ctl, err = appctl.Dial(a.path); err != nil {
		return err
	}
	defer a.ctl.Close()
	if a.pid, err = a.ctl.PID(); err != nil {
		return err
	}
	died, err := watchProcess(a.pid)
	if err != nil {
		return err
	}
	defer died.close()
	a.links = map[string]*link{}
	defer func() {
		for _, l := range a.links { // of a switch that has died, peers shall think what they would of a dead link
			a.drop(l, ctx.Err() != nil)
		}
	}()
	refresh := time.NewTicker(refreshEvery)
	defer refresh.Stop()
	for err = a.refresh(); err == nil; {
		select {
		case <-ctx.Done():
			return a.release()
		case <-died.over:
			return fmt.Errorf("process %d, the switch, has ended", a.pid)
		case <-a.changed:
			err = a.tell()
		case <-refresh.C:
			err = a.refresh()
		}
	}
	return err
}

// refresh watches what the switch watches by BFD, and nothing else.
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
			a.incidents.Warn(a.path+" "+name, "a link is watched by the switch alone", "switch", a.path, "interface", name, "error", err)
		}
	}
	return a.tell()
}

func (a *attendant) begin(name string) error {
	if len(a.links) >= MaxLinks {
		return fmt.Errorf("a sentry watches %d links of a switch at most", MaxLinks)
	}
	s, err := openSocket(a.pid, name)
	if err != nil {
		return err
	}
	l := &link{sw: a.path, name: name, socket: s, changed: a.changed, told: true} // as far as we know: by a sentry before us
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

// tell has the switch know what has changed.
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

// release leaves all links to the switch.
func (a *attendant) release() error {
	for _, l := range a.links {
		if l.told {
			if err := a.say(l, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// say tells the switch that a link is dead, or that it is to go by its own BFD.
func (a *attendant) say(l *link, dead bool) error {
	word := "normal"
	if dead {
		word = "false"
	}
	l.told = dead
	_, err := a.ctl.Call("bfd/set-forwarding", l.name, word)
	if errors.Is(err, appctl.ErrRefused) { // the interface has no BFD any more, as the next refresh will find
		a.log.Debug("the switch was not told of a link", "interface", l.name, "error", err)
		return nil
	}
	return err
}
