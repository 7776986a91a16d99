// Package advice concludes from the counts of actors what keeps applications from using more controllers, and what
// their authors or operators could change (Beehive, sections 3.4 and 5: feedback to programmers). It is pure: counts
// and what handlers need go in, sentences come out. It neither counts nor moves anything; see packages tally and
// controller/optimizer.
package advice

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Input is what is known of a cluster.
type Input struct {
	Handlers  []Handler
	Crossings []Crossing
	Reasons   []Reason
}

// Handler is what an application has done with a type of message.
type Handler struct {
	App, Message string
	Inputs       uint64
	By           string // the one actor that has handled them, if several have sent them; else ""
	Sources      int    // actors that have sent them
}

// Crossing is what has gone from one application to another across the boundary of a group; "" stands for switches.
type Crossing struct {
	From, To, Message string
	Messages, Bytes   uint64
}

// Reason says which cells a handler needs for any message; see ledger.Mapping.
type Reason struct {
	App, Message, Handler string
	Whole, Unmapped       bool
	All, Undivided        []string
}

// Item is one piece of advice.
type Item struct {
	Kind     string  `json:"kind"` // Centralised or Crosses
	App      string  `json:"app"`  // whose author could change it
	Message  string  `json:"message"`
	Messages uint64  `json:"messages"`
	Share    float64 `json:"share"`   // of all inputs of handlers; of all messages between groups
	Finding  string  `json:"finding"` // sentences
	Why      string  `json:"why"`
	Change   string  `json:"change"`
}

// The kinds of items.
const (
	Centralised = "centralised"
	Crosses     = "crosses"
)

const (
	// leastShare is what part of all messages is worth advice: less hardly limits anything.
	leastShare = 0.01
	// maxCrossings is how many types of message between groups are shown.
	maxCrossings = 3
)

// Of returns what limits the applications most first: handlers that are centralised, then messages between groups.
func Of(in Input) []Item {
	inputs, crossed := uint64(0), uint64(0)
	for _, h := range in.Handlers {
		inputs += h.Inputs
	}
	for _, x := range in.Crossings {
		crossed += x.Messages
	}
	central, across := []Item{}, []Item{}
	for _, h := range in.Handlers {
		if share := part(h.Inputs, inputs); h.By != "" && share >= leastShare {
			central = append(central, in.centralised(h, share))
		}
	}
	for _, x := range in.Crossings {
		if share := part(x.Messages, crossed); share >= leastShare {
			across = append(across, in.crosses(x, share))
		}
	}
	most := func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.App, b.App),
			strings.Compare(a.Message, b.Message), strings.Compare(a.Finding, b.Finding))
	}
	slices.SortFunc(central, most)
	slices.SortFunc(across, most)
	return append(central, across[:min(len(across), maxCrossings)]...)
}

func part(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func (in *Input) centralised(h Handler, share float64) Item {
	why, change := in.reason(h)
	return Item{Centralised, h.App, h.Message, h.Inputs, share,
		fmt.Sprintf("One actor (%s) handles all %s, from %d actors: %d messages, %s of all.", h.By,
			path.Base(h.Message), h.Sources, h.Inputs, percent(share)), why, change}
}

// reason says why one actor handles all messages of a handler, and what would change that.
func (in *Input) reason(h Handler) (why, change string) {
	for _, r := range in.Reasons {
		if r.App != h.App || r.Message != h.Message {
			continue
		}
		switch {
		case r.Whole:
			return "The application is one actor, because of app.App.Whole.",
				"Remove Whole, give its handlers map functions, and key their tables by switch, or make them " +
					"app.Sharded."
		case len(r.All) > 0:
			return fmt.Sprintf("%s needs all cells of %s.", sentence(r.Handler), tables(r.All)),
				"Let another handler do what concerns one switch or key, with a table that is keyed by it, and emit " +
					"a message only when this handler has something to decide."
		case len(r.Undivided) > 0:
			return fmt.Sprintf("%s needs cells of %s, and all of these belong to one actor.", sentence(r.Handler),
					tables(r.Undivided)),
				"If it needs the cells of one switch or key for a message, key the table by the switch, or make it " +
					"app.Sharded. If not, do what concerns one switch in another handler, and emit less."
		case r.Unmapped:
			return sentence(r.Handler) + " has no map function. What it uses first belongs to the actor without a key.",
				"Give it a map function, or let it first use a table that is keyed by the switch, or app.Sharded."
		}
	}
	return "It is not known which cells its handler needs.", "See docs/applications.md, map functions."
}

func (in *Input) crosses(x Crossing, share float64) Item {
	item := Item{Crosses, x.To, x.Message, x.Messages, share,
		fmt.Sprintf("%s from %s to %s is %s of what crosses groups: %d messages, %d bytes.", path.Base(x.Message),
			name(x.From), name(x.To), percent(share), x.Messages, x.Bytes),
		"The actors that send and receive it live in different groups.",
		"Let placement move actors to where their messages come from (placement: optimize), or use holdfast move."}
	if x.To == "" {
		item.App = x.From
	}
	for _, h := range in.Handlers {
		if h.By != "" && h.App == item.App && (h.Message == x.Message || x.To == "") {
			item.Why = fmt.Sprintf("One actor of %s handles %s of the whole network.", h.App, path.Base(h.Message))
			item.Change = "Divide that handler: see the advice on what is centralised."
			break
		}
	}
	return item
}

func sentence(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

func tables(names []string) string {
	if len(names) == 1 {
		return "table " + names[0]
	}
	return "tables " + strings.Join(names, ", ")
}

func name(app string) string { return cmp.Or(app, "switches") }

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
