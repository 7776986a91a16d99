package history

import (
	"bytes"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// switchHistory is what is observed of a switch behind an agent. The log has one epoch after the other; the agent may
// be ahead of it.
type switchHistory struct {
	loggedSwitch
	epochs []*epochHistory // that the agent opened, in that order
	logged *epochHistory   // that of loggedSwitch
}

// epochHistory is one epoch of a switch.
type epochHistory struct {
	loggedEpoch            // once the ledger has refused it, the agent's further events are discarded
	unlogged    fifo[told] // events of the agent that are not logged
	closed      bool       // the agent sent SWITCH_DOWN
	ragged      bool       // and may have dropped events just before that
	lost        bool       // unlogged events may stay so
	over        bool       // for the agent: its commands are discarded
}

// told is an event that the agent has.
type told struct {
	fingerprint
	msg []byte // nil of SWITCH_UP and SWITCH_DOWN, which the log always has
}

func toldBy(msg []byte) told { return told{fingerprintOf(msg), bytes.Clone(msg)} }

// digested is the digest that the log has of an event in place of its message.
type digested struct {
	typ    uint8
	digest uint64
}

func (s digested) String() string {
	return fmt.Sprintf("a message of type %d, digest %016x", s.typ, s.digest)
}

// find returns an epoch that the agent opened.
func (s *switchHistory) find(epoch uint64) *epochHistory {
	for i := len(s.epochs) - 1; i >= 0; i-- {
		if e := s.epochs[i]; e.epoch == epoch {
			return e
		}
	}
	return nil
}

func (s *switchHistory) begin(epoch uint64) error {
	e := &epochHistory{loggedEpoch: loggedEpoch{epoch: epoch}}
	if n := len(s.epochs); n > 0 {
		last := s.epochs[n-1]
		if epoch <= last.epoch && !last.lost { // an agent that lost its state knows only its clock
			return violated("switch %s: the agent opens epoch %d after epoch %d", s.id, epoch, last.epoch)
		}
		last.over = true
	}
	e.unlogged.push(told{fingerprint: fingerprint{special: experimenter.TypeSwitchUp}})
	s.epochs = append(s.epochs, e)
	return nil
}

func (s *switchHistory) read(epoch uint64, event told) error {
	e := s.find(epoch)
	if e == nil || e.over {
		return violated("switch %s: the agent reads %v in epoch %d, which is not open", s.id, event, epoch)
	}
	e.unlogged.push(event)
	return nil
}

func (s *switchHistory) close(epoch uint64, down fingerprint) error {
	if err := s.read(epoch, told{fingerprint: down}); err != nil {
		return err
	}
	e := s.find(epoch)
	e.closed, e.over = true, true
	return nil
}

// end is close for an unknown reason.
func (s *switchHistory) end(epoch uint64, ragged bool) error {
	if e := s.find(epoch); e != nil {
		if e.over {
			return nil // and how it ended no longer matters
		}
		e.ragged = ragged
	}
	return s.close(epoch, fingerprint{special: experimenter.TypeSwitchDown})
}

func (s *switchHistory) lose(epoch uint64) {
	for _, e := range s.epochs {
		if e.epoch <= epoch {
			e.lost, e.over = true, true
		}
	}
}

// refuse has the agent forget an epoch that is over in the log.
func (s *switchHistory) refuse(epoch uint64) error {
	if err := s.loggedSwitch.refuse(epoch); err != nil {
		return err
	}
	s.lose(epoch)
	return nil
}

// logEvent checks the next event of the log.
func (s *switchHistory) logEvent(epoch, seq uint64, f fingerprint) error {
	down := f.special == experimenter.TypeSwitchDown
	if e := s.find(epoch); down && e != nil && e.ragged {
		for e.unlogged.len() > 1 {
			e.unlogged.pop()
		}
	}
	want, err := s.take(epoch, seq, f)
	if err != nil {
		return err
	}
	if reasonless := (fingerprint{special: f.special}); down && want.fingerprint == reasonless {
		want.fingerprint = f
	}
	if f != want.fingerprint {
		return violated("switch %s, epoch %d: event %d is %v, but the agent had %v", s.id, epoch, seq, f, want)
	}
	s.logged.ended = down
	return nil
}

// logSeen is logEvent for an event that the log has by its digest. It returns the message.
func (s *switchHistory) logSeen(epoch, seq uint64, got digested) ([]byte, error) {
	want, err := s.take(epoch, seq, got)
	if err != nil {
		return nil, err
	}
	if want.special != 0 || got != (digested{want.typ, digest.Of(want.msg)}) {
		return nil, violated("switch %s, epoch %d: event %d is %v, but the agent had %v", s.id, epoch, seq, got, want)
	}
	return want.msg, nil
}

// take removes the agent's event that must be the next in the log, at f.
func (s *switchHistory) take(epoch, seq uint64, f fmt.Stringer) (told, error) {
	if s.logged == nil || epoch > s.logged.epoch {
		if err := s.logEpoch(epoch, seq); err != nil {
			return told{}, err
		}
	}
	if err := s.loggedSwitch.next(epoch, seq, f); err != nil {
		return told{}, err
	}
	if s.logged.unlogged.len() == 0 {
		return told{}, violated("switch %s, epoch %d: event %d (%v), but the agent had only %d", s.id, epoch, seq, f,
			seq-1)
	}
	return s.logged.unlogged.pop(), nil
}

// logEpoch begins an epoch in the log; those before must be complete.
func (s *switchHistory) logEpoch(epoch, seq uint64) error {
	e := s.find(epoch)
	if e == nil {
		return violated("switch %s: event %d of epoch %d, which no agent opened", s.id, seq, epoch)
	}
	for _, before := range s.epochs {
		if before == e {
			break
		}
		if err := s.whole(before); err != nil {
			return violated("%v, and epoch %d begins", err, epoch)
		}
		before.unlogged = fifo[told]{}
	}
	s.logged, s.epoch = e, &e.loggedEpoch
	return nil
}

// whole checks that all required events of an epoch are in the log.
func (s *switchHistory) whole(e *epochHistory) error {
	if n := e.unlogged.len(); n > 0 && !e.lost && !e.refused {
		return violated("switch %s, epoch %d: the log has %d events of %d; next is %v", s.id, e.epoch, e.events,
			e.events+uint64(n), e.unlogged.first())
	}
	return nil
}

func (s *switchHistory) acknowledge(epoch, seq uint64) error {
	if seq == 0 {
		return nil // it is told which epochs are over
	}
	e := s.find(epoch)
	if e == nil || s.logged == nil || epoch > s.logged.epoch || seq > e.events {
		has := uint64(0)
		if e != nil {
			has = e.events
		}
		return violated("switch %s, epoch %d: the agent is told that event %d is logged; what is committed has %d",
			s.id, epoch, seq, has)
	}
	return nil
}

// finish checks that nothing is missing.
func (s *switchHistory) finish() error {
	for _, e := range s.epochs {
		if err := s.whole(e); err != nil {
			return violated("at the end: %v", err)
		}
	}
	return nil
}

// fifo is a queue.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int    { return len(q.items) - q.head }
func (q *fifo[T]) first() T    { return q.items[q.head] }
func (q *fifo[T]) push(item T) { q.items = append(q.items, item) }
func (q *fifo[T]) pop() T {
	item := q.items[q.head]
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 1024 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return item
}
