package proxy

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Owner is the controller of a Leader. The calls for one session are those of southbound.Handler.
type Owner interface {
	// Offered reports a session that the leader may use; Withdrawn that it may not any more.
	Offered(r *Remote)
	Withdrawn(r *Remote)
	Events(r *Remote, b southbound.Batch, done func(error))
	CommandsDone(r *Remote, epoch, seq uint64)
	// Resume asks for all commands that are not done. Those that were sent since the claim are ignored.
	Resume(r *Remote)
}

// Leader is the leader's half. It knows the sessions of the followers, which begin their links as soon as they know the
// leader; that may be before it leads.
type Leader struct {
	net       Network
	owner     Owner
	term      uint64 // no earlier link is of use
	index     uint64 // of the last entry that is applied
	claims    uint32
	followers []*follower                       // by member
	offers    map[openflow.DatapathID][]*Remote // the sessions of all followers, by switch
	now       time.Time
}

// follower is the link to one follower, and its sessions.
type follower struct {
	link
	term    uint64
	began   time.Time
	remotes []*Remote // by number
	behind  []*Remote // that have no room for commands, oldest first
}

// NewLeader returns the half of a controller.
func NewLeader(net Network, owner Owner) *Leader {
	return &Leader{net: net, owner: owner, offers: map[openflow.DatapathID][]*Remote{}}
}

// Remote is a session at a follower, as a controller.Session of the leader.
type Remote struct {
	l      *Leader
	f      *follower
	number uint64
	id     openflow.DatapathID
	since  time.Time // when it was attached to the follower
	state  southbound.State

	generation uint64
	claim      uint32 // number of the claim; 0: none
	claimed    bool   // the follower has claimed the switch
	epoch      uint64 // of sent
	sent       uint64 // the last command of the claim that was sent
	behind     bool   // commands were left out
}

// Term begins a term. Links of earlier ones are forgotten, and their sessions are not of use any more.
func (l *Leader) Term(term uint64) {
	l.term = term
	l.followers = slices.DeleteFunc(l.followers, func(f *follower) bool { return f.term < term })
	clear(l.offers)
	for _, f := range l.followers {
		for _, r := range f.remotes {
			r.claim, r.claimed, r.behind = 0, false, false
			l.offers[r.id] = append(l.offers[r.id], r)
		}
		f.behind = nil
	}
}

// Applied reports that all entries up to index are applied.
func (l *Leader) Applied(index uint64) { l.index = index }

// Now is the time of the last call.
func (l *Leader) Now() time.Time { return l.now }

// Offers calls f for every session at a follower of this term.
func (l *Leader) Offers(yield func(*Remote) bool) {
	for _, f := range l.followers {
		for _, r := range f.remotes {
			if f.term == l.term && !yield(r) {
				return
			}
		}
	}
}

// Linked reports whether n followers, or more, have links of this term that began before a time.
func (l *Leader) Linked(n int, before time.Time) bool {
	for _, f := range l.followers {
		if f.term == l.term && f.began.Before(before) {
			n--
		}
	}
	return n <= 0
}

// Sessions returns the number of sessions of a switch at followers of this term.
func (l *Leader) Sessions(id openflow.DatapathID) (n int) {
	for _, r := range l.offers[id] {
		if r.f.term == l.term {
			n++
		}
	}
	return n
}

// Has reports whether a follower of this term has a session of a switch.
func (l *Leader) Has(id openflow.DatapathID, member uint64) bool {
	return slices.ContainsFunc(l.offers[id], func(r *Remote) bool { return r.f.term == l.term && r.f.member == member })
}

// Best returns the session through which the leader should reach a switch that was attached before a time: one that
// is in sync, of the follower with the lowest id, and of two of its sessions the newer; nil if there is none.
func (l *Leader) Best(id openflow.DatapathID, before time.Time) (best *Remote) {
	for _, r := range l.offers[id] {
		if r.f.term == l.term && !r.since.After(before) && (best == nil || r.better(best)) {
			best = r
		}
	}
	return best
}

func (r *Remote) better(o *Remote) bool {
	switch {
	case r.state.InSync != o.state.InSync:
		return r.state.InSync
	case r.f != o.f:
		return r.f.member < o.f.member
	}
	return r.number > o.number
}

// forget removes a session that has ended.
func (l *Leader) forget(r *Remote) {
	list := slices.DeleteFunc(l.offers[r.id], func(o *Remote) bool { return o == r })
	if l.offers[r.id] = list; len(list) == 0 {
		delete(l.offers, r.id)
	}
}

// Tick ends the links to followers that are silent, and keeps the others alive.
func (l *Leader) Tick(now time.Time) {
	l.now = now
	for _, f := range slices.Clone(l.followers) {
		f.now = now
		if !f.beat() {
			l.drop(f)
		}
	}
}

// Broken says whether there is a link that Tick ends.
func (l *Leader) Broken() bool {
	return slices.ContainsFunc(l.followers, func(f *follower) bool { return f.broken })
}

// Stop ends all links without a word, as if this controller had crashed: the followers notice that it is silent, and
// their sessions keep what is not in the log.
func (l *Leader) Stop() {
	for _, f := range l.followers {
		f.broken = true
	}
}

// drop forgets a link. The follower hears that when it says something.
func (l *Leader) drop(f *follower) {
	l.followers = slices.DeleteFunc(l.followers, func(o *follower) bool { return o == f })
	remotes := f.remotes
	f.remotes, f.behind, f.broken = nil, nil, true
	for _, r := range remotes {
		l.forget(r)
	}
	for _, r := range remotes {
		l.owner.Withdrawn(r)
	}
}

// Receive handles a payload of another controller, if it is from a follower.
func (l *Leader) Receive(now time.Time, from uint64, payload []byte) {
	if fromLeader(payload) {
		return
	}
	l.now = now
	m, err := Parse(payload)
	if err != nil {
		return
	}
	i, known := slices.BinarySearchFunc(l.followers, from,
		func(f *follower, member uint64) int { return cmp.Compare(f.member, member) })
	if m.Kind == Begin {
		l.begin(from, &m)
		return
	}
	if !known || l.followers[i].id != m.Link {
		if m.Kind == Beat { // it does not know that its link has ended
			restart := Message{Kind: Restart, Link: m.Link}
			l.net.SendPayload(from, restart.append(nil))
		}
		return
	}
	f := l.followers[i]
	f.now = now
	if !f.takes(&m) {
		l.drop(f)
		return
	}
	l.handle(f, &m)
	// One that is left out again waits for the next message, so each is resumed once at most.
	for n := len(f.behind); n > 0 && len(f.behind) > 0 && f.out-f.taken <= window/2 && !f.broken; n-- {
		r := f.behind[0]
		f.behind = f.behind[1:]
		r.behind = false
		l.owner.Resume(r)
	}
}

func (l *Leader) begin(from uint64, m *Message) {
	if m.Term < l.term || m.Number != 1 {
		return
	}
	if i := slices.IndexFunc(l.followers, func(f *follower) bool { return f.member == from }); i >= 0 {
		l.drop(l.followers[i])
	}
	f := &follower{term: m.Term, began: l.now, link: link{net: l.net, alive: Alive, member: from, now: l.now}}
	f.open(m.Link)
	f.takes(m)
	l.followers = append(l.followers, f)
	slices.SortFunc(l.followers, func(a, b *follower) int { return cmp.Compare(a.member, b.member) })
}

func (l *Leader) handle(f *follower, m *Message) {
	i, known := slices.BinarySearchFunc(f.remotes, m.Session,
		func(r *Remote, number uint64) int { return cmp.Compare(r.number, number) })
	if m.Kind == Offer && !known && i == len(f.remotes) && i < maxOffers {
		r := &Remote{l: l, f: f, number: m.Session, id: m.Switch, since: l.now.Add(-m.Age), state: m.State}
		f.remotes = append(f.remotes, r)
		l.offers[r.id] = append(l.offers[r.id], r)
		l.owner.Offered(r)
		return
	}
	if !known {
		return
	}
	r := f.remotes[i]
	current := r.claimed && m.Claim == r.claim
	switch {
	case m.Kind == Withdraw:
		f.remotes = slices.Delete(f.remotes, i, i+1)
		l.forget(r)
		f.behind = slices.DeleteFunc(f.behind, func(o *Remote) bool { return o == r })
		l.owner.Withdrawn(r)
	case m.Kind == Changed:
		r.state = m.State
	case m.Kind == Claimed && m.Claim == r.claim:
		r.claimed = true
		l.owner.Resume(r)
	case m.Kind == Events && current:
		b := southbound.Batch{Epoch: m.Epoch, First: m.Seq, Count: int(m.Count), Messages: m.Bytes, Done: m.Done}
		size, claim := len(m.Bytes), m.Claim
		l.owner.Events(r, b, func(err error) { r.executed(claim, size, err) })
	case m.Kind == Events:
		f.consume(len(m.Bytes))
	case m.Kind == Done && current:
		l.owner.CommandsDone(r, m.Epoch, m.Seq)
	}
}

// executed tells the follower that a batch of events is executed, or why not.
func (r *Remote) executed(claim uint32, size int, err error) {
	m := Message{Kind: Executed, Session: r.number, Claim: claim}
	if err != nil {
		m.Text = cmp.Or(err.Error(), "refused")
	}
	r.f.send(m)
	r.f.consume(size)
}

// Member is the id of the follower.
func (r *Remote) Member() uint64 { return r.f.member }

// Switch implements controller.Session, as do the following. southbound.Session documents them.
func (r *Remote) Switch() openflow.DatapathID { return r.id }

// State returns the state of the session as the follower last reported it.
func (r *Remote) State() southbound.State { return r.state }

// Claim makes the follower claim the switch, as soon as it has applied what this leader has. Nothing of the switch may
// be executed and not committed.
func (r *Remote) Claim(generation uint64, resume southbound.Resume) error {
	r.l.claims++
	r.generation, r.claim, r.claimed, r.behind = generation, r.l.claims, false, false
	r.epoch, r.sent = 0, 0
	if r.state.Peer == southbound.Bundles {
		r.state.InSync, r.state.Epoch = false, max(r.state.Epoch, resume.Epoch)
	}
	r.tell(Message{Kind: Claim, Generation: generation, Index: r.l.index, Resume: resume})
	return nil
}

// tell sends a message about the session.
func (r *Remote) tell(m Message) {
	m.Session, m.Claim = r.number, r.claim
	r.f.send(m)
}

// Standby ends the claim.
func (r *Remote) Standby(uint64) {
	if r.claim != 0 {
		r.tell(Message{Kind: Standby})
		r.claim, r.claimed = 0, false
	}
}

// Send sends commands as far as there is room. The rest is left out, and sent after Owner.Resume.
func (r *Remote) Send(b experimenter.Block, messages []byte) error {
	if r.claim == 0 || b.Generation != r.generation {
		return southbound.ErrNotMaster
	}
	if !r.claimed {
		return nil // Claimed asks for all commands
	}
	if b.First == 0 {
		if r.f.room(len(messages)) { // else they are lost, like those that a connection loses
			r.tell(Message{Kind: Commands, Generation: b.Generation, Epoch: b.Epoch, Count: b.Count, Bytes: messages})
		}
		return nil
	}
	if b.Epoch != r.epoch {
		r.epoch, r.sent = b.Epoch, 0
	}
	for seq := b.First; len(messages) > 0 && !r.behind; {
		count, size := cut(messages)
		if last := seq + uint64(count) - 1; last > r.sent {
			if !r.f.room(size) {
				r.behind = true
				r.f.behind = append(r.f.behind, r)
				break
			}
			r.tell(Message{Kind: Commands, Generation: b.Generation, Epoch: b.Epoch, Seq: seq, Count: uint32(count),
				Bytes: messages[:size]})
			r.sent = last
		}
		seq, messages = seq+uint64(count), messages[size:]
	}
	return nil
}

// cut returns how many messages, and bytes, of whole transactions make the next block.
func cut(messages []byte) (count, size int) {
	for size < len(messages) {
		msg := messages[size:]
		if size >= block && openflow.XID(msg)&handshake.ContinuesXID == 0 {
			break
		}
		size += int(msg[2])<<8 | int(msg[3])
		count++
	}
	return count, size
}

// Acknowledge, Logged and Skipped do nothing: the follower learns from its own log what is logged.
func (r *Remote) Acknowledge(uint64, uint64) {}

// Logged does nothing, see Acknowledge.
func (r *Remote) Logged(uint64, uint64, []byte) bool { return true }

// Skipped does nothing, see Acknowledge.
func (r *Remote) Skipped(uint64, uint64, int) bool { return true }

// Hold implements controller.Session.
func (r *Remote) Hold() { r.tell(Message{Kind: Hold}) }

// Resend implements controller.Session.
func (r *Remote) Resend() { r.tell(Message{Kind: Resend}) }

// Refuse implements controller.Session.
func (r *Remote) Refuse(reason experimenter.Reason, epoch uint64) {
	r.tell(Message{Kind: Refuse, Reason: reason, Epoch: epoch})
}

// Close ends the session at the follower.
func (r *Remote) Close(err error) { r.tell(Message{Kind: Close, Text: err.Error()}) }
