package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Recovery is how the application recovery protects the network.
type Recovery struct {
	NodeDisjoint          bool          // backups avoid the next switch too, and not only the link to it
	HoldDown              time.Duration // that a link has to be up before it is used again
	Reconcile             time.Duration // in which what each switch holds is compared with what it should hold
	RemoveForeign         bool          // flow entries and groups of nobody's at this cluster
	MaxEntries, MaxGroups uint64        // of one switch
}

// minHoldDownMillis is longer than BFD takes to agree on its fast intervals: before that, a link that fails again is
// noticed late.
const minHoldDownMillis = 3000

func defaultRecovery() Recovery {
	return Recovery{HoldDown: 5 * time.Second, Reconcile: time.Minute, MaxEntries: 1 << 16, MaxGroups: 1 << 12}
}

func (p *parser) recovery(n *yaml.Node) error {
	r := &p.cluster.Recovery
	return p.mapping(n, "recovery", []field{
		{"disjoint", func(n *yaml.Node) error { return p.choice(n, "disjoint", "link", "node", &r.NodeDisjoint) }},
		{"hold_down_ms", func(n *yaml.Node) error {
			return p.millis(n, "hold_down_ms", minHoldDownMillis, 3_600_000, &r.HoldDown)
		}},
		{"reconcile_ms", func(n *yaml.Node) error {
			return p.millis(n, "reconcile_ms", 100, 86_400_000,
				&r.Reconcile)
		}},
		{"foreign", func(n *yaml.Node) error { return p.choice(n, "foreign", "keep", "remove", &r.RemoveForeign) }},
		{"max_entries", func(n *yaml.Node) error { return p.number(n, "max_entries", 16, 1<<24, &r.MaxEntries) }},
		{"max_groups", func(n *yaml.Node) error { return p.number(n, "max_groups", 1, 1<<24, &r.MaxGroups) }},
	})
}

// choice reads one of two words.
func (p *parser) choice(n *yaml.Node, key, no, yes string, to *bool) error {
	var s string
	err := p.oneOf(n, key, []string{no, yes}, &s)
	*to = s == yes
	return err
}

// oneOf reads one of a few words.
func (p *parser) oneOf(n *yaml.Node, what string, known []string, to *string) error {
	if err := p.text(n, what, to); err != nil {
		return err
	}
	if !slices.Contains(known, *to) {
		return p.unknown(n, what, *to, known)
	}
	return nil
}

// recoveryApp is the application that Recovery is for.
const recoveryApp = "recovery"

// exactlyOnce are the applications whose messages may have no weaker level. What topology and liveness find they tell
// recovery, which sends flow entries at the level of the message that it comes from: below exactly once they are lost,
// or sent again, when the leader changes, and nobody waits for their barrier.
var exactlyOnce = []string{"topology", "liveness", recoveryApp}

// checkLevels looks at `levels` of an application, which stand in n.
func (p *parser) checkLevels(app string, levels map[string]string, n *yaml.Node) error {
	if !slices.Contains(exactlyOnce, app) {
		return nil
	}
	for _, message := range slices.Sorted(maps.Keys(levels)) {
		if levels[message] == "exactly_once" {
			continue
		}
		at := n // or more exactly, unless it comes by a merge key
		if i := slices.IndexFunc(n.Content, func(n *yaml.Node) bool { return n.Value == message }); i >= 0 {
			at = n.Content[i]
		}
		return p.mistake(at, fmt.Sprintf("level %s for %s of %s, by which flow entries would be lost or repeated",
			levels[message], message, app),
			"remove it: what protects the network is exactly once")
	}
	return nil
}
