package config

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// Placement is how the cluster finds better groups for the actors of applications; see package optimizer.
type Placement struct {
	Optimize  bool
	Window    time.Duration // between two looks at what actors exchange
	Windows   uint64        // in a row that must say the same before an actor moves
	Threshold uint64        // messages per second between groups that a move must save
	Cooldown  time.Duration // for which an actor stays after a move
	Load      uint64        // messages per second that a group may handle after an actor has moved there
}

func defaultPlacement() Placement {
	return Placement{Window: 10 * time.Second, Windows: 3, Threshold: 10, Cooldown: time.Minute, Load: 50_000}
}

func (p *parser) placement(n *yaml.Node) error {
	p.placementNode = n
	s := &p.cluster.Placement
	return p.mapping(n, "placement", []field{
		{"optimize", func(n *yaml.Node) error { return p.flag(n, "optimize", &s.Optimize) }},
		{"window_ms", func(n *yaml.Node) error { return p.millis(n, "window_ms", 100, 3_600_000, &s.Window) }},
		{"windows", func(n *yaml.Node) error { return p.number(n, "windows", 1, 1000, &s.Windows) }},
		{"threshold", func(n *yaml.Node) error { return p.number(n, "threshold", 1, 1<<32, &s.Threshold) }},
		{"cooldown_ms", func(n *yaml.Node) error {
			return p.millis(n, "cooldown_ms", 0, 24*3_600_000, &s.Cooldown)
		}},
		{"load", func(n *yaml.Node) error { return p.number(n, "load", 1, 1<<32, &s.Load) }},
	})
}

// checkPlacement is called when the whole file was read.
func (p *parser) checkPlacement() error {
	s := &p.cluster
	switch {
	case !s.Placement.Optimize:
		return nil
	case !s.PerController:
		return p.mistake(p.placementNode, "the placement is to be optimized, and there is one group",
			"write groups: per-controller, or remove this section")
	}
	return nil
}
