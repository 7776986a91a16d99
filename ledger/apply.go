package ledger

import (
	"bytes"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/stream"
)

// diverged is the advice to the operator when the log does not fit the state of this replica.
const diverged = "this replica diverged; leave it stopped, and keep its data for a report: a majority goes on " +
	"without it"

// apply applies one record of a committed entry or of a snapshot. Its checks fail only if replicas have diverged.
func (s *state) apply(r *Record) error {
	switch r.Op {
	case OpEvent:
		return s.applyEvent(r.Switch, r.Epoch, r.Seq, r.Bytes, message.KindOf(r.Bytes))
	case OpSeen:
		return s.sw(r.Switch).advance(r.Epoch, r.Seq)
	case OpSkipped:
		return s.applySkipped(r)
	case OpTimer, OpCancelTimer:
		s.removeTimer(r.timerName())
	case OpUnreachable:
		s.sw(r.Switch).reachable = false
	case OpReachable:
		s.sw(r.Switch).reachable = true
	case OpCloseEpoch:
		s.sw(r.Switch).end(true)
	case OpPut:
		t := s.table(r.Table)
		if r.kept {
			t.cells.Keep(r.Cell, r.Field, r.Bytes)
		} else {
			t.cells.Put(r.Cell, r.Field, r.Bytes)
		}
		t.revision = s.revision
	case OpDelete:
		t := s.table(r.Table)
		t.cells.Delete(r.Cell, r.Field)
		t.revision = s.revision
	case OpDrop:
		t := s.table(r.Table)
		t.cells.Take(r.Cell)
		t.revision = s.revision
	case OpClear:
		t := s.table(r.Table)
		t.cells = new(cells.Table)
		t.revision = s.revision
	case OpCommand:
		sw := s.sw(r.Switch)
		if next := sw.queue.Last() + 1; r.Seq != next {
			return fmt.Errorf("switch %s: command %d where %d is next: "+diverged, r.Switch, r.Seq, next)
		}
		if !message.Single(r.Bytes) {
			return fmt.Errorf("switch %s: command %d of %d bytes is not one message", r.Switch, r.Seq, len(r.Bytes))
		}
		sw.command(r.Bytes)
	case OpSetTimer:
		s.setTimer(r.timerName(), timer{r.Time, bytes.Clone(r.Bytes)})
	case OpDone:
		if sw := s.sw(r.Switch); sw.epoch == r.Epoch {
			if err := sw.queue.Ack(r.Seq); err != nil {
				return fmt.Errorf("switch %s: commands are complete: %w: "+diverged, r.Switch, err)
			}
		}
	case OpSuspend:
		s.suspend(r.Actor, suspension{r.Time, r.Name, r.Early})
	case OpForget:
		s.forget(r.Switch, r.Epoch)
	case OpPart:
		s.parts = append(s.parts, r.Bytes)
	case OpSwitch:
		s.sw(r.Switch).load(*r.Saved)
	default:
		return s.applyLink(r)
	}
	return nil
}

// put is apply of an OpPut, which waits.
func (s *state) put(r *Record) {
	t := s.table(r.Table)
	t.revision = s.revision
	if !s.writes.Add(t.cells, r.Cell, r.Field, r.Bytes, r.kept) {
		s.writes.Do()
	}
}

func (r *Record) timerName() timerName { return timerName{r.Actor, r.Name} }

func (s *state) applySkipped(r *Record) error {
	sw := s.sw(r.Switch)
	before := uint64(sw.events)
	if r.Epoch != sw.epoch || r.Seq <= before || r.Asynchronous > r.Seq-before {
		return fmt.Errorf("switch %s: events up to %d of epoch %d, %d asynchronous, after %d of %d: "+diverged,
			r.Switch, r.Seq, r.Epoch, r.Asynchronous, sw.events, sw.epoch)
	}
	sw.totalEvents += r.Seq - before
	sw.events = stream.Watermark(r.Seq)
	return nil
}

func (s *state) applyEvent(id openflow.DatapathID, epoch, seq uint64, msg []byte, kind message.Kind) error {
	sw := s.sw(id)
	if epoch > sw.epoch && seq == 1 {
		sw.begin(epoch, bytes.Clone(msg))
	}
	if err := sw.advance(epoch, seq); err != nil {
		return err
	}
	if kind == message.SwitchDown {
		sw.end(false)
	}
	return nil
}

// advance sets the watermark to the next event.
func (sw *switchState) advance(epoch, seq uint64) error {
	before := sw.events
	if repeated, err := sw.events.Accept(seq, 1); epoch != sw.epoch || repeated > 0 || err != nil {
		return fmt.Errorf("switch %s: event %d of epoch %d after %d of %d: "+diverged, sw.id, seq, epoch, before,
			sw.epoch)
	}
	sw.totalEvents++
	return nil
}

func (sw *switchState) command(msg []byte) {
	sw.queue.Push(msg)
	sw.totalCommands++
}
