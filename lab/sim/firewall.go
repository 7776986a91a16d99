package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/firewall"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// decision is which of the frames of firewallTrial pass, as bits.
type decision uint16

// decisions are those of the lists that are put. Two of them differ in four frames or more, so a part of a list, and
// a mixture of two, mostly decides as none of them. None allows the last frame.
var decisions = []decision{0x0f, 0xf0, 0x33, 0xcc, 0x55, 0xaa, 0x3c, 0xc3, 0x5a, 0xa5, 0x66, 0x99, 0x69, 0x96}

// firewallPort is the destination port of the first frame, and firewallFrames how many frames there are.
const firewallPort, firewallFrames = 1000, 9

// firewallTrial is access lists that change all the time. At each moment, a switch decides about all frames by one list
// that was put, or drops all of them.
type firewallTrial struct {
	web
	frames [firewallFrames][]byte
	put    map[decision]bool
	last   decision // of the last list
	ended  bool     // it is put, and no request of before can come late
}

func newFirewallTrial(s *simulation) trial {
	t := &firewallTrial{web: web{s, firewall.New(firewall.Config{})}, put: map[decision]bool{0: true}}
	for i := range t.frames {
		f := udpFrame(app.MAC{2, 0, 0, 0, 0, 2}, app.MAC{2, 0, 0, 0, 0, 1}, [4]byte{192, 0, 2, 1},
			[4]byte{192, 0, 2, 2})
		binary.BigEndian.PutUint16(f[36:], uint16(firewallPort+i))
		t.frames[i] = f
	}
	return t
}

func (t *firewallTrial) applications() []*app.App {
	return []*app.App{firewall.New(firewall.Config{}), passed()}
}

// passed makes an application whose switches send back what the firewall lets pass, and the frames of hosts to census.
func passed() *app.App {
	a := app.New("passed")
	a.InTable(firewall.Next)
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		entry := func(priority uint16, m of13.Match, to of13.Port) {
			tx.FlowMod(up.Switch, of13.FlowMod{Priority: priority, BufferID: of13.NoBuffer, Match: m,
				Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(to, of13.MaxLenNoBuffer))})
		}
		entry(1, of13.Match(nil).WithEthType(census.EtherType), of13.PortController)
		entry(0, nil, of13.PortInPort)
		return nil
	})
	return a
}

func (t *firewallTrial) actor() ledger.Actor { return t.callee("GET /list", app.Request{}) }

func (t *firewallTrial) start() { t.work() }

// work puts lists until the traffic ends, and then one more.
func (t *firewallTrial) work() {
	if t.s.traffic {
		t.replace(func() { t.s.pause(t.work) })
		return
	}
	t.s.w.after(callPatience, nil, func() { t.replace(func() { t.ended = true }) })
}

// replace puts a list. Its rules allow some frames, or deny the others.
func (t *firewallTrial) replace(then func()) {
	t.last = decisions[t.s.w.rand.IntN(len(decisions))]
	list := firewall.List{Default: "deny"}
	list.Rules = []firewall.Rule{{Action: "allow", Class: packet.Class{Protocol: fmt.Sprintf("%#x", census.EtherType)}}}
	action := "allow"
	if t.s.w.rand.IntN(2) == 0 {
		list.Default, action = "allow", "deny"
	}
	for i := range firewallFrames {
		if t.last>>i&1 == 1 == (action == "allow") {
			list.Rules = append(list.Rules, firewall.Rule{Action: action, Class: packet.Class{Protocol: "udp",
				DestinationPorts: fmt.Sprint(firewallPort + i)}})
		}
	}
	body, _ := json.Marshal(list) // it can be
	t.put[t.last] = true
	t.ask("PUT /list", app.Request{Body: body}, func(r app.Response) {
		if r.Status >= http.StatusBadRequest {
			t.s.w.fail("a list is refused with status %d: %s", r.Status, r.Body)
		}
		then()
	})
}

// decides returns what a switch lets pass.
func (t *firewallTrial) decides(n *switchNode) (d decision) {
	for i, frame := range t.frames {
		if len(n.forward(census.HostPort, frame)) > 0 {
			d |= 1 << i
		}
	}
	return d
}

func (t *firewallTrial) look(at *switchNode, _ []byte) {
	if d := t.decides(at); !t.put[d] {
		t.s.w.fail("the firewall of switch %s lets the frames %09b pass: by no list that was put", at.id, d)
	}
}

func (t *firewallTrial) unsettled() string {
	for _, n := range t.s.switches {
		if d := t.decides(n); !t.ended || d != t.last {
			return fmt.Sprintf("the firewall of switch %s lets the frames %09b pass, and the last list %09b", n.id, d,
				t.last)
		}
	}
	return ""
}
