package protect

import (
	"bytes"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// fabric is a network of software switches with the links of a graph. It carries one frame at a time. Switches are
// numbered from 1, as in package sample.
type fabric struct {
	t        testing.TB
	g        *paths.Graph
	switches []*vswitch.Switch          // by number
	far      []map[of13.Port]paths.Link // by number of the switch: where its links lead
	way      []paths.Link               // path of the last frame
	frame    []byte                     // the frame that is sent
	dead     Failures                   // lose what enters them
	most     int                        // links that a frame can pass without passing one twice in the same state
}

// newFabric makes the switches of a plan, and sends them the plan message by message.
func newFabric(t testing.TB, p *Plan) *fabric {
	t.Helper()
	g := p.routes.Graph()
	n := len(g.Switches()) + 1
	f := &fabric{t: t, g: g, switches: make([]*vswitch.Switch, n), far: make([]map[of13.Port]paths.Link, n),
		most: 2 * len(g.Links())}
	for _, s := range g.Switches() {
		f.far[s] = map[of13.Port]paths.Link{}
		f.switches[s] = vswitch.New(vswitch.Config{DatapathID: s, Ports: vswitch.Ports(int(s), int(hostPort)+1),
			Buffers: -1})
		f.switches[s].Open(0, 1)
		f.answers(s)
		f.change(s, Diff(Program{}, p.Program(s)))
	}
	for _, l := range g.Links() {
		f.far[l.From.Switch][l.From.Port] = l
	}
	f.frame = frameTo(of13.MAC{})
	return f
}

func frameTo(to of13.MAC) []byte {
	frame := append(to[:], 2, 0, 0, 0, 9, 9, 0x88, 0xb5) // local experimental
	return append(frame, make([]byte, 46)...)
}

// change sends a change to a switch, which must accept it.
func (f *fabric) change(s openflow.DatapathID, c Change) {
	f.t.Helper()
	for _, m := range c.Messages() {
		f.switches[s].Message(0, 1, m.Append(nil, 2))
		for _, answer := range f.answers(s) {
			if answer.Type() == of13.TypeError {
				f.t.Fatalf("switch %v answers %v with %v", s, m, answer)
			}
		}
	}
}

func (f *fabric) answers(s openflow.DatapathID) (msgs []of13.Message) {
	f.t.Helper()
	b, _ := f.switches[s].Pending(1)
	n := len(b)
	for len(b) > 0 {
		raw, rest, err := openflow.Next(b)
		if err != nil || raw == nil {
			f.t.Fatalf("switch %v says %x: %v", s, b, err)
		}
		m, err := of13.Decode(raw)
		if err != nil {
			f.t.Fatalf("switch %v says %x: %v", s, raw, err)
		}
		msgs, b = append(msgs, m), rest
	}
	f.switches[s].Sent(1, n)
	return msgs
}

// set kills cables and switches, or revives them. Both ends of each dead cable see it, and only the switch of an end
// with a false alarm.
func (f *fabric) set(dead Failures, up bool) {
	f.dead = Failures{}
	if !up {
		f.dead = dead
	}
	for _, l := range f.g.Links() {
		if sw := f.switches[l.From.Switch]; dead.Alarms[l.From] && up {
			sw.ClearBFD(0, l.From.Port)
		} else if dead.Alarms[l.From] { // a session without a peer: the port is up and not live
			if err := sw.SetBFD(0, l.From.Port, bfd.Config{Discriminator: 1, MinTx: time.Second, MinRx: time.Second,
				Multiplier: 3, Jitter: func() float64 { return 0 }}); err != nil {
				f.t.Fatal(err)
			}
			sw.Frames()
		}
		if dead.link(l) {
			f.switches[l.From.Switch].SetPortLive(0, l.From.Port, up)
			f.switches[l.To.Switch].SetPortLive(0, l.To.Port, up)
		}
	}
}

// send sends a frame from a port. It returns where the frame leaves the network, if it does, and the frame. Its
// path is f.way.
func (f *fabric) send(to of13.MAC, from paths.End) (at paths.End, frame []byte) {
	copy(f.frame, to[:])
	f.way = f.way[:0]
	at, frame = from, f.frame
	for {
		s := f.switches[at.Switch]
		s.Frame(0, at.Port, frame)
		out := s.Frames()
		switch len(out) {
		case 0:
			return paths.End{}, nil
		case 1:
		default:
			f.t.Fatalf("switch %v sends one frame %d times", at.Switch, len(out))
		}
		// The next switch copies the frame before this one sends another.
		at, frame = paths.End{Switch: at.Switch, Port: out[0].Port}, out[0].Data
		l, ok := f.far[at.Switch][at.Port]
		if !ok {
			return at, frame
		}
		if f.way = append(f.way, l); len(f.way) > f.most {
			f.t.Fatalf("a frame from %v to %v goes in a circle: %v", from, to,
				paths.Path{Links: f.way[:min(len(f.way), 30)]}.Switches())
		}
		if f.dead.link(l) {
			return paths.End{}, nil
		}
		at = l.To
	}
}

// survive checks that, with these failures, frames of some pairs arrive unchanged if there is a path, and are
// dropped otherwise.
func (f *fabric) survive(dead Failures, pairs iter.Seq[pair]) (tried int) {
	f.t.Helper()
	part := parts(f.g, dead)
	for p := range pairs {
		var want paths.End
		if part[p.from] == part[p.to] {
			want = paths.End{Switch: p.to, Port: hostPort}
		}
		at, frame := f.send(macOf(p.to), paths.End{Switch: p.from, Port: hostPort + 1})
		if at != want || frame != nil && !bytes.Equal(frame, f.frame) {
			f.t.Fatalf("from %v to %v with %v dead: the frame is at %v, want %v; it went %v, and is %x", p.from, p.to,
				dead, at, want, paths.Path{Links: f.way}.Switches(), frame)
		}
		tried++
	}
	return tried
}
