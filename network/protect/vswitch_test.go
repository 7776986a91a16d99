package protect

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/paths/sample"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/vswitch"
)

// fabric is a network of software switches, one frame at a time.
type fabric struct {
	t        *testing.T
	g        *paths.Graph
	switches map[openflow.DatapathID]*vswitch.Switch
}

// newFabric makes the switches of a plan, which get its rounds from an empty network.
func newFabric(t *testing.T, p *Plan) *fabric {
	t.Helper()
	f := &fabric{t, p.routes.Graph(), map[openflow.DatapathID]*vswitch.Switch{}}
	for _, s := range f.g.Switches() {
		f.switches[s] = vswitch.New(vswitch.Config{DatapathID: s, Ports: vswitch.Ports(int(s), int(hostPort)+1)})
		f.switches[s].Connect(1)
		hello := of13.NewHello(of13.VersionsOf(of13.Version))
		f.switches[s].Message(0, 1, hello.Append(nil, 1))
		f.answer(s)
		for _, m := range Diff(Program{}, p.Program(s)).Messages() {
			f.switches[s].Message(0, 1, m.Append(nil, 2))
			if b := f.answer(s); len(b) > 0 {
				err, _ := of13.Decode(b)
				t.Fatalf("switch %v answers %v with %v", s, m, err)
			}
		}
	}
	return f
}

func (f *fabric) answer(s openflow.DatapathID) []byte {
	b, _ := f.switches[s].Pending(1)
	b = append([]byte(nil), b...)
	f.switches[s].Sent(1, len(b))
	return b
}

// cable lets both ends see that a cable is dead, or alive again.
func (f *fabric) cable(l paths.Link, up bool) {
	for _, e := range []paths.End{l.From, l.To} {
		f.switches[e.Switch].SetPortLive(0, e.Port, up)
	}
}

// follow sends a frame, and returns where it leaves the network, if it does, after how many links, and the frame.
func (f *fabric) follow(to of13.MAC, from paths.End) (at paths.End, links int, frame []byte) {
	at, frame = from, frameTo(to)
	for ; links < 100; links++ {
		s := f.switches[at.Switch]
		s.Frame(0, at.Port, frame)
		out := s.Frames()
		if len(out) == 0 {
			return paths.End{}, links, nil
		}
		if len(out) > 1 {
			f.t.Fatalf("switch %v sends one frame %d times", at.Switch, len(out))
		}
		at, frame = paths.End{Switch: at.Switch, Port: out[0].Port}, append([]byte(nil), out[0].Data...)
		l, ok := f.g.From(at)
		if !ok {
			return at, links, frame
		}
		at = l.To
	}
	f.t.Fatalf("from %v to %v: %d links and no end", from, to, links)
	return
}

func frameTo(to of13.MAC) []byte {
	frame := append(to[:], 2, 0, 0, 0, 9, 9, 0x88, 0xb5) // local experimental
	return append(frame, make([]byte, 50)...)
}

// What the messages make a switch do is what the interpreter says.
func TestSwitchesDoWhatTheInterpreterSays(t *testing.T) {
	for name, g := range map[string]*paths.Graph{
		"triangle": sample.Triangle(), "ring": sample.Ring(), "USNET": sample.USNET(), "tree": sample.Random(4, 9, 8, 3), "random": sample.Random(5, 15, 24, 5),
	} {
		for _, avoid := range modes {
			t.Run(fmt.Sprint(name, "/", avoid), func(t *testing.T) {
				p := planOf(t, g, avoid)
				f, n := newFabric(t, p), p.Network()
				for _, e := range append(cables(g), paths.End{}) {
					l, dead := g.From(e)
					if dead {
						f.cable(l, false)
					}
					for pair := range allPairs(g) {
						from := paths.End{Switch: pair.from, Port: hostPort + 1}
						want := n.Follow(macOf(pair.to), from, cut(e))
						at, links, frame := f.follow(macOf(pair.to), from)
						if at != want.At || links != len(want.Links) {
							t.Fatalf("from %v to %v with %v dead: at %v after %d links, want %v at %v after %d", pair.from, pair.to, e, at, links, want.Fate, want.At, len(want.Links))
						}
						if frame != nil && string(frame) != string(frameTo(macOf(pair.to))) {
							t.Fatalf("from %v to %v with %v dead: the frame has become %x", pair.from, pair.to, e, frame)
						}
					}
					if dead {
						f.cable(l, true)
					}
				}
			})
		}
	}
}
