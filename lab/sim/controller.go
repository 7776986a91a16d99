package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/southbound"
	"go.etcd.io/raft/v3/raftpb"
)

const (
	// restartAfter is when someone has looked after a controller that gave up.
	restartAfter = 300 * time.Millisecond
	// ownerLag is how long at most an update waits for the loop that owns the ledger.
	ownerLag = 200 * time.Microsecond
)

var quiet = slog.New(slog.DiscardHandler)

// controllerNode is a controller: controller.Core on consensus.Core, with a log, connections to the
// other controllers and sessions of switches.
type controllerNode struct {
	s    *simulation
	p    *process
	id   uint64
	disk *disk
	lost bool    // its log is gone or not to be trusted: it may not come back
	said promise // to other members, which its log must remember

	// As long as the process lives.
	group     *consensus.Core
	core      *controller.Core
	updates   []consensus.Update // for core, oldest first
	proposals []proposal
	leading   uint64 // term in which proposals are taken
	applied   uint64 // index of the last entry that core has
	members   map[uint64]*memberLink
	incoming  map[uint64]*conn // the newest of each member
	sessions  []*session
	inbox     []func() // what sessions have for the next turn
	turning   bool     // a turn is scheduled
	encodes   bool     // a snapshot is being encoded
	compacts  bool     // a snapshot is being written
	lives     map[uint64]*hostLife
}

// promise is what others count on: the term in which a member has answered, and whom it gave its vote.
type promise struct{ term, vote uint64 }

// promised notes what an answer promises.
func (n *controllerNode) promised(m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgVoteResp, raftpb.MsgAppResp:
		if m.GetTerm() > n.said.term {
			n.said = promise{term: m.GetTerm()}
		}
		if m.GetType() == raftpb.MsgVoteResp && !m.GetReject() {
			n.said.vote = m.GetTo()
		}
	}
}

// forgotten says what a log has forgotten; "" is nothing.
func (p promise) forgotten(h *raftpb.HardState) string {
	switch {
	case h.GetTerm() < p.term:
		return fmt.Sprintf("it has answered in term %d, and its log is in term %d", p.term, h.GetTerm())
	case h.GetTerm() == p.term && p.vote != 0 && h.GetVote() != p.vote:
		return fmt.Sprintf("it has voted for %d in term %d, and its log says %d", p.vote, p.term, h.GetVote())
	}
	return ""
}

type proposal struct {
	term uint64
	data []byte
}

// start is what a process does first: it loads its log.
func (n *controllerNode) start() {
	if n.p.up {
		return
	}
	groups, err := n.disk.load()
	saved := groups[0]
	switch {
	case err != nil && n.lost:
		n.s.w.note(n.p, "does not start: %v", err)
		return
	case err != nil || n.lost || saved.Hard == nil:
		n.s.w.fail("controller %d: its log is damaged: %t; it loads with error %v", n.id, n.lost, err)
		return
	}
	if lapse := n.said.forgotten(saved.Hard); lapse != "" {
		n.s.w.fail("controller %d: %s", n.id, lapse)
	}
	n.p.start()
	n.updates, n.proposals, n.leading, n.applied, n.sessions, n.inbox = nil, nil, 0, 0, nil, nil
	n.turning, n.encodes, n.compacts = false, false, false
	n.lives = map[uint64]*hostLife{}
	n.incoming = map[uint64]*conn{}
	n.group, err = consensus.NewCore(consensus.CoreConfig{ID: n.id, HeartbeatTicks: 1,
		ElectionTicks: int(consensus.DefaultElection / consensus.DefaultHeartbeat),
		MostTicks:     int(consensus.MaxElection / consensus.DefaultHeartbeat),
		HoldTicks:     int(consensus.LateHold / consensus.DefaultHeartbeat),
		Stagger:       consensus.Stagger,
		Seed:          n.s.w.rand.Uint64(), Saved: saved, Logger: quiet,
		FirstTerm: uint64(n.s.w.now / time.Second)})
	if err == nil {
		n.core, err = controller.NewCore(controller.CoreConfig{Name: n.p.name, Applications: n.s.applications(),
			Limits:        n.s.limits(),
			SwitchTimeout: n.s.scenario.SwitchTimeout, SnapshotEvery: n.s.scenario.SnapshotEvery, Hosts: n.s.runner(n),
			Identity: n.s.identity(), Logger: quiet}, n)
	}
	if err != nil {
		n.s.w.fail("controller %d does not start: %v", n.id, err)
		return
	}
	n.members = map[uint64]*memberLink{}
	for _, other := range n.s.controllers {
		if other.id != n.id {
			n.members[other.id] = &memberLink{n: n, to: other.id, address: other.peerAddress()}
			n.members[other.id].dial()
		}
	}
	n.s.net.listen(n.p, n.peerAddress(), n.welcome)
	n.s.net.listen(n.p, n.switchAddress(), n.acceptSwitch)
	ticked := n.s.w.now
	n.p.every(consensus.DefaultHeartbeat, func() {
		n.group.Tick(max(0, int((n.s.w.now-ticked)/consensus.DefaultHeartbeat)-1))
		ticked = n.s.w.now
		n.work()
	})
	n.p.every(controller.TickInterval, func() { n.check(n.core.Tick(n.p.clock())); n.turn() })
	n.p.every(southbound.DefaultEchoInterval, n.echo)
	n.p.every(southbound.TickInterval, n.tick)
	if n.s.scenario.Hosted {
		n.p.every(requestEvery, n.request)
	}
	n.work()
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

// work does what the group wants done; see consensus.Node.
func (n *controllerNode) work() {
	for n.p.up && (n.group.HasReady() || len(n.proposals) > 0 && n.group.Accepts()) {
		n.propose()
		rd := n.group.Ready()
		for _, m := range rd.Messages {
			n.promised(m.Raft)
			n.members[m.Raft.GetTo()].send(m)
		}
		if count := len(rd.Append); count > 0 {
			n.disk.save(rd.Append, func(err error) {
				if err != nil {
					n.die(err)
					return
				}
				n.group.Stored(count)
				n.work()
			})
		}
		n.queue(rd.Updates)
		if rd.Elect > 0 {
			n.p.after(rd.Elect, func() { n.group.Elect(); n.work() })
		}
	}
}

func (n *controllerNode) propose() {
	if !n.group.Accepts() {
		return
	}
	for _, p := range n.proposals {
		if err := n.group.Propose(p.term, p.data); err != nil && !errors.Is(err, consensus.ErrNotLeader) {
			n.check(err)
		}
	}
	n.proposals = n.proposals[:0]
}

// queue hands updates to the owner, each in a step of its own.
func (n *controllerNode) queue(updates []consensus.Update) {
	for _, u := range updates {
		if u.Role != nil {
			n.leading = 0
			if u.Role.Leading {
				n.leading = u.Role.Term
			}
		}
		n.updates = append(n.updates, u)
		n.p.after(n.s.w.upTo(ownerLag), n.update)
	}
}

func (n *controllerNode) update() {
	u := n.updates[0]
	n.updates = n.updates[1:]
	switch {
	case u.Role != nil && u.Role.Leading:
		n.s.w.note(n.p, "leads term %d", u.Role.Term)
		n.s.h.Leading(n.id, u.Role.Term)
	case u.Snapshot != nil:
		if u.Snapshot.Index < n.applied {
			n.s.w.fail("controller %d is taken back from entry %d to a snapshot at %d", n.id, n.applied,
				u.Snapshot.Index)
		}
		n.applied = u.Snapshot.Index
		n.s.w.note(n.p, "restores the snapshot at %d", u.Snapshot.Index)
		n.s.h.Restored(n.id, u.Snapshot.Index, u.Snapshot.State)
	}
	for _, e := range u.Entries {
		n.applied = e.Index
		n.s.h.Committed(n.id, e.Index, e.Term, e.Data)
	}
	n.check(n.core.Update(n.p.clock(), u))
	if len(u.Entries) > 0 {
		n.group.Delivered(n.applied)
		n.work()
	}
	n.turn()
}

// put leaves something of a session for the loop. Until its turn, the session goes on.
func (n *controllerNode) put(item func()) {
	n.inbox = append(n.inbox, item)
	n.turn()
}

// turn lets the loop have a turn, after all that comes in the next moment.
func (n *controllerNode) turn() {
	if n.turning {
		return
	}
	n.turning = true
	n.p.after(n.s.w.upTo(ownerLag), func() {
		n.turning = false
		items := n.inbox
		n.inbox = nil
		for _, item := range items {
			item()
		}
		n.check(n.core.Turn(n.p.clock()))
		n.work()
	})
}

// The following are controller.Core's surroundings.

// Propose implements controller.Outside.
func (n *controllerNode) Propose(term uint64, entry []byte) error {
	if n.leading != term {
		return consensus.ErrNotLeader
	}
	n.proposals = append(n.proposals, proposal{term, entry})
	return nil
}

// Encode implements controller.Outside.
func (n *controllerNode) Encode(encode func() []byte) {
	n.encodes = true
	n.p.after(n.s.w.upTo(20*time.Millisecond), func() {
		n.encodes = false
		n.check(n.core.Encoded(encode()))
		n.turn()
	})
}

// Compact implements controller.Outside.
func (n *controllerNode) Compact(index uint64, state []byte) error {
	if n.compacts {
		return consensus.ErrCompacting
	}
	s, err := n.group.SnapshotAt(index, state)
	if err != nil {
		return err
	}
	n.compacts = true
	n.disk.writeSnapshot(0, s, func(err error) {
		n.compacts = false
		if err != nil {
			n.die(err)
			return
		}
		n.group.Compact(s)
		n.work()
	})
	return nil
}

// Audit implements controller.Outside.
func (n *controllerNode) Audit(uint64, []byte) error { return nil }

// SendPayload implements controller.Outside.
func (n *controllerNode) SendPayload(member uint64, payload []byte) bool {
	return n.members[member] != nil && n.members[member].sendPayload(payload)
}

func (n *controllerNode) DeferElection(on bool) { n.p.after(0, func() { n.group.DeferElection(on) }) }
