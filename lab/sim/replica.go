package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
	"go.etcd.io/raft/v3/raftpb"
)

// replica is the part of a controller in one group: controller.Core on consensus.Core.
type replica struct {
	n    *controllerNode
	g    *group
	said promise // to the other replicas, which its log must remember

	// As long as the process lives.
	raft      *consensus.Core
	core      *controller.Core
	updates   []consensus.Update // for core, oldest first
	proposals []proposal
	leading   uint64   // term in which proposals are taken
	leader    uint64   // controller that leads, as core knows; 0: unknown
	applied   uint64   // index of the last entry that core has
	inbox     []func() // what sessions have for the next turn
	turning   bool     // a turn is scheduled
	encodes   bool     // a snapshot is being encoded
	compacts  bool     // a snapshot is being written
	lives     map[uint64]*hostLife
	homing    controller.Homing
	damaged   bool // its memory was changed
	fenced    bool // that was noticed
}

// promise is what others count on: the term in which a member has answered, and whom it gave its vote.
type promise struct{ term, vote uint64 }

// promised notes what an answer promises.
func (r *replica) promised(m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgVoteResp, raftpb.MsgAppResp:
		if m.GetTerm() > r.said.term {
			r.said = promise{term: m.GetTerm()}
		}
		if m.GetType() == raftpb.MsgVoteResp && !m.GetReject() {
			r.said.vote = m.GetTo()
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
	term  uint64
	data  []byte
	early []uint64
}

// start begins with what the log has of the group.
func (r *replica) start(saved storage.Saved) error {
	s := r.n.s
	if saved.Hard == nil {
		return fmt.Errorf("its log has nothing of group %d", r.g.number)
	}
	if lapse := r.said.forgotten(saved.Hard); lapse != "" {
		return fmt.Errorf("group %d: %s", r.g.number, lapse)
	}
	*r = replica{n: r.n, g: r.g, said: r.said, lives: map[uint64]*hostLife{}}
	var err error
	r.raft, err = consensus.NewCore(consensus.CoreConfig{Group: uint64(r.g.number), ID: r.n.id, HeartbeatTicks: 1,
		ElectionTicks: int(consensus.DefaultElection / consensus.DefaultHeartbeat),
		MostTicks:     int(consensus.MaxElection / consensus.DefaultHeartbeat),
		HoldTicks:     int(consensus.LateHold / consensus.DefaultHeartbeat),
		Stagger:       consensus.Stagger,
		Seed:          s.w.rand.Uint64(), Saved: saved, Logger: quiet,
		FirstTerm: uint64(s.w.now / time.Second)})
	if err != nil {
		return err
	}
	r.core, err = controller.NewCore(controller.CoreConfig{Name: r.n.p.name, ID: r.n.id, Names: r.g.names(),
		Applications: s.applications(r.g),
		Limits:       s.limits(), SwitchTimeout: s.scenario.SwitchTimeout, SnapshotEvery: s.scenario.SnapshotEvery,
		Hosts: s.runner(r), Identity: s.identity(r.g), Logger: slog.New(namer{&s.damages}),
		Group: uint64(r.g.number), Directory: r.g.lives(r.n.assigned.view.Of), Shards: r.n.assigned.view.Shards,
		Here: r.n.leads, There: r.relays,
		Elapsed: func() time.Duration { return s.w.now }}, r)
	return err
}

// work does what the group wants done; see consensus.Node.
func (r *replica) work() {
	for r.n.p.up && (r.raft.HasReady() || len(r.proposals) > 0 && r.raft.Accepts()) {
		r.propose()
		rd := r.raft.Ready()
		prompt := r.n.disk.savePrompt(rd.Append)
		if prompt {
			r.raft.Stored(len(rd.Append))
		}
		r.raft.Vouch(rd.Messages)
		for _, m := range rd.Messages {
			r.promised(m.Raft)
			r.n.members[m.Raft.GetTo()].send(m)
		}
		if count := len(rd.Append); count > 0 && !prompt {
			r.n.disk.save(rd.Append, func(err error) {
				if err != nil {
					r.n.die(err)
					return
				}
				r.raft.Stored(count)
				r.work()
			})
		}
		r.queue(rd.Updates)
		if rd.Elect > 0 {
			r.n.p.after(rd.Elect, func() { r.raft.Elect(); r.work() })
		}
	}
}

func (r *replica) propose() {
	if !r.raft.Accepts() {
		return
	}
	for _, p := range r.proposals {
		r.raft.Hasten(p.early...)
		if err := r.raft.Propose(p.term, p.data); err != nil && !errors.Is(err, consensus.ErrNotLeader) {
			r.n.check(err)
		}
	}
	r.proposals = r.proposals[:0]
}

// queue hands updates to the owner, each in a step of its own.
func (r *replica) queue(updates []consensus.Update) {
	for _, u := range updates {
		if u.Role != nil {
			r.leading = 0
			if u.Role.Leading {
				r.leading = u.Role.Term
			}
		}
		r.updates = append(r.updates, u)
		r.n.p.after(r.n.s.w.upTo(ownerLag), r.update)
	}
}

func (r *replica) update() {
	n, u := r.n, r.updates[0]
	r.updates = r.updates[1:]
	switch {
	case u.Role != nil && u.Role.Leading:
		n.s.w.note(n.p, "leads group %d in term %d", r.g.number, u.Role.Term)
		r.g.h.Leading(n.id, u.Role.Term)
	case u.Snapshot != nil:
		if u.Snapshot.Index < r.applied {
			n.s.w.fail("controller %d is taken back from entry %d of group %d to a snapshot at %d", n.id, r.applied,
				r.g.number, u.Snapshot.Index)
		}
		r.applied = u.Snapshot.Index
		n.s.w.note(n.p, "restores the snapshot of group %d at %d", r.g.number, u.Snapshot.Index)
		r.g.h.Restored(n.id, u.Snapshot.Index, u.Snapshot.State)
	}
	for _, e := range u.Entries {
		r.applied = e.Index
		if r.g.system() {
			n.check(n.s.directory.learn(e))
		}
		r.g.h.Committed(n.id, e.Index, e.Term, e.Data)
	}
	r.check(r.core.Update(n.p.clock(), u))
	if u.Role != nil {
		r.heard(u.Role)
	}
	if r.g.system() {
		n.assigned.update(u)
		if u.Role != nil && u.Role.Leading && len(n.assigned.view.Layout().Groups) == 0 {
			first := directory.Place{Replication: uint64(n.s.scenario.Replication), Controllers: n.s.scenario.ids()}
			r.core.Ask(directory.Name, first.Append(nil))
		}
	}
	if len(u.Entries) > 0 {
		r.raft.Delivered(r.applied)
		r.work()
	}
	r.turn()
}

// put leaves something of a session for the loop. Until its turn, the session goes on.
func (r *replica) put(item func()) {
	r.inbox = append(r.inbox, item)
	r.turn()
}

// turn lets the loop have a turn, after all that comes in the next moment.
func (r *replica) turn() {
	if r.turning {
		return
	}
	r.turning = true
	r.n.p.after(r.n.s.w.upTo(ownerLag), func() {
		r.turning = false
		items := r.inbox
		r.inbox = nil
		for _, item := range items {
			item()
		}
		r.check(r.core.Turn(r.n.p.clock()))
		r.work()
	})
}

// handOver gives the leadership to another controller, which need not take it.
func (r *replica) handOver() {
	others := slices.DeleteFunc(slices.Clone(r.g.replicas), func(o *replica) bool { return o == r || !o.n.p.up })
	if len(others) > 0 {
		r.transfer(others[r.n.s.w.rand.IntN(len(others))].n.id)
	}
}

func (r *replica) transfer(to uint64) {
	if err := r.raft.TransferLeader(to); err != nil {
		r.n.s.w.note(r.n.p, "hand group %d over: %v", r.g.number, err)
	}
	r.n.p.after(0, r.work)
}

// goHome gives the leadership to the controller at which the group is at home, when that has caught up.
func (r *replica) goHome() {
	status := r.raft.Status()
	for i := range status.Peers {
		peer := &status.Peers[i]
		peer.Connected = r.n.members[peer.ID].c != nil
	}
	if to := r.homing.Next(r.n.p.clock(), r.g.home(), status); to != 0 {
		r.n.s.w.note(r.n.p, "group %d goes home to controller %d", r.g.number, to)
		r.transfer(to)
	}
}

// The following are controller.Core's surroundings.

// Propose implements controller.Outside.
func (r *replica) Propose(term uint64, entry []byte, relaying []uint64) error {
	if r.leading != term {
		return consensus.ErrNotLeader
	}
	var early []uint64
	for _, group := range relaying {
		if at := r.n.replica(group); at != nil {
			early = append(early, at.leader)
		}
	}
	r.proposals = append(r.proposals, proposal{term, entry, early})
	return nil
}

// Encode implements controller.Outside.
func (r *replica) Encode(encode ledger.Frozen) {
	r.encodes = true
	r.n.p.after(r.n.s.w.upTo(20*time.Millisecond), func() {
		r.encodes = false
		r.n.check(r.core.Encoded(encode()))
		r.turn()
	})
}

// Compact implements controller.Outside.
func (r *replica) Compact(index uint64, state []byte) error {
	if r.compacts {
		return consensus.ErrCompacting
	}
	s, err := r.raft.SnapshotAt(index, state)
	if err != nil {
		return err
	}
	r.g.h.Kept(r.n.id, index, state)
	r.compacts = true
	r.n.disk.writeSnapshot(uint64(r.g.number), s, func(err error) {
		r.compacts = false
		if err != nil {
			r.n.die(err)
			return
		}
		r.raft.Compact(s)
		r.work()
	})
	return nil
}

// Audit implements controller.Outside.
func (r *replica) Audit(uint64, []byte) error { return nil }

// SendPayload implements controller.Outside.
func (r *replica) SendPayload(member uint64, payload []byte) bool {
	link := r.n.members[member]
	return link != nil && link.sendPayload(uint64(r.g.number), payload)
}

// Present implements controller.Outside.
func (r *replica) Present() consensus.Present {
	all := slices.Sorted(maps.Keys(r.g.members))
	return consensus.Present{Controllers: all, Voters: all}
}

// SendFrame implements controller.Outside.
func (r *replica) SendFrame(to uint64, frame []byte) {
	r.g.h.Framed(frame)
	s, payload := r.n.s, controller.FramePayload(frame)
	send := func() { r.n.sendPayload(to, payload) }
	for range s.copies(s.scenario.StreamFaults) {
		if s.scenario.StreamFaults > 0 && s.w.rand.Float64() < s.scenario.StreamFaults {
			r.n.p.after(s.w.upTo(frameLate), send)
		} else {
			send()
		}
	}
}

// SendTraced implements controller.Outside: nothing is followed here.
func (r *replica) SendTraced(uint64, []byte) {}

// leads reports whether this controller leads a group.
func (n *controllerNode) leads(group uint64) bool {
	at := n.replica(group)
	return at != nil && at.leader == n.id
}

// relays is controller.CoreConfig.There.
func (r *replica) relays(group uint64) bool {
	at := r.n.replica(group)
	return at != nil && at.leader != r.n.id && slices.Contains(r.raft.Vouches(), at.leader)
}

// sendPayload sends a payload to the leader of a group, as far as it is known here.
func (n *controllerNode) sendPayload(to uint64, payload []byte) {
	switch at := n.replica(to); {
	case at == nil:
		for _, other := range n.s.groups[to].replicas {
			n.members[other.n.id].sendPayload(to, payload)
		}
	case at.leader == n.id:
		at.put(func() { at.core.Payload(n.p.clock(), 0, payload) })
	case at.leader != 0:
		at.SendPayload(at.leader, payload)
	}
}

// frameLate is how late a frame between groups may be.
const frameLate = 50 * time.Millisecond

// heard tells the other groups of this controller that the group has a new leader.
func (r *replica) heard(role *consensus.Role) {
	r.n.calls.Lost(uint64(r.g.number))
	was := r.leader
	if r.leader = role.Leader; r.leader == was || r.leader == 0 {
		return
	}
	r.n.tell(controller.ResendPayload(uint64(r.g.number)))
}

// tell passes a payload to all groups of the controller.
func (n *controllerNode) tell(payload []byte) {
	for _, r := range n.replicas {
		r.put(func() { r.core.Payload(n.p.clock(), 0, payload) })
	}
}

// AskDirectory implements controller.Outside.
func (r *replica) AskDirectory(request []byte) {
	system := r.n.replicas[0]
	system.put(func() { system.core.Ask(directory.Name, request) })
}

// Reassign implements controller.Outside.
func (r *replica) Reassign(of controller.Session, to ledger.Assignment) {
	r.n.p.after(0, func() { of.(*session).reassigned(to) })
}

// DeferElection implements controller.Outside.
func (r *replica) DeferElection(on bool) { r.n.p.after(0, func() { r.raft.DeferElection(on) }) }
