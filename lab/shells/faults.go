package shells

import (
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
)

// inflict lets a fault happen.
func (x *schedule) inflict(f Fault) {
	s := x.s
	s.note("-", "%v", f)
	c := s.controllers[f.A%len(s.controllers)]
	switch f.Kind {
	case KillLeader, VanishLeader, PauseLeader:
		if c = s.leader(f.A % len(s.groups)); c == nil {
			return
		}
	}
	switch f.Kind {
	case KillController, KillLeader, VanishLeader:
		c.kill(f.Kind == VanishLeader)
		x.lasting(f.For, func() { x.start(c) })
	case StopController:
		c.stop()
		x.lasting(f.For, func() { x.start(c) })
	case PauseLeader:
		x.lasting(f.For, s.net.pause(c.at))
	case SlowDisk:
		c.disk.set(func(d *disk) { d.latency += 100 * time.Millisecond })
		x.lasting(f.For, func() { c.disk.set(func(d *disk) { d.latency -= 100 * time.Millisecond }) })
	case FullDisk:
		c.disk.set(func(d *disk) { d.full = true })
		x.lasting(f.For, func() {
			c.disk.set(func(d *disk) { d.full = false })
			x.start(c)
		})
	case Partition, OneWay, Delay, Reset, Isolate:
		x.disturb(f, c)
	default:
		x.edge(f)
	}
}

// leader is the controller that leads a group in the newest term, as it knows.
func (s *simulation) leader(group int) *controllerNode {
	var all []controller.Status
	for _, n := range s.controllers {
		if !n.running() {
			continue
		}
		if st, err := n.life.c.Status(s.ctx); err == nil {
			all = append(all, st)
		}
	}
	leader := s.leaders(all)[group]
	if leader == nil {
		return nil
	}
	return s.controllers[leader.ID-1]
}

// disturb lets something happen to the network.
func (x *schedule) disturb(f Fault, c *controllerNode) {
	n := x.s.net
	other := x.other(f, c)
	switch f.Kind {
	case Partition:
		x.lasting(f.For, n.block(c.at, other))
		x.lasting(f.For, n.block(other, c.at))
	case OneWay:
		x.lasting(f.For, n.block(c.at, other))
	case Delay:
		x.lasting(f.For, n.slow(c.at, other, time.Duration(1+f.B%50)*time.Millisecond))
	case Reset:
		n.reset(c.at, other)
	case Isolate:
		for _, p := range x.places() {
			if p != c.at {
				x.lasting(f.For, n.block(c.at, p))
				x.lasting(f.For, n.block(p, c.at))
			}
		}
	}
}

// edge lets something happen to a switch or an agent.
func (x *schedule) edge(f Fault) {
	sw := x.s.switches[f.A%len(x.s.switches)]
	if f.Kind <= PauseAgent && sw.agent == nil {
		return
	}
	switch f.Kind {
	case KillAgent, VanishAgent:
		sw.agent.kill(f.Kind == VanishAgent)
		x.lasting(f.For, sw.agent.start)
	case PauseAgent:
		x.lasting(f.For, x.s.net.pause(sw.agent.at))
	case KillSwitch, VanishSwitch:
		sw.kill(f.Kind == VanishSwitch)
		x.lasting(f.For, sw.start)
	case PauseSwitch:
		x.lasting(f.For, x.s.net.pause(sw.at))
	case CutSwitch:
		for _, p := range x.places() {
			x.s.net.reset(sw.at, p)
		}
	case SilenceSwitch:
		to := x.s.controllers[f.B%len(x.s.controllers)].at
		if sw.agent != nil {
			to = sw.agent.at
		}
		x.lasting(f.For, x.s.net.block(sw.at, to))
		x.lasting(f.For, x.s.net.block(to, sw.at))
	}
}

// places lists all.
func (x *schedule) places() (all []*place) {
	for _, n := range x.s.controllers {
		all = append(all, n.at)
	}
	for _, a := range x.s.agents {
		all = append(all, a.at)
	}
	for _, sw := range x.s.switches {
		all = append(all, sw.at)
	}
	return all
}

// other chooses a place that speaks with a controller: another controller, an agent or a stock switch.
func (x *schedule) other(f Fault, c *controllerNode) *place {
	var all []*place
	for _, n := range x.s.controllers {
		if n != c {
			all = append(all, n.at)
		}
	}
	for _, sw := range x.s.switches {
		if sw.agent != nil {
			all = append(all, sw.agent.at)
		} else {
			all = append(all, sw.at)
		}
	}
	return all[f.B%len(all)]
}
