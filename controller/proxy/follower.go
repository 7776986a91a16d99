package proxy

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Session is a session of a switch at this controller, as southbound.Session.
type Session interface {
	Switch() openflow.DatapathID
	State() southbound.State

	Claim(generation uint64, r southbound.Resume) error
	Standby(generation uint64)
	Send(b experimenter.Block, messages []byte) error
	Acknowledge(epoch, seq uint64)
	Logged(epoch, seq uint64, msg []byte) bool
	Skipped(epoch, seq uint64, n int) bool

	Hold()
	Resend()
	Refuse(reason experimenter.Reason, epoch uint64)
	Close(err error)
}

// Follower is the follower's half. It offers the leader all sessions of this controller, and does with those that the
// leader claims what the leader says. Events are acknowledged according to the log of this controller, not by the
// leader: so what a session holds is at any time what the log lacks, and the next leader continues from there.
type Follower struct {
	link
	version func(Session) uint64
	term    uint64     // of the leader, who is the other end of the link
	index   uint64     // of the last entry that is applied
	last    uint64     // number of the newest session
	proxies []*proxied // by number
	of      map[Session]*proxied
	claimed map[openflow.DatapathID]*proxied // of which the leader is the master
	claims  []*proxied                       // whose claim waits for its entry
	logged  []*proxied                       // whose ack is newer than what their sessions know
	waiting []*proxied                       // whose events have no room, oldest first
	looked  time.Time                        // when the states of all sessions were looked at
}

// proxied is one session.
type proxied struct {
	session Session
	number  uint64
	since   time.Time        // when it was attached
	state   southbound.State // as the leader knows it

	claim   uint32   // by which the leader is the master of the switch; 0: it is not
	pending *Message // a claim that waits for its entry

	batch southbound.Batch // that the leader has not executed
	done  func(error)      // of batch; nil if there is none

	epoch, seq uint64 // of the last event in the log
	noted      bool   // it is in logged
}

// NewFollower returns the half of a controller without a leader. version returns that of the assignment of a session's
// switch to the group, for generations.
func NewFollower(net Network, version func(Session) uint64) *Follower {
	return &Follower{link: link{net: net, alive: Beat}, version: version, of: map[Session]*proxied{},
		claimed: map[openflow.DatapathID]*proxied{}}
}

// Follow ends the link, and begins one to another leader; 0: there is none, or it is this controller.
func (f *Follower) Follow(now time.Time, leader, term uint64) {
	f.now = now
	standby := term
	if leader == 0 {
		standby = 0 // nobody has won the term, or it is not known
	}
	f.end(standby)
	f.member, f.term = leader, term
	f.begin()
}

// end ends the link. Its sessions become standbys, of the leader of a term if that is known.
func (f *Follower) end(term uint64) {
	if f.id == 0 {
		return
	}
	f.broken, f.waiting, f.claims = true, nil, nil
	for _, p := range f.proxies {
		f.release(p, term)
	}
}

// begin begins a link and offers all sessions.
func (f *Follower) begin() {
	if f.member == 0 {
		f.id = 0
		return
	}
	f.open(max(uint64(f.now.UnixNano()), f.id+1))
	f.send(Message{Kind: Begin, Term: f.term})
	for _, p := range f.proxies {
		if !f.broken {
			f.offer(p)
		}
	}
}

func (f *Follower) offer(p *proxied) {
	p.state = p.session.State()
	f.send(Message{Kind: Offer, Session: p.number, Switch: p.session.Switch(), Age: f.now.Sub(p.since), State: p.state})
}

// release ends the claim of the leader, if there is one. The session delivers again what is not in the log when it is
// claimed the next time.
func (f *Follower) release(p *proxied, term uint64) {
	p.pending = nil
	if p.claim == 0 {
		return
	}
	f.forget(p)
	p.session.Standby(experimenter.Generation(f.version(p.session), term, 0))
}

// forget ends the claim of a session, which may have ended.
func (f *Follower) forget(p *proxied) {
	p.pending = nil
	if p.claim != 0 {
		p.claim = 0
		if id := p.session.Switch(); f.claimed[id] == p {
			delete(f.claimed, id)
		}
		f.finish(p, nil)
	}
}

// finish ends the delivery of events that the session waits for. They may still have no room: the session may deliver
// them again, and they must not be sent twice.
func (f *Follower) finish(p *proxied, err error) {
	if done := p.done; done != nil {
		f.waiting = slices.DeleteFunc(f.waiting, func(o *proxied) bool { return o == p })
		p.batch, p.done = southbound.Batch{}, nil
		done(err)
	}
}

// Stop ends the deliveries that sessions wait for: no leader will be told of them any more.
func (f *Follower) Stop(err error) {
	for _, p := range f.proxies {
		f.finish(p, err)
	}
}

// Attached offers a new session.
func (f *Follower) Attached(s Session) {
	f.last++
	p := &proxied{session: s, number: f.last, since: f.now}
	f.of[s] = p
	f.proxies = append(f.proxies, p)
	f.offer(p)
}

// Detached ends a session. None of its events waits any more.
func (f *Follower) Detached(s Session) {
	if p := f.of[s]; p != nil {
		f.forget(p)
		delete(f.of, s)
		f.proxies = slices.DeleteFunc(f.proxies, func(o *proxied) bool { return o == p })
		f.send(Message{Kind: Withdraw, Session: p.number})
	}
}

// Serves reports whether the leader is the master of a switch through this controller.
func (f *Follower) Serves(id openflow.DatapathID) bool { return f.claimed[id] != nil }

// Events passes a batch to the leader. done is called once, now or later, as that of controller.Core.Events. Events of
// a session that the leader has not claimed stay with the switch or its session.
func (f *Follower) Events(s Session, b southbound.Batch, done func(error)) {
	p := f.of[s]
	if p == nil || p.claim == 0 || !s.State().InSync {
		done(nil)
		return
	}
	p.batch, p.done = b, done
	f.waiting = append(f.waiting, p)
	f.pump()
}

// pump sends the events that have room.
func (f *Follower) pump() {
	for len(f.waiting) > 0 {
		p := f.waiting[0]
		if !f.room(len(p.batch.Messages)) {
			return
		}
		f.tell(p)
		b := &p.batch
		f.send(Message{Kind: Events, Session: p.number, Claim: p.claim, Epoch: b.Epoch, Seq: b.First,
			Count: uint32(b.Count), Done: b.Done, Bytes: b.Messages})
		f.waiting = f.waiting[1:]
	}
	f.waiting = nil
}

// tell reports the state of a session if it has changed.
func (f *Follower) tell(p *proxied) {
	if st := p.session.State(); st != p.state {
		p.state = st
		f.send(Message{Kind: Changed, Session: p.number, Claim: p.claim, State: st})
	}
}

// CommandsDone passes to the leader that a switch has executed its commands up to seq.
func (f *Follower) CommandsDone(s Session, epoch, seq uint64) {
	p := f.of[s]
	if p == nil || p.claim == 0 || !s.State().InSync {
		return
	}
	f.tell(p)
	f.send(Message{Kind: Done, Session: p.number, Claim: p.claim, Epoch: epoch, Seq: seq})
}

// Logged reports that an event is in the log. It returns false if the session of the switch is a standby, which must
// then be told by itself. It becomes one here if it has not numbered the event so: then the leader uses another
// session.
func (f *Follower) Logged(id openflow.DatapathID, epoch, seq uint64, msg []byte) bool {
	p := f.claimed[id]
	if p != nil && p.state.Peer == southbound.Bundles && !p.session.Logged(epoch, seq, msg) {
		f.renew(p)
		return false
	}
	return f.note(p, epoch, seq)
}

// Skipped is Logged for the events up to seq of which the log contains only the number, as southbound.Session.Skipped.
func (f *Follower) Skipped(id openflow.DatapathID, epoch, seq uint64, n int) bool {
	p := f.claimed[id]
	if p != nil && p.state.Peer == southbound.Bundles && !p.session.Skipped(epoch, seq, n) {
		f.renew(p)
		return false
	}
	return f.note(p, epoch, seq)
}

// note has an event acknowledged by the next Applied.
func (f *Follower) note(p *proxied, epoch, seq uint64) bool {
	if p == nil {
		return false
	}
	p.epoch, p.seq = epoch, seq
	if !p.noted {
		p.noted, f.logged = true, append(f.logged, p)
	}
	return true
}

// renew ends the claim of the leader, which then knows the session as a new one: it may not know that the claim has
// ended.
func (f *Follower) renew(p *proxied) {
	if p.noted {
		p.session.Acknowledge(p.epoch, p.seq)
	}
	f.release(p, f.term)
	f.send(Message{Kind: Withdraw, Session: p.number})
	f.last++
	p.number = f.last
	f.proxies = append(slices.DeleteFunc(f.proxies, func(o *proxied) bool { return o == p }), p)
	f.offer(p)
}

// Applied reports that all entries up to index are applied, and their events reported.
func (f *Follower) Applied(index uint64) {
	f.index = index
	for _, p := range f.logged {
		p.noted = false
		if p.claim != 0 {
			p.session.Acknowledge(p.epoch, p.seq)
		}
	}
	f.logged = f.logged[:0]
	claims := f.claims
	f.claims = nil
	for _, p := range claims {
		f.tryClaim(p)
	}
}

// tryClaim claims the switch for the leader once this log contains what the claim relies on: what the session holds is
// numbered from there on.
func (f *Follower) tryClaim(p *proxied) {
	m := p.pending
	switch {
	case m == nil || f.broken: // withdrawn meanwhile, or of a leader that cannot be told: it claims on the next link
		return
	case m.Index > f.index:
		f.claims = append(f.claims, p)
		return
	}
	p.pending = nil
	if err := p.session.Claim(m.Generation, m.Resume); err != nil {
		p.session.Close(err)
		return
	}
	p.claim, p.epoch, p.seq = m.Claim, 0, 0
	f.claimed[p.session.Switch()] = p
	p.state = p.session.State() // the leader must not take the last one for one since the claim
	f.send(Message{Kind: Changed, Session: p.number, Claim: p.claim, State: p.state})
	f.send(Message{Kind: Claimed, Session: p.number, Claim: p.claim})
}

// Tick begins a new link if the last one has ended, and keeps this one alive.
func (f *Follower) Tick(now time.Time) {
	f.now = now
	if f.member == 0 {
		return
	}
	if now.Sub(f.looked) >= beatEvery {
		f.looked = now
		for _, p := range f.proxies {
			f.tell(p)
		}
	}
	if !f.beat() {
		f.end(f.term)
		f.begin()
	}
}

// Broken says whether the link to the leader is to be made again by Tick.
func (f *Follower) Broken() bool { return f.member != 0 && f.broken }

// Receive handles a payload of another controller, if it is from a leader.
func (f *Follower) Receive(now time.Time, from uint64, payload []byte) {
	if !fromLeader(payload) {
		return
	}
	f.now = now
	m, err := Parse(payload)
	if err != nil || from != f.member || m.Link != f.id || f.id == 0 {
		return // of an earlier link, or of a deposed leader
	}
	if m.Kind == Restart {
		f.broken = true
		return
	}
	if !f.takes(&m) {
		return
	}
	if i, ok := slices.BinarySearchFunc(f.proxies, m.Session, func(p *proxied, number uint64) int {
		return int(p.number) - int(number)
	}); ok {
		f.handle(f.proxies[i], &m)
	}
	f.consume(len(m.Bytes))
	f.pump()
}

// handle does what the leader says.
func (f *Follower) handle(p *proxied, m *Message) {
	if m.Kind == Claim {
		f.release(p, f.term)
		p.pending = m
		f.tryClaim(p)
		return
	}
	if m.Kind == Standby && p.pending != nil && p.pending.Claim == m.Claim {
		p.pending = nil
	}
	if m.Claim != p.claim { // also the leader refuses and closes sessions that it has not claimed
		return
	}
	switch m.Kind {
	case Standby:
		f.release(p, f.term)
	case Commands:
		b := experimenter.Block{Generation: m.Generation, Epoch: m.Epoch, First: m.Seq, Count: m.Count}
		if err := p.session.Send(b, m.Bytes); err != nil {
			p.session.Close(err)
		}
	case Executed:
		if m.Text != "" {
			f.finish(p, errors.New(m.Text))
		} else {
			f.finish(p, nil)
		}
	case Hold:
		p.session.Hold()
	case Resend:
		p.session.Resend()
	case Refuse:
		p.session.Refuse(m.Reason, m.Epoch)
	case Close:
		p.session.Close(errors.New(m.Text))
	}
}
