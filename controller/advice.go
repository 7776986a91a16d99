package controller

import (
	"cmp"

	"github.com/holdfast-sdn/holdfast/controller/advice"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Advice is what limits how far the applications of the whole cluster scale, and what would change that, as the
// controller that was asked concludes from what the leaders of all groups have counted.
type Advice struct {
	By          string         `json:"by"`                   // the controller that was asked
	Controllers []Asked        `json:"controllers"`          // that it asked
	Groups      []CountedGroup `json:"groups"`               // those whose leader has answered
	Leaderless  []uint64       `json:"leaderless,omitempty"` // as in Actors
	Inputs      uint64         `json:"inputs"`               // that handlers have handled
	Items       []advice.Item  `json:"advice"`               // what most messages depend on first
}

// joinAdvice concludes from the answers of the controllers.
func joinAdvice(by string, list []answered[Tally], reasons []advice.Reason) Advice {
	actors, matrix := joinActors(by, list), joinMatrix(by, list)
	a := Advice{By: by, Controllers: actors.Controllers, Groups: actors.Groups}
	in := advice.Input{Reasons: reasons}
	for _, h := range actors.Handlers {
		a.Inputs += h.Inputs
		to := advice.Handler{App: h.App, Message: h.Message, Inputs: h.Inputs}
		if h.Centralised {
			to.By, to.Sources = h.By, h.Sources
		}
		in.Handlers = append(in.Handlers, to)
	}
	for _, x := range matrix.Crossings {
		if x.Message != moveName {
			in.Crossings = append(in.Crossings, advice.Crossing(x))
		}
	}
	a.Items = advice.Of(in)
	return a
}

// reasons returns what the applications of this controller say of their handlers.
func (c *Controller) reasons() (list []advice.Reason) {
	known := map[string]bool{}
	for _, g := range c.groups.all() { // not each of them runs all applications
		for _, a := range g.cfg.Applications {
			if e, is := a.(ledger.Explainer); is && !known[a.Name()] {
				known[a.Name()] = true
				list = append(list, reasonsOf(e)...)
			}
		}
	}
	return list
}

func reasonsOf(e ledger.Explainer) (list []advice.Reason) {
	for _, m := range e.Explain() {
		message := cmp.Or(m.Name, kindNames[m.Kind])
		if m.Kind == ledger.Message {
			message = of13.TypeName(m.Type)
		}
		list = append(list, advice.Reason{App: e.Name(), Message: message, Handler: m.Handler, Whole: m.Whole,
			Unmapped: m.Unmapped, All: m.All, Undivided: m.Undivided})
	}
	return list
}
