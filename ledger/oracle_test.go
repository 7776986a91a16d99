package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/digest"
	"github.com/holdfast-sdn/holdfast/internal/message"
	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// timerName names a timer of an actor.
type timerName struct {
	actor Actor
	name  string
}

type epochKey struct {
	sw    openflow.DatapathID
	epoch uint64
}

// oracle derives the committed state from the entries alone, and checks every entry.
type oracle struct {
	time int64
	switchLog
	skipped int // number of skipped events
	seen    int // number of events that are logged by digest
	timers  map[timerName]int64
	sentTo  map[openflow.DatapathID]bool // switches to which the current transaction has sent
	ref     *Core                        // applies every entry when it is committed
	feed    *feedModel
	snaps   [][]byte // snapshots of ref, by number of entries
	cluster *cluster
	arrived *arrival // the item that the current transaction has received
	input   Record   // that began it, without its bytes
}

// switchLog is what is committed of each switch.
type switchLog struct {
	events   map[epochKey][][]byte
	commands map[epochKey][][]byte
	newest   map[openflow.DatapathID]uint64 // latest epoch of each switch
	closed   map[epochKey]bool
	counts   map[openflow.DatapathID]uint64 // packets, over all epochs
}

func newOracle(ref *Core) *oracle {
	o := &oracle{switchLog: switchLog{map[epochKey][][]byte{}, map[epochKey][][]byte{},
		map[openflow.DatapathID]uint64{}, map[epochKey]bool{}, map[openflow.DatapathID]uint64{}},
		timers: map[timerName]int64{}, sentTo: map[openflow.DatapathID]bool{}, ref: ref, feed: newFeedModel()}
	o.snaps = append(o.snaps, o.snapshot())
	return o
}

func (o *oracle) snapshot() []byte {
	b, err := o.ref.Snapshot()
	if err != nil {
		panic(err)
	}
	return b
}

func (o *oracle) logged(k epochKey, seq uint64) bool { return seq <= uint64(len(o.events[k])) }

// commit checks the next committed entry.
func (o *oracle) commit(data []byte) error {
	header, err := Walk(data[:HeaderLen(data)], nil)
	if err != nil {
		return err
	}
	o.feed.time = header.Time
	h, err := Walk(data, func(r *Record) error { return o.record(r, data) })
	if err != nil {
		return err
	}
	if h.Time < o.time {
		return fmt.Errorf("ledger time went back from %d to %d", o.time, h.Time)
	}
	o.time = h.Time
	if err := o.ref.Commit(data); err != nil {
		return err
	}
	o.snaps = append(o.snaps, o.snapshot())
	return nil
}

func (o *oracle) record(r *Record, data []byte) error {
	k := epochKey{r.Switch, r.Epoch}
	if bytes.Contains(r.Bytes, []byte("poison")) || r.Table.Name == "poison" ||
		r.Op != OpFailure && r.Name == "poison" {
		return fmt.Errorf("what a failed application did is in the log: %+v", r)
	}
	switch r.Op {
	case OpEvent, OpSeen, OpTimer, OpUnreachable, OpReachable, OpCloseEpoch, OpTransaction, OpReceive,
		OpRequest, OpCall, OpLeave, OpDepart, OpSuspend:
		if o.cluster.site != nil {
			o.cluster.site.departing = Actor{}
		}
		clear(o.sentTo)
		if err := o.arrived.complete(); err != nil {
			return err
		}
		o.arrived, o.input = nil, Record{Op: r.Op, Switch: r.Switch, Epoch: r.Epoch, Seq: r.Seq}
	}
	if s := o.cluster.site; s != nil {
		if err := s.record(o, r); err != nil {
			return err
		}
	}
	if err := o.feed.record(r); err != nil {
		return err
	}
	switch r.Op {
	case OpEvent, OpSeen:
		if r.Epoch < o.newest[r.Switch] || r.Seq != uint64(len(o.events[k]))+1 || o.closed[k] {
			return fmt.Errorf("switch %s: event %d of epoch %d after %d, epoch %d is known", r.Switch, r.Seq, r.Epoch,
				len(o.events[k]), o.newest[r.Switch])
		}
		o.newest[r.Switch] = r.Epoch
		event := slices.Clone(r.Bytes)
		typ := r.Type
		if r.Op == OpSeen {
			o.seen++
			event = brief(r.Type, r.Digest)
		} else {
			typ = r.Bytes[1]
		}
		o.events[k] = append(o.events[k], event)
		if typ == of13.TypePacketIn {
			o.counts[r.Switch]++
		}
	case OpSkipped:
		n := int(r.Seq) - len(o.events[k])
		if r.Epoch != o.newest[r.Switch] || n < 1 || o.closed[k] {
			return fmt.Errorf("switch %s: events up to %d of epoch %d are skipped after %d, epoch %d is known",
				r.Switch, r.Seq, r.Epoch, len(o.events[k]), o.newest[r.Switch])
		}
		o.events[k] = append(o.events[k], make([][]byte, n)...)
		o.counts[r.Switch] += r.Asynchronous
		o.skipped += n
	case OpCloseEpoch:
		o.closed[k] = true
	case OpCommand:
		k.epoch = o.newest[r.Switch]
		if r.Seq != uint64(len(o.commands[k]))+1 {
			return fmt.Errorf("switch %s: command %d after %d", r.Switch, r.Seq, len(o.commands[k]))
		}
		if xid := openflow.XID(r.Bytes); Continues(xid) != o.sentTo[r.Switch] ||
			uint64(xid&message.SequenceMask) != r.Seq {
			return fmt.Errorf("switch %s: command %d has xid %x; the transaction sent it one before: %v", r.Switch,
				r.Seq, xid, o.sentTo[r.Switch])
		}
		if !bytes.Contains(r.Bytes, []byte(ExactlyOnce.String())) {
			return fmt.Errorf("switch %s: command %q is in the log", r.Switch, r.Bytes)
		}
		o.sentTo[r.Switch] = true
		o.commands[k] = append(o.commands[k], slices.Clone(r.Bytes))
	case OpSetTimer:
		o.timers[timerName{r.Actor, r.Name}] = r.Time
	case OpCancelTimer:
		delete(o.timers, timerName{r.Actor, r.Name})
	case OpTimer:
		due, set := o.timers[timerName{r.Actor, r.Name}]
		h, _ := Walk(data[:HeaderLen(data)], nil)
		if !set || due > h.Time {
			return fmt.Errorf("timer %s of %v fires at %d; set %v, due %d", r.Name, r.Actor, h.Time, set, due)
		}
		delete(o.timers, timerName{r.Actor, r.Name})
	case OpDone:
		if k.epoch == o.newest[r.Switch] && r.Seq > uint64(len(o.commands[k])) {
			return fmt.Errorf("switch %s: %d commands done of %d", r.Switch, r.Seq, len(o.commands[k]))
		}
	}
	return nil
}

// brief represents an event that is logged by digest.
func brief(typ uint8, digest uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{typ}, digest)
}

// loggedAs reports whether got is a valid record of an event: the message, its digest, or nothing.
func loggedAs(got, msg []byte) bool {
	return got == nil || bytes.Equal(got, msg) || bytes.Equal(got, brief(msg[1], digest.Of(msg)))
}
