package oracle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/controller/audit"
)

// Streams is what the logs of several groups say of the streams between them.
type Streams struct {
	Groups         []GroupItems // by number: those that sent or received something
	Sent, Received int
	Moves          int // of actors from group to group
	// Lost items were sent and not received, or forgotten by the sender before they were received. Repeated ones were
	// received twice, or never sent.
	Lost, Repeated int
	Fault          string // what is wrong first, and where; "" if all that was sent was received once and in order
}

// GroupItems is how many items a group has sent to others, and received from others.
type GroupItems struct {
	Group          uint64
	Sent, Received int
}

// streamOf is one stream.
type streamOf struct {
	sent, got []audit.Record
	received  uint64       // number of the last item
	taken     audit.Record // the last acknowledgement
}

// CheckStreams compares what groups received with what others sent, in records of Read: that must be a prefix without
// gaps of it, and in the end everything. Ends of streams may have moved from group to group.
func CheckStreams(records []audit.Record) (s Streams) {
	streams, groups := map[string]*streamOf{}, map[uint64]*GroupItems{}
	of := func(r audit.Record) (*streamOf, *GroupItems) {
		if streams[r.Stream] == nil {
			streams[r.Stream] = &streamOf{}
		}
		if groups[r.Group] == nil {
			groups[r.Group] = &GroupItems{Group: r.Group}
		}
		return streams[r.Stream], groups[r.Group]
	}
	for _, r := range records {
		switch r.Kind {
		case audit.Sent:
			k, g := of(r)
			k.sent = append(k.sent, r)
			g.Sent++
			s.Sent++
		case audit.Taken:
			if k, _ := of(r); r.Seq > k.taken.Seq { // an actor that moves takes its outbox along
				k.taken = r
			}
		case audit.Received:
			k, g := of(r)
			k.got = append(k.got, r)
			g.Received++
			s.Received++
		case audit.Arrived:
			s.Moves++
		}
	}
	lived := residencesOf(records)
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		k := streams[name]
		lived.order(k.sent, true)
		lived.order(k.got, false)
		for _, r := range k.got {
			s.receive(k, r)
		}
		s.finish(k)
	}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		s.Groups = append(s.Groups, *groups[n])
	}
	return s
}

// receive checks the next item that was received.
func (s *Streams) receive(k *streamOf, r audit.Record) {
	next := k.received + 1
	switch {
	case r.Seq < next:
		s.Repeated++
		s.fault(r, "is received again")
		return
	case r.Seq > next:
		s.Lost += int(r.Seq - next)
		s.fault(r, fmt.Sprintf("is received, and %d was next", next))
	}
	k.received = r.Seq
	switch {
	case r.Seq > uint64(len(k.sent)):
		s.Repeated++
		s.fault(r, fmt.Sprintf("is received, and only %d were sent", len(k.sent)))
	case k.sent[r.Seq-1].Digest != r.Digest:
		s.Lost++
		sent := k.sent[r.Seq-1]
		s.fault(r, fmt.Sprintf("is received as %s; group %d, entry %d sent %s", r.Digest, sent.Group, sent.Index,
			sent.Digest))
	}
}

// finish checks what was not received.
func (s *Streams) finish(k *streamOf) {
	if k.taken.Seq > k.received {
		s.fault(k.taken, fmt.Sprintf("is forgotten by the sender, and %d is the last that was received", k.received))
	}
	if n := uint64(len(k.sent)); n > k.received {
		s.Lost += int(n - k.received)
		lost := k.sent[k.received]
		lost.Seq = k.received + 1
		s.fault(lost, fmt.Sprintf("is sent and not received; %d follow it", n-lost.Seq))
	}
}

func (s *Streams) fault(r audit.Record, what string) {
	if s.Fault == "" {
		s.Fault = fmt.Sprintf("stream %s: item %d (group %d, entry %d) %s", r.Stream, r.Seq, r.Group, r.Index, what)
	}
}
