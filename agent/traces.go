package agent

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/trace"
)

// maxTraced bounds the events of a switch that are followed at a time. Others are not followed.
const maxTraced = 1024

// traces follows some events of a switch from when they are read until a controller has said that they are logged.
// These are the first spans of their traces. It is guarded by the device's mu.
type traces struct {
	to    *trace.Tracer // nil: nothing is followed
	epoch uint64
	seen  uint64 // events up to it were looked at
	open  []tracedEvent
}

type tracedEvent struct {
	trace.Event
	read time.Time
}

// look is called when the session has taken something in. The caller holds mu.
func (d *device) look() {
	t := &d.traces
	if t.to == nil {
		return
	}
	epoch, last := d.session.Newest()
	if epoch != t.epoch {
		t.epoch, t.seen = epoch, 0
	}
	now := time.Now()
	for ; t.seen < last; t.seen++ {
		e := trace.Event{Switch: d.id, Epoch: epoch, Seq: t.seen + 1}
		if t.to.Takes(e) && len(t.open) < maxTraced {
			t.open = append(t.open, tracedEvent{e, now})
		}
	}
	logged := d.session.Logged()
	n := 0
	for n < len(t.open) && (t.open[n].Epoch < logged.Epoch ||
		t.open[n].Epoch == logged.Epoch && t.open[n].Seq <= logged.Seq) {
		t.to.Put(trace.Span{Event: t.open[n].Event, Name: "event", Root: true, Start: t.open[n].read, End: now})
		n++
	}
	if t.open = t.open[n:]; len(t.open) == 0 {
		t.open = nil
	}
}

// forget is called when the session may have discarded events: those of epochs before the oldest that is left, or all
// if none is. They were not logged, so they get no span. look has ended the spans of those that were.
func (t *traces) forget(oldest uint64) {
	t.open = slices.DeleteFunc(t.open, func(e tracedEvent) bool { return oldest == 0 || e.Epoch < oldest })
}
