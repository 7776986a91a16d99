package firewall

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Bounds of a list, whose entries are those for all switches together. One that exceeds them is refused.
const MaxRules, MaxEntries = 1024, 4096

// List is an access list: the first rule that matches a frame decides, and Default decides for the rest.
type List struct {
	Default string `json:"default"` // allow or deny
	Rules   []Rule `json:"rules,omitempty"`
}

// Rule decides about the frames of a class that enter a switch by a port.
type Rule struct {
	Action string `json:"action"` // allow or deny
	packet.Class
	Switch string   `json:"switch,omitempty"` // "": any
	Port   app.Port `json:"port,omitempty"`   // of Switch; 0: any
}

// parse reads a list, and compiles it to find out whether it is one.
func (c Config) parse(r app.Request) (l List, err error) {
	if err := app.ReadJSON(r, &l); err != nil {
		return l, err
	}
	if len(l.Rules) > MaxRules {
		return l, fmt.Errorf("%d rules: at most %d are possible", len(l.Rules), MaxRules)
	}
	_, err = l.compile(c, nil)
	return l, err
}

// compile returns the entries of a list at a switch; nil: at all of them together. Entries of earlier rules have higher
// priorities.
func (l *List) compile(c Config, at *app.Switch) (list []of13.FlowMod, err error) {
	if c.Detours {
		for m := range protect.Hidden() {
			list = append(list, of13.FlowMod{Priority: MaxRules + 1, Match: m})
		}
	}
	for i, r := range append(l.Rules[:len(l.Rules):len(l.Rules)], Rule{Action: l.Default}) {
		matches, err := r.matches(at)
		if c.Detours && r.VLAN != nil {
			err = fmt.Errorf("vlan %d: recovery sends frames on detours with a tag of its own, beneath which "+
				"switches see no other: use no vlan, or remove recovery from the apps", *r.VLAN)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d (the one after the last is the default): %w", i+1, err)
		}
		if len(list)+len(matches) > MaxEntries {
			return nil, fmt.Errorf("rule %d: the list needs more than %d flow entries: use fewer ranges of ports, "+
				"or ones that begin and end at multiples of powers of two", i+1, MaxEntries)
		}
		e := of13.FlowMod{Priority: uint16(len(l.Rules) - i)}
		if r.Action == "allow" {
			e.Instructions = e.Instructions.Goto(Next)
		}
		for _, e.Match = range matches {
			list = append(list, e)
		}
	}
	return list, nil
}

// matches returns what a rule matches at a switch; nil: at any switch.
func (r *Rule) matches(at *app.Switch) (list []of13.Match, err error) {
	var m of13.Match
	switch {
	case r.Action != "allow" && r.Action != "deny":
		return nil, fmt.Errorf("action %q: use allow or deny", r.Action)
	case r.Switch == "" && r.Port > 0 || r.Port > of13.PortMax:
		return nil, fmt.Errorf("port %d: name its switch too, and use a number up to %d", r.Port, of13.PortMax)
	case r.Port > 0:
		m = m.WithInPort(r.Port)
	}
	if r.Switch != "" {
		if id, err := openflow.ParseDatapathID(r.Switch); err != nil || at != nil && *at != id {
			return nil, err
		}
	}
	return r.Matches(m)
}
