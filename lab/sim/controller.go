package sim

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/southbound"
)

const (
	// restartAfter is when someone has looked after a controller that gave up.
	restartAfter = 300 * time.Millisecond
	// ownerLag is how long at most an update waits for the loop that owns the ledger.
	ownerLag = 200 * time.Microsecond
)

var quiet = slog.New(slog.DiscardHandler)

// controllerNode is a controller: its replicas, and what they share, which are the log, the clock, the connections to
// the other controllers and the sessions of switches.
type controllerNode struct {
	s        *simulation
	p        *process
	id       uint64
	disk     *disk
	lost     bool       // its log is gone or not to be trusted: it may not come back
	replicas []*replica // in the order of the groups; the first is of the only group, or of the system group

	// As long as the process lives.
	members  map[uint64]*memberLink
	incoming map[uint64]*conn // the newest of each member
	assigned assignments
	calls    *controller.Calls
	sessions []*session
}

// newController makes one that is down, with an empty log.
func (s *simulation) newController(id uint64) *controllerNode {
	n := &controllerNode{s: s, p: s.w.newProcess("c" + strconv.FormatUint(id, 10)), id: id}
	n.disk = newDisk(s.w, n.p, diskOptions{real: s.scenario.RealDisk, fsync: s.scenario.Fsync})
	for _, g := range s.groups {
		if g.at(id, &s.scenario) {
			r := &replica{n: n, g: g}
			n.replicas = append(n.replicas, r)
			g.replicas = append(g.replicas, r)
			g.members[id] = n.peerAddress()
		}
	}
	return n
}

// replica returns the part of the controller in a group; nil if it has none.
func (n *controllerNode) replica(group uint64) *replica {
	for _, r := range n.replicas {
		if uint64(r.g.number) == group {
			return r
		}
	}
	return nil
}

// start is what a process does first: it loads its log.
func (n *controllerNode) start() {
	if n.p.up {
		return
	}
	saved, err := n.disk.load()
	switch {
	case err != nil && n.lost:
		n.s.w.note(n.p, "does not start: %v", err)
		return
	case err != nil || n.lost:
		n.s.w.fail("controller %d: its log is damaged: %t; it loads with error %v", n.id, n.lost, err)
		return
	}
	n.p.start()
	n.sessions, n.members, n.incoming = nil, map[uint64]*memberLink{}, map[uint64]*conn{}
	n.assigned = assignments{n: n}
	n.calls = controller.NewCalls((1 + uint64(n.p.incarnation)) << 32)
	for _, r := range n.replicas {
		if err := r.start(saved[uint64(r.g.number)]); err != nil {
			n.s.w.fail("controller %d does not start: %v", n.id, err)
			return
		}
	}
	for _, other := range n.s.controllers {
		if other.id != n.id {
			n.members[other.id] = &memberLink{n: n, to: other.id, address: other.peerAddress()}
			n.members[other.id].dial()
		}
	}
	n.s.net.listen(n.p, n.peerAddress(), n.welcome)
	n.s.net.listen(n.p, n.switchAddress(), n.acceptSwitch)
	n.schedule()
	n.work()
}

// schedule begins what a controller does again and again.
func (n *controllerNode) schedule() {
	ticked := n.s.w.now
	n.p.every(consensus.DefaultHeartbeat, func() {
		missed := max(0, int((n.s.w.now-ticked)/consensus.DefaultHeartbeat)-1)
		ticked = n.s.w.now
		for _, r := range n.replicas {
			r.raft.Tick(missed)
		}
		n.work()
	})
	n.p.every(controller.TickInterval, func() {
		for _, r := range n.replicas {
			if now := n.p.clock(); !now.Before(r.core.NextTick()) {
				n.check(r.core.Tick(now))
				r.turn()
			}
		}
	})
	n.p.every(southbound.DefaultEchoInterval, n.echo)
	n.p.every(southbound.TickInterval, n.tick)
	n.p.every(heartbeat.DefaultInterval/heartbeat.Ticks, n.beat)
	if n.s.scenario.Hosted {
		n.p.every(requestEvery, func() {
			for _, r := range n.replicas {
				r.request()
			}
		})
	}
	if len(n.s.groups) > 1 {
		n.p.every(controller.HomeInterval, func() {
			for _, r := range n.replicas {
				r.goHome()
			}
		})
	}
}

// work does what the groups want done.
func (n *controllerNode) work() {
	for _, r := range n.replicas {
		r.work()
	}
}

// kill ends the process; with power the machine too.
func (n *controllerNode) kill(power bool) {
	if power {
		n.p.powerOff()
		return
	}
	n.p.kill()
}

// die is the end that a process chooses when it cannot go on.
func (n *controllerNode) die(err error) {
	var lost *consensus.LostLogError
	if errors.As(err, &lost) {
		n.check(err)
	}
	n.s.w.note(n.p, "stops: %v", err)
	n.kill(false)
	n.s.restart(n, restartAfter)
}

func (n *controllerNode) check(err error) {
	if err != nil && n.p.up {
		n.s.w.fail("controller %d: %v", n.id, err) // no fault of the world is a reason for that
	}
}
