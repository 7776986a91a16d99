package history

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// parseSnapshot reads a snapshot of package ledger, except what the hosted application has in it.
func parseSnapshot(b []byte) (*model, error) {
	m, d := newModel(), reader{b: b}
	d.byte() // the version
	d.byte() // whether it is relayed: never
	d.uvarint()
	d.uvarint()
	m.time = int64(d.uvarint())
	if err := m.parse(&d); err != nil {
		return nil, fmt.Errorf("the snapshot %w", err)
	}
	return m, nil
}

// parse adds the state that operations of a snapshot, or of a piece, describe.
func (m *model) parse(d *reader) error {
	var tables []ledger.TableName
	for len(d.b) > 0 && !d.short {
		switch op := ledger.Op(d.byte()); op {
		case ledger.OpTable:
			tables = append(tables, ledger.TableName{App: d.string(), Name: d.string()})
		case ledger.OpPut, ledger.OpDelete:
			n := d.uvarint()
			if n >= uint64(len(tables)) {
				return violated("has a row of table %d of %d", n, len(tables))
			}
			name := rowName{tables[n], d.key(), d.key()}
			if op == ledger.OpDelete {
				delete(m.rows, name)
				break
			}
			m.rows[name] = d.string()
		case ledger.OpSetTimer:
			name := timerName{d.actor(), d.string()}
			m.timers[name] = alarm{int64(d.uvarint()), d.string()}
		case ledger.OpSwitch:
			id := openflow.DatapathID(d.uint64())
			m.switches[id] = d.switchModel()
		case ledger.OpForget:
			d.uint64() // no switch
			m.floor = d.uint64()
		case ledger.OpPart:
			d.string()
		default:
			if !m.parseStream(op, d) {
				return violated("has operation %d", op)
			}
		}
	}
	if d.short {
		return errShort
	}
	return nil
}

// parseStream is parse for ends of streams, and for what moves have left.
func (m *model) parseStream(op ledger.Op, d *reader) bool {
	switch op {
	case ledger.OpOutgoing:
		k, commands := d.link(), d.uvarint()
		o := d.outbox()
		if o.commands = commands; o.acked > 0 || len(o.items) > 0 { // else what was sent was undone
			m.senders[k] = o
		}
	case ledger.OpIncoming:
		k := d.link()
		if i := (inboxModel{d.uvarint(), d.uint64(), d.byte() != 0, d.string()}); i.received > 0 || i.epoch > 0 {
			m.inboxes[k] = i
		}
	case ledger.OpMoved:
		m.at[d.actor()] = d.assignment()
	case ledger.OpLeave:
		m.leaving[d.actor()] = d.assignment().Group
	case ledger.OpSuspend:
		a := d.actor()
		m.suspend(a, suspension{int64(d.uvarint()), d.byte() != 0, d.string()})
	case ledger.OpPiece:
		o := origin{d.actor(), d.uvarint()}
		m.arriving[o] = append(m.arriving[o], d.string())
	default:
		return false
	}
	return true
}

func (d *reader) string() string { return string(d.take(d.uvarint())) }

func (d *reader) switchModel() (s switchModel) {
	s.epoch, s.events = d.uint64(), d.uvarint()
	flags := d.byte()
	s.live, s.reachable, s.closed = flags&1 != 0, flags&2 != 0, flags&4 != 0
	for n := d.uvarint(); n > 0 && !d.short; n-- {
		s.past = append(s.past, epochEnd{d.uint64(), d.uvarint()})
	}
	s.hello = d.string()
	s.queue = d.outbox()
	for n := d.uvarint(); n > 0 && !d.short; n-- {
		s.asks = append(s.asks, asker{d.uvarint(), d.uvarint(), d.actor(), d.uvarint()})
	}
	s.allEvents, s.allCommands = d.uvarint(), d.uvarint()
	return s
}

// outbox reads a stream.Outbox: first all lengths, then all items.
func (d *reader) outbox() (o outboxModel) {
	o.acked = d.uvarint()
	var lengths []uint64
	for n := d.uvarint(); n > 0 && !d.short; n-- {
		lengths = append(lengths, d.uvarint())
	}
	for _, n := range lengths {
		o.items = append(o.items, string(d.take(n)))
	}
	return o
}
