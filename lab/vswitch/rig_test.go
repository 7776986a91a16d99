package vswitch

import (
	"encoding/binary"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a switch with ports 1 to 4 and one controller, 1, which has sent HELLO.
type rig struct {
	t   *testing.T
	s   *Switch
	now time.Duration
	xid uint32
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	c := Config{DatapathID: 0x2a, Ports: Ports(1, 4)}
	for _, f := range change {
		f(&c)
	}
	r := &rig{t: t, s: New(c), xid: 100}
	r.connect(1)
	return r
}

func (r *rig) connect(id ConnID) {
	r.t.Helper()
	r.s.Open(r.now, id)
	if out := r.take(id); len(out) != 1 || out[0].Type() != of13.TypeHello {
		r.t.Fatalf("after Connect: %v, want one HELLO", out)
	}
}

// take returns what is pending for a controller.
func (r *rig) take(id ConnID) (msgs []of13.Message) {
	r.t.Helper()
	out, _ := r.s.Pending(id)
	n := len(out)
	for len(out) > 0 {
		raw, rest, err := openflow.Next(append([]byte(nil), out...))
		if err != nil || raw == nil {
			r.t.Fatalf("pending is no message: %x, %v", out, err)
		}
		m, err := of13.Decode(raw)
		if err != nil {
			r.t.Fatalf("the switch sent %x: %v", raw, err)
		}
		msgs, out = append(msgs, m), rest
	}
	r.s.Sent(id, n)
	return msgs
}

// from sends a message as a controller and returns everything that is pending for it.
func (r *rig) from(id ConnID, m of13.Message) []of13.Message {
	r.t.Helper()
	r.xid++
	r.s.Message(r.now, id, m.Append(nil, r.xid))
	return r.take(id)
}

// ok sends a message that must not be answered.
func (r *rig) ok(m of13.Message) {
	r.t.Helper()
	if out := r.from(1, m); len(out) != 0 {
		r.t.Fatalf("%v was answered by %v", m, out)
	}
}

// fails sends a message that must be refused with this error.
func (r *rig) fails(m of13.Message, errType, code uint16) {
	r.t.Helper()
	r.failsAt(1, m, errType, code)
}

func (r *rig) failsAt(id ConnID, m of13.Message, errType, code uint16) {
	r.t.Helper()
	out := r.from(id, m)
	if len(out) > 0 {
		if e, ok := out[0].(*of13.Error); ok && e.ErrType == errType && e.Code == code {
			return
		}
	}
	r.t.Fatalf("%v was answered by %v, want %s", m, out, of13.ErrorName(errType, code))
}

// answer sends a request and returns its only answer.
func answer[M of13.Message](r *rig, m of13.Message) M {
	r.t.Helper()
	out := r.from(1, m)
	if len(out) == 1 {
		if a, ok := out[0].(M); ok {
			return a
		}
	}
	r.t.Fatalf("%v was answered by %v", m, out)
	panic("unreachable")
}

// frame sends a frame into a port and returns the output frames by port.
func (r *rig) frame(in of13.Port, b []byte) map[of13.Port][][]byte {
	r.t.Helper()
	r.s.Frame(r.now, in, b)
	return r.frames()
}

func (r *rig) frames() map[of13.Port][][]byte {
	out := map[of13.Port][][]byte{}
	for _, f := range r.s.Frames() {
		out[f.Port] = append(out[f.Port], append([]byte(nil), f.Data...))
	}
	return out
}

// goes checks from which ports a frame is output.
func (r *rig) goes(in of13.Port, b []byte, want ...of13.Port) {
	r.t.Helper()
	out := r.frame(in, b)
	n := 0
	for _, p := range want {
		n += len(out[p])
	}
	all := 0
	for _, f := range out {
		all += len(f)
	}
	if n != len(want) || all != len(want) {
		r.t.Fatalf("frame into port %v came out as %v, want ports %v", in, out, want)
	}
}

func (r *rig) advance(d time.Duration) {
	r.now += d
	r.s.Tick(r.now)
}

// add is a FLOW_MOD that adds an entry.
func add(table uint8, priority uint16, m of13.Match, in of13.Instructions) *of13.FlowMod {
	return &of13.FlowMod{TableID: table, Priority: priority, Match: m, Instructions: in, BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny}
}

func out(ports ...of13.Port) of13.Instructions {
	var a of13.Actions
	for _, p := range ports {
		a = a.Output(p, 0)
	}
	return of13.Instructions(nil).Apply(a)
}

func actions(a of13.Actions) of13.Instructions { return of13.Instructions(nil).Apply(a) }

var (
	macA = of13.MAC{2, 0, 0, 0, 0, 0xa}
	macB = of13.MAC{2, 0, 0, 0, 0, 0xb}
	ipA  = [4]byte{10, 0, 0, 1}
	ipB  = [4]byte{10, 0, 0, 2}
)

// ping is an ICMP echo request from A to B.
func ping(seq uint16) []byte { return appendEcho(nil, macA, macB, ipA, ipB, icmpEchoRequest, seq) }

// udp is a UDP packet from A to B with valid checksums.
func udp(src, dst uint16, payload int) []byte {
	b := appendEthernet(nil, macA, macB, typeIPv4)
	b = append(b, 0x45, 0, 0, 0, 0, 1, 0, 0, 64, protoUDP, 0, 0)
	b = append(append(b, ipA[:]...), ipB[:]...)
	binary.BigEndian.PutUint16(b[16:], uint16(28+payload))
	binary.BigEndian.PutUint16(b[24:], ^sum(b[14:34]))
	l4 := len(b)
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, uint16(8+payload))
	b = append(b, 0, 0)
	for i := range payload {
		b = append(b, byte(i))
	}
	binary.BigEndian.PutUint16(b[l4+6:], l4Sum(b))
	return b
}

// l4Sum computes the checksum of UDP or TCP over IPv4, with the checksum field taken as 0.
func l4Sum(b []byte) uint16 {
	s := uint32(sum(b[26:34])) + uint32(b[23]) + uint32(len(b)-34)
	seg := append([]byte(nil), b[34:]...)
	at := 6
	if b[23] == protoTCP {
		at = 16
	}
	seg[at], seg[at+1] = 0, 0
	return ^fold(s + uint32(sum(seg)))
}
