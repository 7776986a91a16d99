package southbound

import (
	"bytes"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// member is a controller of a plant. It does as much of what package controller and the ledger do as a Core needs.
type member struct {
	*plant
	n       int
	term    uint64 // the latest term that it knows
	applied int    // number of records that it has applied
	leads   bool   // it believes that it leads

	wire     *wire // nil without a connection
	core     *Core
	attached bool
	holds    bool   // the next events will be held up
	held     uint64 // epoch whose events are held up, or 0

	pending []proposal // of the leader: executed, not logged yet
	outbox  []send     // of the leader: logged, not sent yet
}

// proposal is a batch of events and what it causes, or a completion, or the end of an epoch.
type proposal struct {
	Batch
	closes bool
}

// send is a block of commands.
type send struct {
	block    experimenter.Block
	messages []byte
}

// connect opens a connection.
func (m *member) connect() {
	if m.wire != nil {
		return
	}
	m.wire, m.core = m.dial(), &Core{}
	m.take()
}

// take moves the output of the core to the wire.
func (m *member) take() {
	if m.core != nil {
		m.wire.out = append(m.wire.out, m.core.TakeOut()...)
	}
}

// breaks ends the connection. A leader that survives logs it.
func (m *member) breaks(dies bool) {
	if m.wire == nil {
		return
	}
	if m.attached && !dies {
		if a := m.core.End(experimenter.ReasonConnectionLost); a.Kind == Events {
			m.events(a.Batch, true)
		}
	}
	m.part(m.wire)
	m.wire, m.core, m.attached, m.held = nil, nil, false, 0
}

// dies discards everything except the log.
func (m *member) dies() {
	m.breaks(true)
	m.leads, m.pending, m.outbox = false, nil, nil
}

// hears delivers up to n of the messages that have arrived to the core.
func (m *member) hears(n int) {
	if m.wire == nil {
		return
	}
	k := prefix(m.wire.in, n)
	buf := bytes.Clone(m.wire.in[:k])
	m.wire.in = m.wire.in[k:]
	for rest := buf; len(rest) > 0; {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		if _, ok := sharedSum(msg); ok {
			m.wire.arrived++
		}
	}
	for len(buf) > 0 || m.core.More() {
		rest, a, err := m.core.Next(buf, m.now)
		m.take()
		if err != nil {
			m.t.Fatalf("controller %d: %v", m.n, err)
		}
		if len(rest) >= len(buf) && a.Kind == Nothing {
			m.t.Fatalf("controller %d makes no progress with %x", m.n, buf)
		}
		buf = bytes.Clone(rest)
		switch a.Kind {
		case Attached:
			m.attached = true
			if m.leads {
				m.claims()
			} else {
				m.core.Standby(m.term)
			}
		case Events:
			m.events(a.Batch, false)
		case CommandsDone:
			a.Batch.Done = a.Done
			m.propose(proposal{Batch: a.Batch})
		}
		m.take()
	}
}

// events executes a batch of events, unless events are held up.
func (m *member) events(b Batch, last bool) {
	if countMessages(b.Messages) != b.Count || b.Count == 0 {
		m.t.Fatalf("controller %d: %d messages in a batch of %d", m.n, countMessages(b.Messages), b.Count)
	}
	if m.held == b.Epoch && !last {
		m.t.Fatalf("controller %d: events are handed over between Hold and Resend", m.n)
	}
	if m.holds && m.leads {
		m.holds, m.held = false, b.Epoch
		m.core.Hold()
		return
	}
	b.Messages = bytes.Clone(b.Messages)
	m.propose(proposal{Batch: b})
}

func (m *member) propose(p proposal) {
	if m.leads {
		m.pending = append(m.pending, p)
	}
}

// resend ends the hold.
func (m *member) resend() {
	m.holds = false
	if m.attached && m.held > 0 {
		m.held = 0
		m.core.Resend()
		m.take()
	}
}

// mark does what a tick does: it may send a sync marker.
func (m *member) mark() {
	if m.attached {
		m.core.Tick(m.now, true)
		m.take()
	}
}

// commits adds the leader's next proposal to the log, or drops it.
func (m *member) commits() {
	if len(m.pending) == 0 {
		return
	}
	b := m.pending[0]
	m.pending = m.pending[1:]
	s := m.plant.state()
	if m.term != m.plant.term || b.Epoch < s.epoch {
		return
	}
	if b.closes {
		if s.live && b.Epoch == s.epoch {
			m.append(record{term: m.term, epoch: b.Epoch, closed: true})
		}
		return
	}
	seq := b.First
	for rest := b.Messages; len(rest) > 0; seq++ {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		switch s := m.plant.state(); {
		case b.Epoch > s.epoch && isUp(msg) && seq == 1:
		case isDown(msg) && (b.Epoch > s.epoch || seq > s.events+1):
			continue // an event before it was held up: the controller drops SWITCH_DOWN too
		case b.Epoch == s.epoch && s.closedAt(m.plant.log):
			continue // the session is refused, and begins a new epoch
		case b.Epoch != s.epoch || seq > s.events+1:
			m.t.Fatalf("controller %d: event %d of epoch %d, when %d of epoch %d are in the log", m.n, seq, b.Epoch,
				s.events, s.epoch)
		case seq <= s.events:
			continue
		}
		r := record{term: m.term, epoch: b.Epoch, msg: msg}
		if shared(msg[1]) || isUp(msg) {
			next := uint64(1)
			if !isUp(msg) {
				next = uint64(len(m.plant.state().commands)) + 1
			}
			r.commands = m.makes(b.Epoch, next)
		}
		m.append(r)
	}
	if s := m.plant.state(); b.Done > s.done && b.Epoch == s.epoch {
		m.append(record{term: m.term, epoch: b.Epoch, done: b.Done})
	}
}

// closedAt reports whether the epoch was closed by the ledger.
func (s ledgerState) closedAt(log []record) bool {
	return !s.live && slices.ContainsFunc(log, func(r record) bool { return r.closed && r.epoch == s.epoch })
}

// learns tells the member of a later term.
func (m *member) learns(term uint64) {
	if term <= m.term {
		return
	}
	m.term = term
	m.stands()
}

// stands makes the member a standby.
func (m *member) stands() {
	m.leads, m.pending, m.outbox, m.held = false, nil, nil, 0
	if m.attached {
		m.core.Standby(m.term)
		m.take()
	}
}

// applies applies up to n more records of the log.
func (m *member) applies(n int) {
	for ; n > 0 && m.applied < len(m.log); n-- {
		r := m.log[m.applied]
		m.learns(r.term)
		m.applied++
		if m.leads {
			m.releases(r)
		} else if m.attached && r.msg != nil {
			m.core.Logged(r.epoch, 0, r.msg)
			m.take()
		}
	}
}

// releases does what follows when an own record is committed.
func (m *member) releases(r record) {
	if !m.attached {
		return
	}
	s := m.states[m.applied]
	if r.msg != nil {
		m.core.Acknowledge(s.epoch, s.events)
	}
	if r.closed {
		m.core.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: r.epoch}, m.now)
	}
	m.take()
	m.queue(s, len(r.commands))
}

// queue queues the last n commands.
func (m *member) queue(s ledgerState, n int) {
	if n > 0 && s.live {
		first := uint64(len(s.commands)-n) + 1
		m.outbox = append(m.outbox, send{experimenter.Block{Generation: m.term, Epoch: s.epoch, First: first,
			Count: uint32(n)}, concat(s.commands[first-1:]...)})
	}
}

// sends sends up to n blocks of commands.
func (m *member) sends(n int) {
	for ; n > 0 && len(m.outbox) > 0; n-- {
		x := m.outbox[0]
		m.outbox = m.outbox[1:]
		if !m.attached {
			continue
		}
		if err := m.core.Send(x.block, x.messages); err != nil {
			m.t.Fatalf("controller %d: %v", m.n, err)
		}
		m.take()
	}
}

// elected makes the member the leader of a new term.
func (m *member) elected() {
	m.plant.term++
	m.applies(len(m.log))
	if m.leads {
		m.learns(m.plant.term)
	}
	m.term, m.leads = m.plant.term, true
	if m.attached {
		m.claims()
	}
}

// claims claims the switch.
func (m *member) claims() {
	s := m.states[m.applied]
	r := Resume{Epoch: s.epoch, Live: s.live, Events: s.events, Commands: uint64(len(s.commands)),
		Done: s.done}
	if err := m.core.Claim(m.term, m.now, r); err != nil {
		m.t.Fatalf("controller %d: %v", m.n, err)
	}
	m.core.Acknowledge(s.epoch, s.events)
	m.outbox = nil
	if s.closedAt(m.log) {
		m.core.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: s.epoch}, m.now)
	} else {
		m.queue(s, len(s.commands)-int(s.done))
		m.sends(1)
	}
	m.take()
}

// checkHeld compares the events that a standby in sync holds with the log and with what the switch sent.
func (m *member) checkHeld() {
	if !m.attached || m.lossy || m.core.peer.(*bundles).state != following || !m.core.State().InSync ||
		len(m.core.hs.Early) > 0 {
		return
	}
	s := m.states[m.applied]
	h := &m.core.peer.(*bundles).held
	// Count only events that all controllers receive, after the last one that this member has applied.
	behind := 0
	for _, r := range m.log[m.applied:] {
		if r.epoch != s.epoch {
			return
		}
		if r.msg != nil && (shared(r.msg[1]) || isSyncMarker(r.msg)) {
			behind++
		}
	}
	if s.epoch != m.plant.state().epoch || len(m.at) != 1 {
		return
	}
	logged := m.at[0] - behind
	var sums []uint64
	for _, e := range h.about() {
		sums = append(sums, e.sum)
	}
	if from := m.wire.arrived; logged >= from {
		if !slices.Equal(h.ahead, m.order[from:logged+1]) || len(sums) > 0 {
			m.t.Fatalf("controller %d: the log is at %d, its connection at %d, and it holds %d and waits for %d", m.n,
				logged, from, len(sums), len(h.ahead))
		}
	} else if !slices.Equal(sums, m.order[logged+1:from]) || len(h.ahead) > 0 {
		m.t.Fatalf("controller %d: the log is at %d, its connection at %d, and it holds %d and waits for %d", m.n,
			logged, from, len(sums), len(h.ahead))
	}
}
