package history

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"

	"github.com/holdfast-sdn/holdfast/ledger"
	replaying "github.com/holdfast-sdn/holdfast/ryu/replay"
)

// shadow is a follower that is never down: it applies every entry of the log. Beside it is a model of the same state.
type shadow struct {
	core   *ledger.Core
	model  *model
	hosted bool // there is a hosted application, of whose state there is no model
	points []point
	last   point          // the model that was asked for last
	same   map[int]uint64 // hash of a snapshot that was verified, by position
}

// point is the state before an entry, from which states near it are computed.
type point struct {
	position int
	model    *model
	state    []byte
}

// pointEvery is how many entries are from one point to the next.
const pointEvery = 128

func newShadow(hosted bool, deaf map[string]bool) (*shadow, error) {
	core, _, err := newLedger(nil, "", ledger.Limits{})
	m := newModel()
	m.deaf = deaf
	return &shadow{core: core, model: m, hosted: hosted, last: point{model: m.clone()}, same: map[int]uint64{}}, err
}

// newLedger makes a ledger. A non-empty identity adds the log of a hosted application.
func newLedger(apps []ledger.Application, identity string, limits ledger.Limits) (*ledger.Core, *replaying.Log, error) {
	core, err := ledger.New(apps, limits)
	if err != nil {
		return nil, nil, err
	}
	log, err := replaying.NewLog(core, identity)
	return core, log, err
}

// begin is before the operations of the entry at position, each of which the model is to apply.
func (s *shadow) begin(l *sharedLog, position int) error {
	if position%pointEvery == 0 {
		state, err := s.core.Snapshot()
		if err != nil {
			return err
		}
		s.points = append(s.points, point{position, s.model.clone(), state})
	}
	s.model.begin(&l.entries[position])
	return nil
}

// at returns the state before the entry at position, which may be the end of the log.
func (s *shadow) at(l *sharedLog, position int) ([]byte, error) {
	if position == len(l.entries) {
		return s.core.Snapshot()
	}
	p := s.points[position/pointEvery]
	core, err := restored(p.state)
	for i := p.position; err == nil && i < position; i++ {
		err = core.Commit(l.entries[i].data)
	}
	if err != nil {
		return nil, err
	}
	return core.Snapshot()
}

// modelAt returns the model before the entry at position.
func (s *shadow) modelAt(l *sharedLog, position int) (*model, error) {
	if position == len(l.entries) {
		return s.model, nil
	}
	if p := s.points[position/pointEvery]; s.last.position > position || s.last.position < p.position {
		s.last = point{position: p.position, model: p.model.clone()}
	}
	for ; s.last.position < position; s.last.position++ {
		if err := s.last.model.commit(&l.entries[s.last.position]); err != nil {
			return nil, err
		}
	}
	return s.last.model, nil
}

// compare checks a snapshot that was taken before the entry at position, and what a controller has that takes it over.
// The order of its cells does not matter.
func (s *shadow) compare(l *sharedLog, position int, state []byte) error {
	hash := maphash.Bytes(seed, state)
	if h, ok := s.same[position]; ok && h == hash {
		return nil
	}
	want, err := s.modelAt(l, position)
	if err == nil {
		err = want.check(state)
	}
	if err != nil {
		return err
	}
	core, err := restored(state)
	if err != nil {
		return err
	}
	again, err := core.Snapshot()
	if err == nil && !bytes.Equal(again, state) {
		err = want.check(again)
	}
	if err != nil {
		return err
	}
	if s.hosted {
		if want, err := s.at(l, position); err != nil || !bytes.Equal(again, want) {
			return cmp.Or(err, violated("it is not the state of the log: %s", firstDifference(again, want)))
		}
	}
	s.same[position] = hash
	return nil
}

// restored makes a follower with that state.
func restored(state []byte) (*ledger.Core, error) {
	core, _, err := newLedger(nil, "", ledger.Limits{})
	if err != nil {
		return nil, err
	}
	return core, core.Restore(state)
}

// firstDifference names the first operation in which two entries or snapshots differ.
func firstDifference(got, want []byte) string {
	a, b := append(operations(got), "the end"), append(operations(want), "the end")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			x, y := excerpts(a[i], b[i])
			return fmt.Sprintf("operation %d is %s, not %s", i+1, x, y)
		}
	}
	return fmt.Sprintf("the headers differ: % x, not % x", got[:min(len(got), 16)], want[:min(len(want), 16)])
}

// excerpts shortens two texts to their beginnings and to where they differ.
func excerpts(a, b string) (string, string) {
	const head, around = 100, 60
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	cut := func(s string) string {
		if at > head+around {
			s = s[:head] + " … " + s[at-around:]
			return s[:min(len(s), head+3*around)]
		}
		return s[:min(len(s), head+2*around)]
	}
	return cut(a), cut(b)
}

// operations describes those of an entry or snapshot. Of several puts of a row it has one: the last value, where the
// first is. Whether a leader writes another record, or replaces the value in an earlier one, depends on what it has
// taken back meanwhile, which the log does not tell.
func operations(data []byte) (list []string) {
	puts := map[row]int{}
	_, err := ledger.Walk(data, func(r *ledger.Record) error {
		if r.Op == ledger.OpPut {
			of := row{r.Table, r.Cell, r.Field}
			if at, again := puts[of]; again {
				list[at] = describe(r)
				return nil
			}
			puts[of] = len(list)
		}
		list = append(list, describe(r))
		return nil
	})
	if err != nil {
		list = append(list, err.Error())
	}
	return list
}

// row names a row of an application's table.
type row struct {
	table       ledger.TableName
	cell, field ledger.Key
}

func describe(r *ledger.Record) string {
	switch r.Op {
	case ledger.OpTable:
		return fmt.Sprintf("table %s/%s", r.Table.App, r.Table.Name)
	case ledger.OpEvent:
		return fmt.Sprintf("event %d of switch %s, epoch %d: %v", r.Seq, r.Switch, r.Epoch, fingerprintOf(r.Bytes))
	case ledger.OpSeen:
		return fmt.Sprintf("event %d of switch %s, epoch %d: %v", r.Seq, r.Switch, r.Epoch, digested{r.Type, r.Digest})
	case ledger.OpTimer, ledger.OpCancelTimer:
		return fmt.Sprintf("timer %s of %v, operation %d", r.Name, r.Actor, r.Op)
	case ledger.OpUnreachable, ledger.OpReachable, ledger.OpCloseEpoch:
		return fmt.Sprintf("switch %s, epoch %d, operation %d", r.Switch, r.Epoch, r.Op)
	case ledger.OpPut:
		return fmt.Sprintf("put of %q in %s/%s at %v, %v", r.Bytes, r.Table.App, r.Table.Name, r.Cell, r.Field)
	case ledger.OpDelete:
		return fmt.Sprintf("delete in %s/%s at %v, %v", r.Table.App, r.Table.Name, r.Cell, r.Field)
	case ledger.OpCommand:
		return fmt.Sprintf("command %d of switch %s: %v, %q", r.Seq, r.Switch, fingerprintOf(r.Bytes), r.Bytes)
	case ledger.OpSetTimer:
		return fmt.Sprintf("set timer %s of %v, for %d: %q", r.Name, r.Actor, r.Time, r.Bytes)
	case ledger.OpFailure:
		return fmt.Sprintf("failure of %s: %s", r.App, r.Name)
	case ledger.OpSend, ledger.OpReceive, ledger.OpTaken:
		return fmt.Sprintf("stream %v, operation %d, item %d: %x", r.Link, r.Op, r.Seq, r.Bytes)
	case ledger.OpLeave, ledger.OpDepart, ledger.OpMoved:
		return fmt.Sprintf("operation %d of %v, which moves: %+v", r.Op, r.Actor, r.Assignment)
	case ledger.OpAsk:
		return fmt.Sprintf("commands of switch %s from another group: %+v", r.Switch, r.Ask)
	case ledger.OpIncoming:
		return fmt.Sprintf("stream %v, received: %+v", r.Link, r.Incoming)
	case ledger.OpDrop:
		return fmt.Sprintf("drop of %s/%s at %v", r.Table.App, r.Table.Name, r.Cell)
	case ledger.OpClear:
		return fmt.Sprintf("clear of %s/%s", r.Table.App, r.Table.Name)
	case ledger.OpPiece:
		return fmt.Sprintf("piece of %v: %x", r.Actor, r.Bytes)
	case ledger.OpRequest:
		return fmt.Sprintf("request to %s: %x", r.App, r.Bytes)
	case ledger.OpSuspend:
		return fmt.Sprintf("suspension of %v at %d, early %v: %s", r.Actor, r.Time, r.Early, r.Name)
	case ledger.OpCall:
		return fmt.Sprintf("call %s of %v: %x", r.Name, r.Actor, r.Bytes)
	case ledger.OpTransaction, ledger.OpRecord, ledger.OpPart:
		return fmt.Sprintf("operation %d of the hosted application: %x", r.Op, r.Bytes)
	case ledger.OpDone:
		return fmt.Sprintf("commands of switch %s, epoch %d, done up to %d", r.Switch, r.Epoch, r.Seq)
	}
	return fmt.Sprintf("switch %s: %+v", r.Switch, r.Saved)
}
