package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// simulation is the simulated network of one run.
type simulation struct {
	scenario    Scenario
	w           *world
	net         *network
	h           *history.History
	groups      []*group
	directory   committed
	controllers []*controllerNode
	agents      []*agentNode
	edges       []*process // who is connected to the controllers: agents, and stock switches
	switches    []*switchNode
	cables      []*cable
	hosts       []*host
	traffic     bool
	requests    []*request        // by number, from 1
	replies     map[uint64]uint64 // requests that were answered, by key
	store       *storeClients
	looks       uint64
	news        uint64          // what wires has told, also what was not committed
	trials      []trial         // of the application that the scenario names, if any
	poisons     map[uint64]bool // numbers of the inputs that hosts have died of
	damages     damages
}

func newSimulation(sc Scenario) *simulation {
	s := &simulation{scenario: sc, w: newWorld(sc.Seed), traffic: true, replies: map[uint64]uint64{},
		poisons: map[uint64]bool{}, damages: damages{map[string]int{}, map[string]int{}}}
	s.net = newNetwork(s.w)
	s.h = history.New(s.w.fail)
	if i := sc.tried(); i >= 0 {
		s.trials = []trial{suite[i].trial(s)}
	}
	s.addGroups()
	var addresses []string
	for id := uint64(1); id <= uint64(sc.Controllers); id++ {
		n := s.newController(id)
		s.controllers = append(s.controllers, n)
		addresses = append(addresses, n.switchAddress())
	}
	for _, n := range s.controllers {
		var first []storage.Batch
		for _, r := range n.replicas {
			first = append(first, consensus.Bootstrap(uint64(r.g.number), r.g.members))
		}
		n.disk.format(first)
		n.disk.lie(sc.LyingDisks)
	}
	for id, served := 1, 0; id <= sc.Switches; id++ {
		if sc.Peer(id) != southbound.Agent {
			s.edges = append(s.edges, s.addSwitch(id, nil, s.scenario.Known(len(s.edges), addresses)).p)
			continue
		}
		if served%sc.PerAgent == 0 {
			name := fmt.Sprintf("a%d", len(s.agents)+1)
			a := &agentNode{s: s, p: s.w.newProcess(name), address: name,
				controllers: s.scenario.Known(len(s.edges), addresses)}
			s.agents, s.edges = append(s.agents, a), append(s.edges, a.p)
		}
		served++
		a := s.agents[len(s.agents)-1]
		s.addSwitch(id, a, []string{a.address})
	}
	if sc.wired() {
		s.closeRing()
	}
	return s
}

// instead returns the address that a switch or agent uses instead of one that it knows. It is another one only if the
// controller there has lost its log for ever: then somebody has given the switch another address. known are all that
// the switch knows.
func (s *simulation) instead(address string, known []string) string {
	i := slices.IndexFunc(s.controllers, func(n *controllerNode) bool { return n.switchAddress() == address })
	if !s.controllers[i].lost || len(known) == len(s.controllers) {
		return address
	}
	for _, n := range s.controllers {
		if !n.lost && !slices.Contains(known, n.switchAddress()) {
			return n.switchAddress()
		}
	}
	return address
}

// addSwitch makes a switch with a host, joined to an earlier one: the network is a tree.
func (s *simulation) addSwitch(id int, agent *agentNode, dials []string) *switchNode {
	n := &switchNode{s: s, p: s.w.newProcess("s" + strconv.Itoa(id)), id: openflow.DatapathID(id), agent: agent,
		legacy: s.scenario.Peer(id) == southbound.Legacy, ports: 1 + s.scenario.Switches,
		cables: make([]*cable, 1+s.scenario.Switches)}
	for _, address := range dials {
		n.uplinks = append(n.uplinks, &uplink{n: n, address: address})
	}
	s.join(cableEnd{}, cableEnd{n, census.HostPort})
	if id > 1 {
		up := s.switches[s.w.rand.IntN(len(s.switches))]
		s.join(cableEnd{up, of13.Port(id)}, cableEnd{n, 2})
	}
	s.switches = append(s.switches, n)
	s.hosts = append(s.hosts, &host{s: s, sw: n})
	return n
}

// closeRing joins the first and the last switch, so that there is another way around some cables.
func (s *simulation) closeRing() {
	first, last := s.switches[0], s.switches[len(s.switches)-1]
	if port := of13.Port(last.id); first.cables[port-1] == nil {
		s.join(cableEnd{first, port}, cableEnd{last, 3})
	}
}

func (s *simulation) join(a, b cableEnd) {
	w := &cable{s: s, ends: [2]cableEnd{a, b}, up: true, loss: s.scenario.FrameLoss}
	for _, e := range w.ends {
		if e.sw != nil {
			e.sw.cables[e.port-1] = w
		}
	}
	s.cables = append(s.cables, w)
}

// start starts everything, in any order.
func (s *simulation) start() {
	for _, start := range s.starts() {
		s.w.after(s.w.upTo(100*time.Millisecond), nil, start)
	}
	for _, h := range s.hosts {
		h.start()
	}
	s.again(s.scenario.MoveEvery, func() { s.moveOne(s.anActor()) })
	s.again(s.scenario.MoveSwitchEvery, func() { s.moveOne(s.aSwitch()) })
	s.again(s.scenario.CallEvery, s.requestOne)
	s.again(s.scenario.ForgetEvery, s.forgetOne)
	s.useStore()
	for _, t := range s.trials {
		t.start()
	}
	for _, f := range s.scenario.Faults {
		s.w.after(f.At, nil, func() { s.inflict(f) })
	}
}

// again does something until the traffic ends, about as often as every says; 0: never.
func (s *simulation) again(every time.Duration, do func()) {
	if every == 0 {
		return
	}
	s.w.after(s.w.upTo(2*every), nil, func() {
		if s.traffic {
			do()
			s.again(every, do)
		}
	})
}

// starts has what starts each process, which does nothing if it is up.
func (s *simulation) starts() (starts []func()) {
	for _, n := range s.controllers {
		starts = append(starts, n.start)
	}
	for _, n := range s.agents {
		starts = append(starts, n.start)
	}
	for _, n := range s.switches {
		starts = append(starts, n.start)
	}
	return starts
}

// heal ends all faults, and brings back who may come back.
func (s *simulation) heal() {
	s.w.note(nil, "all faults end")
	s.net.heal()
	for _, n := range s.controllers {
		n.disk.heal()
	}
	for _, p := range s.processes() {
		p.resume()
	}
	for _, start := range s.starts() {
		start()
	}
}

func (s *simulation) close() {
	for _, n := range s.controllers {
		n.disk.close()
	}
}

// processes lists them all.
func (s *simulation) processes() (all []*process) {
	for _, n := range s.controllers {
		all = append(all, n.p)
	}
	for _, n := range s.agents {
		all = append(all, n.p)
	}
	for _, n := range s.switches {
		all = append(all, n.p)
	}
	return all
}

// opened notes an epoch that an agent has opened for the switch at the other end of c.
func (s *simulation) opened(id openflow.DatapathID, epoch uint64, c *conn) {
	s.w.note(nil, "switch %s: epoch %d", id, epoch)
	s.h.Opened(id, epoch)
	for _, n := range s.switches {
		if n.uplinks[0].c == c.peer {
			n.epoch = epoch
		}
	}
}
