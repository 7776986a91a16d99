package southbound

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// plant is a stock switch, the controllers that are connected to it, and the log that they share. Nothing moves by
// itself. What the switch executes, and what is logged, is checked at once.
type plant struct {
	t  tester
	sw *vswitch.Switch
	vswitch.Config
	now      uint64
	lastConn vswitch.ConnID
	orphans  []*wire // connections of controllers that are gone: what they have sent still arrives
	members  []*member
	term     uint64 // the latest

	lossy bool     // the switch drops packet-ins that a controller does not read
	order []uint64 // sums of all events that all controllers receive, in the order in which the switch sent them

	makes  func(epoch, next uint64) [][]byte // makes the commands of an event
	log    []record
	states []ledgerState // states[i] is after i records
	at     []int         // possible positions in order of the last shared event that is logged in this epoch
	floor  int           // events of earlier epochs are before this position
	bad    map[uint64]bool
	told   map[told]int // how often an answer or refusal was logged, by command

	epoch    uint64 // of the last marker that the switch has
	executed uint64
}

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// record is a logged event with the commands that it causes, or a completion, or the end of an epoch.
type record struct {
	term, epoch uint64
	msg         []byte
	commands    [][]byte
	done        uint64
	closed      bool
}

// ledgerState is the state of the switch according to the log.
type ledgerState struct {
	epoch, events, done uint64
	live                bool
	commands            [][]byte
}

type told struct {
	epoch uint64
	xid   uint32
}

// wire is a connection of the switch.
type wire struct {
	id      vswitch.ConnID
	in, out []byte // on the way to the controller, on the way to the switch
	arrived int    // position in order of the next shared event to arrive; -1 before HELLO
	dead    bool   // the switch has restarted since
}

// auditor is a connection that loses nothing. It shows the order of the events.
const auditor vswitch.ConnID = 1

func newPlant(t tester, controllers, queue int) *plant {
	p := &plant{t: t, now: 1000, lastConn: auditor, states: make([]ledgerState, 1), floor: -1, bad: map[uint64]bool{},
		told: map[told]int{}, lossy: queue > 0}
	p.makes = func(uint64, uint64) [][]byte { return nil }
	p.Config = vswitch.Config{DatapathID: 7, Ports: vswitch.Ports(1, 2), Tables: 4, QueueLimit: queue,
		Observe: p.execute}
	p.boot()
	for n := range controllers {
		p.members = append(p.members, &member{plant: p, n: n + 1})
	}
	return p
}

// boot starts a switch that sends every packet to the controllers, and is otherwise empty.
func (p *plant) boot() {
	p.sw, p.executed, p.epoch = vswitch.New(p.Config), 0, 0
	p.sw.Connect(auditor)
	miss := of13.FlowMod{BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))}
	meter := of13.MeterMod{Command: of13.MeterAdd, Flags: of13.MeterPktps, MeterID: 1}
	for _, msg := range [][]byte{hello13, miss.Append(nil, 1), meter.Append(nil, 2)} {
		p.sw.Message(p.time(), auditor, msg)
	}
	p.audit()
}

// restart clears the state of the switch and ends its connections. The controllers notice later.
func (p *plant) restart() {
	for _, m := range p.members {
		if m.wire != nil {
			m.wire.dead = true
		}
	}
	p.orphans = nil
	p.boot()
}

func (p *plant) time() time.Duration { return time.Duration(p.now) }

// audit records what the switch has sent to all controllers.
func (p *plant) audit() {
	out, _ := p.sw.Pending(auditor)
	for rest := out; len(rest) > 0; {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		if s, ok := sharedSum(msg); ok {
			p.order = append(p.order, s)
		} else if msg[1] == openflow.TypeError {
			p.t.Fatalf("the auditor is refused something: %x", msg)
		}
	}
	p.sw.Sent(auditor, len(out))
}

// sharedSum returns the sum of a message of the switch, if it is one that all controllers receive.
func sharedSum(msg []byte) (uint64, bool) {
	if !shared(msg[1]) {
		return 0, false
	}
	if m, ok := syncMarkerIn(msg); ok {
		msg = m.Append(nil, of13.Version)
	}
	return sum(msg), true
}

// raise makes the switch receive a packet that it sends to the controllers.
func (p *plant) raise(content uint32) {
	frame := binary.BigEndian.AppendUint32(append(make([]byte, 12), 0x88, 0xb5), content)
	p.sw.Frame(p.time(), 1, frame)
	p.audit()
}

// link changes the state of a port.
func (p *plant) link(up bool) {
	p.sw.SetPortLive(p.time(), 2, up)
	p.audit()
}

func (p *plant) dial() *wire {
	p.lastConn++
	p.sw.Connect(p.lastConn)
	return &wire{id: p.lastConn, arrived: -1}
}

// fromSwitch moves up to n messages to the controller's end of the connection.
func (p *plant) fromSwitch(w *wire, n int) {
	if w.dead {
		return
	}
	out, _ := p.sw.Pending(w.id)
	k := prefix(out, n)
	w.in = append(w.in, out[:k]...)
	p.sw.Sent(w.id, k)
}

// toSwitch moves up to n messages to the switch.
func (p *plant) toSwitch(w *wire, n int) {
	k := prefix(w.out, n)
	for rest := w.out[:k]; len(rest) > 0 && !w.dead; {
		var msg []byte
		msg, rest, _ = openflow.Next(rest)
		p.message(w, msg)
		if w.arrived < 0 {
			w.arrived = len(p.order)
		}
	}
	w.out = append([]byte(nil), w.out[k:]...)
}

// message delivers a message to the switch.
func (p *plant) message(w *wire, msg []byte) {
	p.sw.Message(p.time(), w.id, msg)
	p.audit()
}

// prefix returns the length of the first n messages.
func prefix(b []byte, n int) (size int) {
	for ; n > 0 && size < len(b); n-- {
		size += int(b[size+2])<<8 | int(b[size+3])
	}
	return size
}

// part closes the controller's side of a connection.
func (p *plant) part(w *wire) {
	if !w.dead {
		p.orphans = append(p.orphans, w)
	}
}

// bury removes the oldest connection without a controller, with everything still in flight on it.
func (p *plant) bury() {
	if len(p.orphans) > 0 {
		p.sw.Disconnect(p.orphans[0].id)
		p.orphans = p.orphans[1:]
	}
}

func (p *plant) state() ledgerState { return p.states[len(p.log)] }

func (p *plant) append(r record) {
	s := p.state()
	switch {
	case r.msg != nil && isUp(r.msg):
		s = ledgerState{epoch: r.epoch, live: true, events: 1}
		if len(p.at) > 0 {
			p.floor = p.at[0]
		}
		p.at = nil
	case r.msg != nil:
		s.events++
		s.live = s.live && !isDown(r.msg)
		p.logged(r)
	case r.closed:
		s.live = false
	}
	s.done = max(s.done, r.done)
	s.commands = append(s.commands[:len(s.commands):len(s.commands)], r.commands...)
	if s.done > uint64(len(s.commands)) {
		p.t.Fatalf("%d commands are done, and there were %d", s.done, len(s.commands))
	}
	p.log, p.states = append(p.log, r), append(p.states, s)
}

// logged checks an event that is added to the log.
func (p *plant) logged(r record) {
	var key uint64
	switch {
	case shared(r.msg[1]) || isSyncMarker(r.msg):
		key = sum(r.msg)
	case r.msg[1] == openflow.TypeExperimenter: // SWITCH_DOWN: nothing to check
		return
	default:
		k := told{r.epoch, openflow.XID(r.msg)}
		if p.told[k]++; p.told[k] > 1 {
			p.t.Fatalf("the log has two answers to command %d of epoch %d: %x", k.xid&0x7fffff, r.epoch, r.msg)
		}
		return
	}
	var at []int
	if p.at == nil || p.lossy {
		from := p.floor
		if p.at != nil {
			from = p.at[0]
		}
		for i := from + 1; i < len(p.order); i++ {
			if p.order[i] == key {
				at = append(at, i)
			}
		}
	} else {
		for _, i := range p.at {
			if i+1 < len(p.order) && p.order[i+1] == key {
				at = append(at, i+1)
			}
		}
	}
	if len(at) == 0 {
		p.t.Fatalf("event %d of epoch %d comes into the log, which is at %v of %d: it stands at %v. %x",
			p.state().events+1, r.epoch, p.at, len(p.order), places(p.order, key), r.msg)
	}
	if p.lossy {
		at = at[:1] // all packets are different
	}
	p.at = at
}

func places(list []uint64, key uint64) (at []int) {
	for i, x := range list {
		if x == key {
			at = append(at, i)
		}
	}
	return at
}

func isUp(msg []byte) bool {
	t, ours := experimenter.Is(msg)
	return ours && t == experimenter.TypeSwitchUp
}
func isDown(msg []byte) bool {
	t, ours := experimenter.Is(msg)
	return ours && t == experimenter.TypeSwitchDown
}

// execute checks a message that the switch has executed.
func (p *plant) execute(conn vswitch.ConnID, msg []byte) {
	if conn == auditor {
		return
	}
	if m, ok := markerSet(msg); ok {
		if m.epoch < p.epoch {
			p.t.Fatalf("a marker of epoch %d after that of epoch %d", m.epoch, p.epoch)
		}
		if m.epoch > p.epoch {
			if s := p.state(); s.live && s.epoch == p.epoch {
				p.t.Fatalf("the marker of epoch %d is replaced by that of %d, and the log goes on with it", p.epoch,
					m.epoch)
			}
			p.epoch, p.executed = m.epoch, 0
		}
		return
	}
	epoch, seq, ok := contentOf(msg)
	if !ok {
		return
	}
	s := p.state()
	switch {
	case epoch != p.epoch || epoch != s.epoch:
		p.t.Fatalf("a command of epoch %d is executed in epoch %d, while that of the log is %d", epoch, p.epoch,
			s.epoch)
	case seq > uint64(len(s.commands)):
		p.t.Fatalf("command %d is executed, and not in the log", seq)
	case seq == p.executed && (msg[1] == of13.TypeMeterMod || msg[1] == of13.TypePacketOut && p.FewBundled):
		return // what cannot be bundled may be repeated
	case seq <= p.executed:
		p.t.Fatalf("command %d of epoch %d is executed after command %d", seq, epoch, p.executed)
	}
	for between := p.executed + 1; between < seq; between++ {
		if !p.bad[between|epoch<<20] && !repeatable(s.commands[between-1][1]) {
			p.t.Fatalf("command %d of epoch %d is executed after command %d: one is missing", seq, epoch, p.executed)
		}
	}
	if p.bad[seq|epoch<<20] {
		p.t.Fatalf("command %d of epoch %d is executed, and its transaction is bad", seq, epoch)
	}
	p.executed = seq
}

// markerSet decodes a FLOW_MOD that sets a marker.
func markerSet(msg []byte) (m marker, ok bool) {
	var f of13.FlowMod
	if msg[1] != of13.TypeFlowMod || f.Decode(msg) != nil || f.Command != of13.FlowAdd {
		return m, false
	}
	return markerOf(of13.FlowStats{Cookie: f.Cookie, Match: f.Match})
}

// settle moves everything to its destination, sync markers included.
func (p *plant) settle() {
	for range 4 {
		for _, m := range p.members {
			m.mark()
		}
		p.rest()
	}
}

// rest moves everything to its destination.
func (p *plant) rest() {
	p.t.Helper()
	for range 3000 {
		if !p.round() {
			return
		}
	}
	p.t.Fatalf("there is no rest")
}

// round moves everything one step, and reports whether anything has moved.
func (p *plant) round() (moved bool) {
	for _, m := range p.members {
		p.now++
		if m.wire != nil {
			moved = moved || len(m.wire.out) > 0
			p.toSwitch(m.wire, 1<<20)
			p.fromSwitch(m.wire, 1<<20)
			moved = moved || len(m.wire.in) > 0
			m.hears(1 << 20)
		}
		for len(m.pending) > 0 {
			moved = true
			m.commits()
		}
		moved = moved || m.applied < len(p.log) || len(m.outbox) > 0
		m.applies(1 << 20)
		m.sends(1 << 20)
		m.checkHeld()
	}
	return moved
}

// Commands. The content of each identifies it.

type commandKind int

const (
	sendPacket commandKind = iota
	addFlow
	badFlow // refused when the bundle is committed
	asks
	setMeter // cannot be bundled
	commandKinds
)

var commandPacket = []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}

func makeCommand(kind commandKind, epoch, seq uint64, continues bool) []byte {
	xid := uint32(1<<24 | seq)
	if continues {
		xid |= handshake.ContinuesXID
	}
	flow := of13.FlowMod{TableID: 1, Priority: uint16(seq), Cookie: epoch<<20 | seq, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	switch kind {
	case sendPacket:
		data := binary.BigEndian.AppendUint64(slices.Clone(commandPacket), epoch<<20|seq)
		m := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: data,
			Actions: of13.Actions(nil).Output(2, 0)}
		return m.Append(nil, xid)
	case badFlow:
		flow.Instructions = of13.Instructions(nil).Apply(of13.Actions(nil).Group(99))
	case asks:
		if seq%2 == 0 {
			m := of13.MultipartRequest{Part: of13.PartDesc}
			return m.Append(nil, xid)
		}
		return raw(4, of13.TypeBarrierRequest, xid)
	case setMeter:
		m := of13.MeterMod{Command: of13.MeterModify, Flags: of13.MeterPktps, MeterID: 1,
			Bands: of13.Bands(nil).With(of13.Band{BandType: of13.BandDrop, Rate: uint32(epoch<<12 | seq)})}
		return m.Append(nil, xid)
	}
	return flow.Append(nil, xid)
}

// isBad reports whether a command is a badFlow.
func isBad(msg []byte) bool {
	var m of13.FlowMod
	return msg[1] == of13.TypeFlowMod && m.Decode(msg) == nil && len(m.Instructions) > 0
}

func contentOf(msg []byte) (epoch, seq uint64, ok bool) {
	switch msg[1] {
	case of13.TypeFlowMod:
		var m of13.FlowMod
		if m.Decode(msg) != nil || m.TableID != 1 {
			return 0, 0, false
		}
		return m.Cookie >> 20, m.Cookie & 0xfffff, true
	case of13.TypePacketOut:
		var m of13.PacketOut
		if m.Decode(msg) != nil || !bytes.HasPrefix(m.Data, commandPacket) {
			return 0, 0, false
		}
		x := binary.BigEndian.Uint64(m.Data[len(commandPacket):])
		return x >> 20, x & 0xfffff, true
	case of13.TypeMeterMod:
		var m of13.MeterMod
		if m.Decode(msg) != nil {
			return 0, 0, false
		}
		for b := range m.Bands.All() {
			return uint64(b.Rate) >> 12, uint64(b.Rate) & 0xfff, true
		}
	}
	return 0, 0, false
}
