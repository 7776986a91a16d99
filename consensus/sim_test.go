package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// sim is a group of cores on a network, disks and owners that do anything that is permitted. One seed determines
// everything, so a failing run can be repeated. After every step it checks the properties of consensus.
type sim struct {
	t       *testing.T
	seed    uint64
	number  uint64 // of the group
	rand    *rand.Rand
	members map[uint64]*simMember
	flying  []wire.Message
	cut     map[[2]uint64]bool // broken connections, by (from, to)
	slow    bool               // owners lag behind
	prompt  bool               // most batches are saved at once
	// firstTerm is CoreConfig.FirstTerm of members that start from now on.
	firstTerm uint64
	changes   bool   // members come and go
	most      int    // the largest election timeout
	nextID    uint64 // id of the next new member
	seen      struct{ changes, snapshots, restarts, early, atOnce int }

	log     map[uint64]simEntry // all entries that were delivered to any owner, by index
	newest  uint64              // highest index in log
	hashes  map[uint64]uint64   // of the owner's state after each index
	leaders map[uint64]uint64   // leader of each term, as owners were told
}

type simEntry struct {
	term uint64
	data string
}

// simMember is one core, its disk and its owner.
type simMember struct {
	id      uint64
	disk    *storage.Memory
	foreign bool  // bootstrapped with other members than the rest
	core    *Core // nil while it is down
	saving  []storage.Batch
	inbox   []Update

	applied  uint64
	hash     uint64
	role     Role
	proposed uint64 // proposals in the term that it leads
}

func newSim(t *testing.T, seed uint64, ids ...uint64) *sim { return newSimOf(t, 0, seed, ids...) }

func newSimOf(t *testing.T, group, seed uint64, ids ...uint64) *sim {
	s := &sim{
		t: t, seed: seed, number: group, rand: rand.New(rand.NewPCG(seed, 0)), members: make(map[uint64]*simMember),
		cut: make(map[[2]uint64]bool), most: int(seed%2) * 40,
		log: make(map[uint64]simEntry), hashes: map[uint64]uint64{0: 0, bootIndex: 0}, leaders: make(map[uint64]uint64),
	}
	addrs := make(map[uint64]string)
	for _, id := range ids {
		addrs[id] = fmt.Sprintf("member-%d", id)
	}
	for _, id := range ids {
		m := &simMember{id: id, disk: new(storage.Memory)}
		s.must(m.disk.Save([]storage.Batch{Bootstrap(group, addrs)}))
		s.members[id] = m
		s.start(m)
	}
	s.nextID = uint64(len(ids)) + 1
	return s
}

func (s *sim) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
}

func (s *sim) check(ok bool, format string, args ...any) {
	if !ok {
		s.t.Helper()
		s.t.Fatalf("seed %d: %s", s.seed, fmt.Sprintf(format, args...))
	}
}

func (s *sim) start(m *simMember) {
	groups, err := m.disk.Load()
	s.must(err)
	m.core, err = NewCore(CoreConfig{
		Group: s.number, ID: m.id, HeartbeatTicks: 1, ElectionTicks: 5, MostTicks: s.most, HoldTicks: 50,
		Stagger: Stagger,
		Seed:    s.rand.Uint64(), Saved: groups[s.number], Logger: slog.New(slog.DiscardHandler),
		FirstTerm: s.firstTerm,
	})
	s.must(err)
	s.seen.restarts++
	m.saving, m.inbox = nil, nil
	m.applied, m.hash, m.role, m.proposed = 0, 0, Role{}, 0
	s.drain(m)
}

// crash discards what was not saved, and breaks the connections.
func (s *sim) crash(m *simMember) {
	s.save(m, s.rand.IntN(len(m.saving)+1))
	m.core = nil
	s.disconnect(m.id)
}

// disconnect gives a hint to all other members.
func (s *sim) disconnect(id uint64) {
	for i := len(s.flying) - 1; i >= 0; i-- {
		if r := s.flying[i].Raft; r.GetFrom() == id || r.GetTo() == id {
			s.lose(i)
		}
	}
	for _, other := range s.up() {
		if other.id != id && s.rand.IntN(4) > 0 {
			other.core.Hint(wire.ControllerOf(id))
			s.drain(other)
		}
	}
}

func (s *sim) up() []*simMember {
	var up []*simMember
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		if m := s.members[id]; m.core != nil {
			up = append(up, m)
		}
	}
	return up
}

func (s *sim) drain(m *simMember) {
	for m.core != nil && m.core.HasReady() {
		rd := m.core.Ready()
		for _, w := range rd.Messages {
			s.check(w.Group == s.number, "member %d sends %v for group %d", m.id, w.Raft.GetType(), w.Group)
		}
		for _, b := range rd.Append {
			s.check(b.Group == s.number, "member %d saves a batch of group %d", m.id, b.Group)
		}
		m.saving = append(m.saving, rd.Append...)
		if s.prompt && s.rand.IntN(10) > 0 {
			s.must(m.disk.Save(m.saving))
			m.core.Stored(len(m.saving))
			m.saving = nil
		}
		m.core.Vouch(rd.Messages)
		s.flying = append(s.flying, rd.Messages...)
		m.inbox = append(m.inbox, rd.Updates...)
		if rd.Stop != nil {
			s.check(rd.Stop == ErrRemoved || m.foreign, "member %d ends: %v", m.id, rd.Stop)
			m.core = nil
			delete(s.members, m.id)
			return
		}
	}
}

// change adds a member, removes one, promotes a learner, or demotes a voter.
func (s *sim) change(m *simMember) {
	conf := m.core.members.conf()
	var c MemberChange
	if s.rand.IntN(2) == 0 && len(conf.Learners) < 3 {
		c.Add = map[uint64]string{s.nextID: "new"}
	}
	if s.rand.IntN(2) == 0 && len(conf.Learners) > 0 && len(conf.Voters) < 6 {
		c.Promote = conf.Learners[:1]
	}
	if one := conf.Voters[s.rand.IntN(len(conf.Voters))]; len(conf.Voters) > 2 {
		switch s.rand.IntN(4) {
		case 0, 1:
			c.Remove = []uint64{one}
		case 2:
			c.Demote = []uint64{one}
		}
	}
	if m.core.ProposeConfChange(s.rand.Uint64(), c) != nil {
		return
	}
	s.seen.changes++
	if len(c.Add) > 0 {
		joining := &simMember{id: s.nextID, disk: new(storage.Memory)}
		s.members[s.nextID] = joining
		s.nextID++
		s.start(joining)
	}
	s.drain(m)
}

// save makes the oldest n batches durable, and continues what waits for them.
func (s *sim) save(m *simMember, n int) {
	s.must(m.disk.Save(m.saving[:n]))
	m.saving = m.saving[n:]
	m.core.Stored(n)
	s.drain(m)
}

// take makes the owner read one update.
func (s *sim) take(m *simMember) {
	u := m.inbox[0]
	m.inbox = m.inbox[1:]
	switch {
	case u.Snapshot != nil:
		s.seen.snapshots++
		m.applied, m.hash = u.Snapshot.Index, binary.BigEndian.Uint64(u.Snapshot.State)
		s.check(s.hashes[m.applied] == m.hash, "member %d: snapshot at %d differs", m.id, m.applied)
	case u.Role != nil:
		s.takeRole(m, *u.Role)
	default:
		for _, e := range u.Entries {
			s.takeEntry(m, e)
		}
		m.core.Delivered(u.Entries[len(u.Entries)-1].Index)
	}
	s.drain(m)
}

func (s *sim) takeEntry(m *simMember, e Entry) {
	s.check(e.Index > m.applied, "member %d: entry %d after %d", m.id, e.Index, m.applied)
	if known, ok := s.log[e.Index]; ok {
		s.check(known == simEntry{e.Term, string(e.Data)}, "member %d: entry %d is %q, elsewhere %q", m.id, e.Index,
			e.Data, known.data)
	} else {
		s.check(e.Index > s.newest, "member %d: new entry %d before %d", m.id, e.Index, s.newest)
		s.checkOrder(e)
		s.log[e.Index], s.newest = simEntry{e.Term, string(e.Data)}, e.Index
		if leader := s.members[s.leaders[e.Term]]; leader != nil && leader.core != nil && leader.core.Leading(e.Term) &&
			leader.core.commit < e.Index {
			s.seen.early++ // its leader does not know that it is committed
		}
	}
	if m.role.Leading {
		s.check(e.Term == m.role.Term, "member %d: entry of term %d while leading in %d", m.id, e.Term, m.role.Term)
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s", m.hash, e.Index, e.Data)
	m.applied, m.hash = e.Index, h.Sum64()
	if want, ok := s.hashes[e.Index]; ok {
		s.check(want == m.hash, "member %d: state at %d differs", m.id, e.Index)
	}
	s.hashes[e.Index] = m.hash
}

// checkOrder checks that the proposals of one term are in the log in order and without gaps.
func (s *sim) checkOrder(e Entry) {
	var term, seq uint64
	_, err := fmt.Sscanf(string(e.Data), "%d/%d", &term, &seq)
	s.must(err)
	s.check(term == e.Term, "proposal %s was appended in term %d", e.Data, e.Term)
	if seq > 1 {
		s.check(s.log[s.newest].data == fmt.Sprintf("%d/%d", term, seq-1), "proposal %s follows %s", e.Data,
			s.log[s.newest].data)
	}
}

func (s *sim) takeRole(m *simMember, r Role) {
	s.check(r.Term >= m.role.Term, "member %d: term %d after %d", m.id, r.Term, m.role.Term)
	if r.Leading {
		s.check(!m.role.Leading, "member %d leads in %d without having ceased in %d", m.id, r.Term, m.role.Term)
		s.check(r.Leader == m.id, "member %d leads, but the leader is %d", m.id, r.Leader)
		other, twice := s.leaders[r.Term]
		s.check(!twice, "members %d and %d lead in term %d", other, m.id, r.Term)
		s.leaders[r.Term] = m.id
		for index, e := range s.log {
			s.check(e.term >= r.Term || index <= m.applied, "member %d leads in %d at %d without entry %d of term %d",
				m.id, r.Term, m.applied, index, e.term)
		}
		m.proposed = 0
		if term, err := m.core.log.Term(m.core.commit); err == nil && term < r.Term && m.core.term == r.Term {
			s.seen.atOnce++
		}
	}
	m.role = r
}

func (s *sim) propose(m *simMember) {
	if !m.role.Leading || !m.core.Accepts() {
		return
	}
	m.proposed++
	if s.prompt && s.rand.IntN(4) > 0 {
		for _, other := range s.up() {
			m.core.Hasten(wire.ControllerOf(other.id))
		}
	}
	err := m.core.Propose(m.role.Term, fmt.Appendf(nil, "%d/%d", m.role.Term, m.proposed))
	if err != nil { // the owner must be told that it does not lead any more
		s.check(err == ErrNotLeader, "propose: %v", err)
		s.drain(m)
		ceased := !m.core.role.Leading || m.core.role.Term != m.role.Term
		s.check(ceased, "member %d: a proposal was refused, but it still leads", m.id)
		return
	}
	s.drain(m)
}

func (s *sim) compact(m *simMember) {
	if m.applied <= m.core.log.snapshot.Index() {
		return
	}
	snapshot, err := m.core.SnapshotAt(m.applied, binary.BigEndian.AppendUint64(nil, m.hash))
	if err != nil {
		return // the owner has read entries that are not yet acknowledged
	}
	m.core.Compact(snapshot)
	s.drain(m)
}

// deliver delivers one message. Any message may be chosen, so the order is not kept, unlike with TCP.
func (s *sim) deliver(i int) {
	w := s.flying[i]
	to := s.members[w.Raft.GetTo()]
	if to == nil || to.core == nil || s.cut[[2]uint64{w.Raft.GetFrom(), to.id}] {
		s.lose(i)
		return
	}
	s.flying = slices.Delete(s.flying, i, i+1)
	s.must(to.core.Step(w))
	if s.rand.IntN(3) > 0 { // otherwise several messages are handled in one Ready
		s.drain(to)
	}
	s.sent(w, true)
}

// lose drops one message, and tells its sender if the contract requires that.
func (s *sim) lose(i int) {
	w := s.flying[i]
	s.flying = slices.Delete(s.flying, i, i+1)
	s.sent(w, false)
}

func (s *sim) sent(w wire.Message, ok bool) {
	if sender := s.members[w.Raft.GetFrom()]; w.Raft.GetType() == raftpb.MsgSnap && sender != nil &&
		sender.core != nil {
		sender.core.SnapshotSent(w.Raft.GetTo(), ok)
		s.drain(sender)
	}
}

// step does one random thing.
func (s *sim) step() {
	up := s.up()
	if len(up) == 0 {
		s.start(s.any())
		return
	}
	m := up[s.rand.IntN(len(up))]
	if s.changes && m.role.Leading && s.rand.IntN(50) == 0 {
		s.change(m)
		return
	}
	switch p := s.rand.IntN(1000); {
	case p < 500 && len(s.flying) > 0:
		s.deliver(s.rand.IntN(min(len(s.flying), 4)))
	case p < 650 && len(m.saving) > 0:
		s.save(m, 1+s.rand.IntN(len(m.saving)))
	case p < 800 && len(m.inbox) > 0:
		if !s.slow || s.rand.IntN(20) == 0 {
			s.take(m)
		}
	case p < 880:
		s.propose(m)
	case p < 950:
		m.core.Tick(0)
		s.drain(m)
	case p < 960:
		m.core.Elect()
		s.drain(m)
	case p < 970 && len(s.flying) > 0:
		s.lose(0)
	case p < 978:
		s.compact(m)
	case p < 982:
		other := s.any().id
		s.cut[[2]uint64{m.id, other}] = true
		s.disconnect(other)
	case p < 988:
		clear(s.cut)
	case p < 991:
		_ = m.core.TransferLeader(s.any().id)
		s.drain(m)
	case p < 994:
		s.crash(m)
	default:
		if other := s.any(); other.core == nil {
			s.start(other)
		}
	}
}

func (s *sim) any() *simMember {
	ids := slices.Sorted(maps.Keys(s.members))
	return s.members[ids[s.rand.IntN(len(ids))]]
}

// group returns the members according to the last leader.
func (s *sim) group() map[uint64]string {
	var last *simMember
	for _, m := range s.up() {
		if m.role.Leading && (last == nil || m.role.Term > last.role.Term) {
			last = m
		}
	}
	s.check(last != nil, "nobody leads after healing")
	return last.core.members.addresses()
}

// heal ends all faults, and runs until nothing is in flight.
func (s *sim) heal() {
	clear(s.cut)
	for _, m := range s.members {
		if m.core == nil {
			s.start(m)
		}
	}
	for range 200 {
		for _, m := range s.up() {
			m.core.Tick(0)
			s.drain(m)
		}
		s.rest()
	}
}

// rest delivers, saves and takes until nothing is left, without a tick.
func (s *sim) rest() {
	for busy := true; busy; {
		busy = len(s.flying) > 0
		for len(s.flying) > 0 {
			s.deliver(0)
		}
		for _, m := range s.up() {
			busy = busy || len(m.saving)+len(m.inbox) > 0
			s.save(m, len(m.saving))
			for m.core != nil && len(m.inbox) > 0 {
				s.take(m)
			}
		}
	}
}
