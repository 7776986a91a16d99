package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// engineering is the name of the traffic engineering application of Placement.
const engineering = "engineering"

// trafficSpike says that a flow of a switch has become an elephant.
type trafficSpike struct {
	Switch uint64
	Flow   uint32
}

// newEngineering returns the application. Collect has an actor for each switch, which may live anywhere: it takes the
// statistics of a switch, which come as a packet-in, and asks for the next ones. Route is one actor, which learns of
// each spike, and directs its flow.
func newEngineering() *app.App {
	a := app.New(engineering)
	stats := app.NewTable[uint64, uint64](a, "stats", app.Sharded)
	matrix := app.NewTable[uint64, uint64](a, "matrix")
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(stats.Cell(uint64(in.Switch))) },
		func(tx *app.Tx, in app.PacketIn) error {
			n, _ := stats.Get(tx, uint64(in.Switch))
			stats.Put(tx, uint64(in.Switch), n+1)
			tx.PacketOut(in.Switch, of13.PacketOut{BufferID: of13.NoBuffer, InPort: in.InPort})
			for _, flow := range in.Data {
				if err := app.Emit(tx, trafficSpike{uint64(in.Switch), uint32(flow)}); err != nil {
					return err
				}
			}
			return nil
		})
	app.HandleEmitted(a, func(s trafficSpike) app.Cells { return app.Need(matrix.Cell(s.Switch)) },
		func(tx *app.Tx, s trafficSpike) error {
			n, _ := matrix.Get(tx, s.Switch)
			matrix.Put(tx, s.Switch, n+1)
			tx.FlowMod(app.Switch(s.Switch), of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer})
			return nil
		})
	return a
}

// groupsOfLeaders is a simulated cluster: the leader of each group, and that of the system group.
type groupsOfLeaders struct {
	leaders  []*ledger.Core // of groups 1, 2, …
	system   *ledger.Core
	view     directory.View
	switches []uint64 // events that each has sent
	flows    int
	reports  int  // so far, of each switch
	all      int  // that there will be
	ideal    bool // each actor begins in the group of its switch
	now      int64
	rates    controller.Rates
	frames   []sentFrame
}

type sentFrame struct {
	to    uint64
	bytes []byte
}

func statsOf(id openflow.DatapathID) ledger.Actor {
	return ledger.Actor{App: engineering, Shard: ledger.Shard{Key: ledger.Key{A: uint64(id)}}}
}

func (n *groupsOfLeaders) groupOf(id openflow.DatapathID) uint64 {
	return uint64(id-1)%uint64(len(n.leaders)) + 1
}

func newGroupsOfLeaders(p Placement, ideal bool) (n *groupsOfLeaders, err error) {
	n = &groupsOfLeaders{switches: make([]uint64, p.Switches), all: p.Windows * periods, flows: p.Flows,
		ideal: ideal, now: 1_000_000_000}
	if n.system, err = ledger.New([]ledger.Application{new(directory.Application)}, ledger.Limits{}); err != nil {
		return nil, err
	}
	lives := func(a ledger.Actor) (ledger.Assignment, bool) { return controller.Lives(a, p.Controllers, n.view.Of) }
	for g := range p.Controllers {
		c, err := ledger.New([]ledger.Application{newEngineering()}, ledger.Limits{})
		if err != nil {
			return nil, err
		}
		c.Join(uint64(g)+1, lives)
		c.Instrument(func() time.Duration { return 0 })
		if err := c.Lead(1, n.now); err != nil {
			return nil, err
		}
		n.leaders = append(n.leaders, c)
	}
	if err := n.system.Lead(1, n.now); err != nil {
		return nil, err
	}
	place := directory.Place{}
	for id := range p.Controllers {
		place.Controllers = append(place.Controllers, uint64(id)+1)
	}
	n.ask(place.Append(nil))
	for i := range n.switches {
		id := openflow.DatapathID(i + 1)
		n.ask(directory.Assign{Actors: []ledger.Actor{{Shard: ledger.AtSwitch(id)}},
			Groups: []uint64{n.groupOf(id)}}.Append(nil))
	}
	if err := n.commitSystem(); err != nil {
		return nil, err
	}
	for i := range n.switches {
		features := of13.FeaturesReply{DatapathID: openflow.DatapathID(i + 1)}
		up := experimenter.SwitchUp{Features: features.Append(nil, 0)}
		if err := n.event(i, up.Append(nil, openflow.Version13)); err != nil {
			return nil, err
		}
	}
	return n, n.settle()
}

// ask makes a request of the directory.
func (n *groupsOfLeaders) ask(request []byte) { n.system.Request(directory.Name, request) }

// event has a switch send an event.
func (n *groupsOfLeaders) event(i int, msg []byte) error {
	id := openflow.DatapathID(i + 1)
	n.switches[i]++
	return n.leaders[n.groupOf(id)-1].Event(id, 1, n.switches[i], msg)
}

// report has each switch report its statistics, with the flows that have become elephants, and waits until everything
// is handled.
func (n *groupsOfLeaders) report() error {
	for i := range n.switches {
		in := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1)}
		for flow := range n.flows / 10 {
			if (i*7919+flow*104729)%n.all == n.reports {
				in.Data = append(in.Data, byte(flow))
			}
		}
		if err := n.event(i, in.Append(nil, 0)); err != nil {
			return err
		}
	}
	n.reports++
	n.now += int64(placementWindow) / periods
	return n.settle()
}

// move moves an actor, while it has nothing to do.
func (n *groupsOfLeaders) move(a ledger.Actor, to uint64) error {
	at, _ := n.view.Of(a)
	if at.Group == 0 {
		at.Group = controller.HomeOf(a.App, len(n.leaders))
	}
	if err := n.leaders[at.Group-1].Move(a, to); err != nil {
		return err
	}
	return n.settle()
}

// settle commits and delivers until nothing is left.
func (n *groupsOfLeaders) settle() error {
	for range 1000 {
		quiet := true
		for _, c := range n.leaders {
			c.Tick(n.now)
			c.Moves()
			done, err := n.commit(c)
			if err != nil {
				return err
			}
			quiet = quiet && done
		}
		if err := n.commitSystem(); err != nil {
			return err
		}
		frames := n.frames
		n.frames = nil
		for _, f := range frames {
			if err := n.deliver(f); err != nil {
				return err
			}
		}
		if quiet && len(frames) == 0 {
			return nil
		}
	}
	return errors.New("the simulated cluster does not come to rest")
}

// commit commits what a leader has executed, and releases what follows. It reports whether there was nothing.
func (n *groupsOfLeaders) commit(c *ledger.Core) (quiet bool, err error) {
	for _, f := range c.Failures() {
		return false, fmt.Errorf("application %s failed on %s: %w", f.App, f.Input.String(), f.Err)
	}
	entry, some := c.Cut()
	if some {
		err = c.Commit(entry)
	}
	for _, r := range c.Releases() {
		if r.Count > 0 {
			err = errors.Join(err, c.Done(r.Switch, r.Epoch, r.First+uint64(r.Count)-1))
		}
	}
	for _, a := range c.Unassigned() {
		group := uint64(1)
		if n.ideal {
			group = n.groupOf(openflow.DatapathID(a.Key.A))
		}
		n.ask(directory.Assign{Actors: []ledger.Actor{a}, Groups: []uint64{group}}.Append(nil))
	}
	for _, a := range c.Unpublished() {
		at, _ := c.Assignment(a)
		n.ask(directory.Moved{Actor: a, Assignment: at}.Append(nil))
	}
	c.Frames(func(group uint64, frame []byte) { n.frames = append(n.frames, sentFrame{group, frame}) })
	return !some, err
}

// commitSystem commits what the directory was asked for.
func (n *groupsOfLeaders) commitSystem() error {
	for {
		entry, some := n.system.Cut()
		if !some {
			return nil
		}
		changed, _, err := n.view.Commit(entry)
		if err := errors.Join(err, n.system.Commit(entry)); err != nil {
			return err
		}
		for _, a := range changed {
			for _, c := range n.leaders {
				c.Relocated(a)
			}
		}
	}
}

// deliver has a leader execute a frame.
func (n *groupsOfLeaders) deliver(sent sentFrame) error {
	c, f := n.leaders[sent.to-1], ledger.NewFrame(sent.bytes)
	if err := c.Acknowledge(f); err != nil {
		return err
	}
	for {
		finished, err := c.Execute(f)
		if err != nil || finished {
			return err
		}
		if _, err := n.commit(c); err != nil { // makes room
			return err
		}
	}
}
