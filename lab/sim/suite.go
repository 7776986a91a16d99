package sim

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// trial is an application of the network suite in a run: its clients, and what it promises them.
type trial interface {
	// applications makes those that a replica runs for it.
	applications() []*app.App
	// start lets clients use it until the traffic ends. Then they bring it to its final state.
	start()
	// actor draws one that can move.
	actor() ledger.Actor
	// look checks what switches forward, after each message that one of them has executed.
	look(at *switchNode, msg []byte)
	// unsettled says what is still to be done after the traffic; "" is nothing.
	unsettled() string
}

// tried is an application that a scenario may name.
type tried struct {
	name    string
	wired   bool // it decides what switches forward, so there is no other that does
	follows bool // its entries cannot be executed again: it draws random numbers, or keeps who has called
	agents  bool // it sends SET_ASYNC, which switches without an agent do not get, and the checkers expect that they do
	trial   func(*simulation) trial
}

// suite has them in the order in which seeds draw them.
var suite = []tried{
	{name: "queue", follows: true, trial: newQueueTrial},
	{name: "tenants", wired: true, trial: newTenantsTrial},
	{name: "path", wired: true, follows: true, trial: newPathTrial},
	{name: "firewall", wired: true, trial: newFirewallTrial},
	{name: "router", wired: true, follows: true, agents: true, trial: newRouterTrial},
	{name: "monitor", follows: true, trial: newMonitorTrial},
	{name: "kandoo", wired: true, follows: true, trial: newKandooTrial},
}

// tried is which of the suite a scenario names; negative if none.
func (s *Scenario) tried() int {
	return slices.IndexFunc(suite, func(a tried) bool { return a.name == s.Suite })
}

// wired reports whether an application of the suite decides what switches forward.
func (s *Scenario) wired() bool { return s.tried() >= 0 && suite[s.tried()].wired }

// follows reports whether the checkers only apply the entries of home groups.
func (s *Scenario) follows() bool { return s.tried() >= 0 && suite[s.tried()].follows }

// trialPause is how long clients of a trial pause between two requests, on average.
const trialPause = 100 * time.Millisecond

// pause has a client of a trial go on later.
func (s *simulation) pause(f func()) { s.w.after(s.w.upTo(2*trialPause), nil, f) }

// insistAfter is how long a client that insists waits for an answer until it sends the request to another controller,
// too.
const insistAfter = 500 * time.Millisecond

// insist has any controller execute a call, and another one too each time the answer is late, until there is one. So
// the call may be executed several times, also after it was answered.
func (s *simulation) insist(q ledger.Call, take func(reply []byte)) {
	answered := false
	var send func()
	send = func() {
		if answered {
			return
		}
		if n := s.controllers[s.w.rand.IntN(len(s.controllers))]; n.p.up {
			n.call(q, func(reply []byte, err error) {
				if err == nil && !answered {
					answered = true
					take(reply)
				}
			})
		}
		s.w.after(insistAfter, nil, send)
	}
	send()
}

// look has what is tried look at the switches, after a message to one of them that may have changed its entries.
func (s *simulation) look(at *switchNode, msg []byte) {
	unchanged := msg[1] == of13.TypePacketOut || msg[1] == of13.TypeEchoReply || msg[1] == of13.TypeEchoRequest
	if unchanged || !s.scenario.wired() {
		return
	}
	for _, t := range s.trials {
		t.look(at, msg)
		s.looks++
	}
}

// hearing is a trial whose hosts look at what they get.
type hearing interface {
	hear(at *switchNode, frame []byte)
}

// leaves hands the host of a switch a frame.
func (s *simulation) leaves(at *switchNode, frame []byte) {
	for _, t := range s.trials {
		if h, is := t.(hearing); is {
			h.hear(at, frame)
		}
	}
}

// suiteNames lists the applications that can be tried.
func suiteNames() (list []string) {
	for _, t := range suite {
		list = append(list, t.name)
	}
	return list
}

// web is a client of an application over HTTP, which insists on each of its requests. It runs beside the controllers,
// and never fails.
type web struct {
	s  *simulation
	of *app.App
}

// callee returns the actor that executes a request.
func (c web) callee(route string, q app.Request) ledger.Actor {
	shard, err := c.of.Callee(route, httpcall.Encode(q))
	if err != nil {
		c.s.w.fail("%s: %v", route, err)
	}
	return ledger.Actor{App: c.of.Name(), Shard: shard}
}

// ask makes a request. take is called with its answer.
func (c web) ask(route string, q app.Request, take func(app.Response)) {
	call := ledger.Call{Actor: c.callee(route, q), Name: route, Message: httpcall.Encode(q)}
	c.s.insist(call, func(reply []byte) {
		switch r, err := httpcall.Decode[app.Response](reply); {
		case err != nil:
			c.s.w.fail("%s: %v", route, err)
		case r.Status >= 500:
			c.s.w.fail("%s is answered with status %d: %s", route, r.Status, r.Body)
		default:
			take(r)
		}
	})
}

// wires makes an application that tells of links as topology does, by the state of ports alone, and that has switches
// send the frames of hosts to census. So a run with it depends on its seed only: topology has random keys and times.
func (s *simulation) wires() *app.App {
	a := app.New("wires")
	tell := func(tx *app.Tx, at app.PortOf, up bool) error {
		s.news++
		to, known := s.switches[at.Switch-1].beyond(at.Port)
		link := topology.Link{From: at, To: to}
		switch {
		case !known:
			return nil
		case up:
			return app.Emit(tx, topology.LinkUp{Link: link, Bidirectional: true})
		}
		return app.Emit(tx, topology.LinkDown{Links: []topology.Link{link}})
	}
	toController := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
	app.Handle(a, nil, func(tx *app.Tx, m app.SwitchUp) error {
		tx.FlowMod(m.Switch, of13.FlowMod{Priority: 1<<16 - 1, BufferID: of13.NoBuffer,
			Match:        of13.Match(nil).WithEthType(census.EtherType),
			Instructions: of13.Instructions(nil).Apply(toController)})
		for p := range m.Ports.All() {
			if err := tell(tx, app.PortOf{Switch: m.Switch, Port: p.Port}, p.Up()); err != nil {
				return err
			}
		}
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, m app.PortStatus) error {
		return tell(tx, app.PortOf{Switch: m.Switch, Port: m.Port.Port}, m.Port.Up())
	})
	return a
}
