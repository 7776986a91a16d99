package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// feedModel derives from the entries what hosts must execute, and checks what is logged of their results.
type feedModel struct {
	generation uint64
	on         bool // there are replayed applications
	time       int64
	switches   map[openflow.DatapathID]*modelSwitch
	sent       []sentCommand       // of the current transaction
	inputs     map[uint64][][]byte // of each generation
	digests    map[uint64][]uint32
	skipped    map[uint64]map[uint64]bool
	count      feedCounts
}

type feedCounts struct {
	generations, inputs, results, skipped, commands, failures int

	translated int // answers whose xid became the application's
	left       int // answers to commands of others
	most       int // number of inputs of the longest generation
}

func (a *feedCounts) add(m *feedModel) {
	for g, all := range m.inputs {
		m.count.inputs, m.count.results, m.count.skipped = m.count.inputs+len(all), m.count.results+len(m.digests[g]),
			m.count.skipped+len(m.skipped[g])
	}
	b := &m.count
	*a = feedCounts{a.generations + b.generations, a.inputs + b.inputs, a.results + b.results, a.skipped + b.skipped,
		a.commands + b.commands,
		a.failures + b.failures, a.translated + b.translated, a.left + b.left, max(a.most, b.most)}
}

// thorough reports whether everything that should be tested occurred.
func (a *feedCounts) thorough() bool {
	return min(a.generations, a.inputs, a.results, a.skipped, a.commands, a.failures, a.translated, a.left, a.most) > 0
}

type sentCommand struct {
	to  *modelSwitch
	xid uint32
}

type modelSwitch struct {
	live, reachable bool
	hello           []byte
	born            uint64            // number of the input that reported this epoch
	asked           map[uint32]uint32 // from the ledger's xid to the application's
}

func newFeedModel() *feedModel {
	return &feedModel{switches: map[openflow.DatapathID]*modelSwitch{}, inputs: map[uint64][][]byte{},
		digests: map[uint64][]uint32{}, skipped: map[uint64]map[uint64]bool{}}
}

func (m *feedModel) sw(id openflow.DatapathID) *modelSwitch {
	if m.switches[id] == nil {
		m.switches[id] = &modelSwitch{asked: map[uint32]uint32{}}
	}
	return m.switches[id]
}

func (m *feedModel) feed(in wire.Input) {
	if !m.on {
		return
	}
	in.Number, in.Time = uint64(len(m.inputs[m.generation])+1), m.time
	m.inputs[m.generation] = append(m.inputs[m.generation], in.Append(nil))
	m.count.most = max(m.count.most, int(in.Number))
}

func (m *feedModel) up(id openflow.DatapathID) {
	hello, err := experimenter.ParseSwitchUp(m.sw(id).hello)
	if err != nil {
		panic(err)
	}
	m.feed(wire.Input{Kind: wire.Up, Switch: id, Features: hello.Features, Ports: hello.Ports})
	if s := m.sw(id); s.born == 0 {
		s.born = uint64(len(m.inputs[m.generation]))
	}
}

// record processes the next operation of an entry.
func (m *feedModel) record(r *Record) error {
	s := m.sw(r.Switch)
	switch r.Op {
	case OpEvent:
		m.event(r)
	case OpSeen:
		if m.on {
			return fmt.Errorf("switch %s: hosts are to execute event %d of epoch %d, and the log has only its digest",
				r.Switch, r.Seq, r.Epoch)
		}
	case OpUnreachable:
		s.reachable = false
		m.feed(wire.Input{Kind: wire.Down, Switch: r.Switch})
	case OpReachable:
		s.reachable = true
		m.up(r.Switch)
	case OpCloseEpoch:
		s.live, s.reachable = false, false
		m.feed(wire.Input{Kind: wire.Down, Switch: r.Switch})
	case OpTimer:
		if r.Actor.App == replay.Name {
			m.feed(wire.Input{Kind: wire.Timer})
		}
	case OpTransaction:
		return m.transaction(r.Bytes)
	case OpFailure:
		if r.App == replay.Name {
			m.count.failures++
		}
	case OpCommand:
		return m.command(r)
	case OpRecord:
		return m.asked(r.Bytes)
	}
	return nil
}

func (m *feedModel) event(r *Record) {
	s := m.sw(r.Switch)
	typ, ours := experimenter.Is(r.Bytes)
	switch {
	case ours && typ == experimenter.TypeSwitchUp:
		*s = modelSwitch{live: true, reachable: true, hello: bytes.Clone(r.Bytes), asked: map[uint32]uint32{}}
		m.up(r.Switch)
	case ours && typ == experimenter.TypeSwitchDown:
		s.live, s.reachable = false, false
		m.feed(wire.Input{Kind: wire.Down, Switch: r.Switch})
	default:
		msg := bytes.Clone(r.Bytes)
		xid := openflow.XID(msg)
		answers := !message.Asynchronous(msg[1])
		if tag := xid >> 24 & 0x7f; tag == 127 && answers {
			if theirs, ok := s.asked[xid&message.SequenceMask]; ok {
				openflow.SetXID(msg, theirs)
				m.count.translated++
			}
		} else if answers && tag > 0 {
			m.count.left++
			return
		}
		m.feed(wire.Input{Kind: wire.Message, Switch: r.Switch, Message: msg})
	}
}

func (m *feedModel) begin(identity []byte) {
	m.generation++
	m.count.generations++
	m.on = len(identity) > 0
	m.skipped[m.generation] = map[uint64]bool{}
	m.feed(wire.Input{Kind: wire.Timer})
	ids := []openflow.DatapathID{}
	for id, s := range m.switches {
		s.born, s.asked = 0, map[uint32]uint32{}
		if s.live && s.reachable {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		m.up(id)
	}
}

// transaction checks that results are logged once and in order.
func (m *feedModel) transaction(record []byte) error {
	m.sent = nil
	r, err := replay.ParseRecord(record)
	if err != nil {
		return err
	}
	switch r.Kind {
	case replay.Request:
		m.feed(wire.Input{Kind: wire.Request, Request: r.Request})
	case replay.Begin:
		m.begin(r.Identity)
	case replay.Skip:
		m.skipped[m.generation][r.Number] = true
	case replay.Result:
		n := len(m.digests[m.generation])
		if r.Number != uint64(n)+1 || n >= len(m.inputs[m.generation]) {
			return fmt.Errorf("result %d after %d, of %d inputs", r.Number, n, len(m.inputs[m.generation]))
		}
		m.digests[m.generation] = append(m.digests[m.generation], r.Digest)
	}
	return nil
}

// command checks that a command of a host belongs to the latest result, and that the switch is the one for which it
// was meant.
func (m *feedModel) command(r *Record) error {
	s, xid := m.sw(r.Switch), openflow.XID(r.Bytes)
	if xid>>24 == 127 {
		m.sent = append(m.sent, sentCommand{s, xid})
	}
	var number, sum uint64
	if _, err := fmt.Sscanf(string(r.Bytes[openflow.HeaderLen:]), "hosted exactly_once %d %d", &number,
		&sum); err != nil {
		return nil // a command of another application
	}
	m.count.commands++
	if n := uint64(len(m.digests[m.generation])); number != n || s.born > number || xid>>24 != 127 || r.Bytes[1] == 24 {
		return fmt.Errorf("switch %s: command %d, %q, is of input %d; that of the result is %d, the switch was "+
			"born at %d", r.Switch, r.Seq, r.Bytes, number, n, s.born)
	}
	return nil
}

// asked reads which xids the application chose for the commands of a result.
func (m *feedModel) asked(record []byte) error {
	if replay.RecordKind(record[0]) != replay.Asked {
		return fmt.Errorf("record of kind %d", record[0])
	}
	rest := record[1:]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		rest = rest[n:]
		return v
	}
	for _, sent := range m.sent {
		if first := next(); uint32(first>>1) != sent.xid&message.SequenceMask {
			return fmt.Errorf("command %x is asked as %x", sent.xid, first>>1)
		} else if first&1 == 0 {
			rest = rest[8:]
		}
		sent.to.asked[sent.xid&message.SequenceMask] = uint32(next())
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes of a record are of no command", len(rest))
	}
	return nil
}

// expect returns an input as a host receives it. skipped means that the log says that hosts omit it.
func (m *feedModel) expect(generation, number uint64, skipped bool) []byte {
	all := m.inputs[generation]
	if number == 0 || number > uint64(len(all)) {
		return nil
	}
	raw := all[number-1]
	if !skipped {
		return raw
	}
	in, _, err := wire.ParseInput(raw)
	if err != nil {
		panic(err)
	}
	return (&wire.Input{Number: in.Number, Time: in.Time, Kind: wire.Timer}).Append(nil)
}

// checkInput checks an input at a replica that may not know yet which inputs are skipped.
func (m *feedModel) checkInput(c *cluster, generation, number uint64, got []byte) {
	late := m.skipped[generation][number] && bytes.Equal(got, m.expect(generation, number, true))
	if want := m.expect(generation, number, false); !bytes.Equal(got, want) && !late {
		c.fatalf("input %d of generation %d is\n %x, want\n %x", number, generation, got, want)
	}
}

// checkHistory checks a replica that has applied everything.
func (m *feedModel) checkHistory(c *cluster, n *simNode) {
	done := n.log.Committed()
	want := replay.Committed{Generation: m.generation, Input: uint64(len(m.inputs[m.generation])),
		Result: uint64(len(m.digests[m.generation])), Skipped: len(m.skipped[m.generation])}
	if done != want {
		c.fatalf("node %d: %+v is committed of the hosted application, want %+v", n.id, done, want)
	}
	for number := uint64(1); number <= done.Input; number++ {
		got, k, err := n.log.Inputs(number, 1, 1)
		n.must(err)
		if want := m.expect(m.generation, number, m.skipped[m.generation][number]); k != 1 || !bytes.Equal(got, want) {
			c.fatalf("node %d: %d inputs, %d is\n %x, want\n %x", n.id, k, number, got, want)
		}
		if d, ok := n.log.Digest(number); ok != (number <= done.Result) ||
			ok && d != m.digests[m.generation][number-1] {
			c.fatalf("node %d: digest %x %v of result %d", n.id, d, ok, number)
		}
	}
}
