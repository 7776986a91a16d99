package ledger

import (
	"bytes"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// diverged is what an operator reads of a log that does not go on from what this replica has.
const diverged = "this replica diverged; leave it stopped, and keep its data for a report: a majority goes on " +
	"without it"

// apply brings the state to where it is after one record of a committed entry, or of a
// snapshot. Its checks fail only if replicas have diverged.
func (s *state) apply(r *Record) error {
	switch r.Op {
	case OpEvent:
		return s.applyEvent(r.Switch, r.Epoch, r.Seq, r.Bytes)
	case OpSeen:
		return s.sw(r.Switch).advance(r.Epoch, r.Seq)
	case OpSkipped:
		return s.applySkipped(r)
	case OpTimer, OpCancelTimer:
		delete(s.timers, timerName{r.App, r.Name})
	case OpUnreachable:
		s.sw(r.Switch).reachable = false
	case OpReachable:
		s.sw(r.Switch).reachable = true
	case OpCloseEpoch:
		sw := s.sw(r.Switch)
		sw.end()
		sw.closed = true
	case OpPut:
		t := s.table(r.Table)
		t.put(r.Cell, r.Field, bytes.Clone(r.Bytes)) // r.Bytes would pin the whole entry
		t.revision = s.revision
	case OpDelete:
		t := s.table(r.Table)
		t.delete(r.Cell, r.Field)
		t.revision = s.revision
	case OpCommand:
		sw := s.sw(r.Switch)
		if sw.queue.next != r.Seq {
			return fmt.Errorf("switch %s: command %d where %d is next: "+diverged, r.Switch, r.Seq, sw.queue.next)
		}
		if h, err := openflow.ParseHeader(r.Bytes); err != nil || int(h.Length) != len(r.Bytes) {
			return fmt.Errorf("switch %s: command %d of %d bytes is not one message", r.Switch, r.Seq, len(r.Bytes))
		}
		sw.command(r.Bytes)
	case OpSetTimer:
		s.timers[timerName{r.App, r.Name}] = timer{r.Time, bytes.Clone(r.Bytes)}
	case OpDone:
		if sw := s.sw(r.Switch); sw.epoch == r.Epoch {
			sw.queue.pop(r.Seq)
		}
	case OpPart:
		s.parts = append(s.parts, r.Bytes)
	case OpSwitch:
		return s.sw(r.Switch).load(*r.Saved)
	}
	return nil
}

func (s *state) applySkipped(r *Record) error {
	sw := s.sw(r.Switch)
	if r.Epoch != sw.epoch || r.Seq <= sw.events || r.Asynchronous > r.Seq-sw.events {
		return fmt.Errorf("switch %s: events up to %d of epoch %d, %d asynchronous, after %d of %d: "+diverged,
			r.Switch, r.Seq, r.Epoch, r.Asynchronous, sw.events, sw.epoch)
	}
	sw.totalEvents += r.Seq - sw.events
	sw.events = r.Seq
	return nil
}

func (s *state) applyEvent(id openflow.DatapathID, epoch, seq uint64, msg []byte) error {
	sw := s.sw(id)
	if epoch > sw.epoch && seq == 1 {
		sw.begin(epoch, bytes.Clone(msg))
	}
	if err := sw.advance(epoch, seq); err != nil {
		return err
	}
	if t, ok := experimenter.Is(msg); ok && t == experimenter.TypeSwitchDown {
		sw.end()
	}
	return nil
}

// advance takes the watermark to the next event.
func (sw *switchState) advance(epoch, seq uint64) error {
	if epoch != sw.epoch || seq != sw.events+1 {
		return fmt.Errorf("switch %s: event %d of epoch %d after %d of %d: "+diverged, sw.id, seq, epoch, sw.events,
			sw.epoch)
	}
	sw.events = seq
	sw.totalEvents++
	return nil
}

func (sw *switchState) command(msg []byte) {
	sw.queue.push(msg)
	sw.totalCommands++
}
