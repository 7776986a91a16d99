package controller

import (
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-sdn/holdfast/api"
)

// journal keeps the last events of a controller in memory, for the API. Failures of applications have a share of their
// own: there may be many, and they do not displace the others.
type journal struct {
	controller string
	stirred    chan struct{} // capacity 1: there is a new event

	mu       sync.Mutex // guards the fields below
	last     uint64
	failures []*api.Event
	others   []*api.Event
}

// Bounds of the journal.
const (
	maxJournal   = 512     // failures, and other events
	maxTraceback = 8 << 10 // bytes
	maxText      = 1 << 10
)

// newJournal returns one whose numbers are above those of an earlier process.
func newJournal(controller string) *journal {
	return &journal{controller: controller, last: uint64(time.Now().UnixMicro()), stirred: make(chan struct{}, 1)}
}

// add adds an event, which is not changed afterwards.
func (j *journal) add(e *api.Event) {
	e.Controller, e.Time = j.controller, timestamppb.Now()
	e.Text, e.Input, e.Traceback = cut(e.Text, maxText), cut(e.Input, maxText), cut(e.Traceback, maxTraceback)
	j.mu.Lock()
	j.last++
	e.Number = j.last
	list := &j.others
	if e.Kind == api.EventKind_EVENT_KIND_FAILED {
		list = &j.failures
	}
	if *list = append(*list, e); len(*list) > maxJournal {
		*list = slices.Delete(*list, 0, 1)
	}
	j.mu.Unlock()
	select {
	case j.stirred <- struct{}{}:
	default:
	}
}

// cut bounds a text of an application, which may not be UTF-8, or not after the cut.
func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "\uFFFD") }

// after returns the events after a number that are kept, the oldest first.
func (j *journal) after(number uint64) (list []*api.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, of := range [][]*api.Event{j.failures, j.others} {
		for _, e := range of {
			if e.Number > number {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b *api.Event) int {
		if a.Number < b.Number {
			return -1
		}
		return 1
	})
	return list
}

// number returns that of the last event.
func (j *journal) number() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}
