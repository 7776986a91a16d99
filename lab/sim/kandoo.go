package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/kandoo"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// What hosts send: enough that clocks which run wrong do not make a flow small.
const (
	burstEvery  = 250 * time.Millisecond
	burstFrames = 250
	burstBytes  = 9000
)

// kandooTrial is two flows between hosts. The first one comes and goes while there are faults. When they are over, the
// second one begins, and leaders die. The first switch of a path has its entry when all others have theirs, and the
// root decides once about the second flow, and no more about the first one.
type kandooTrial struct {
	web
	flows  []*kandooFlow
	plans  map[uint64]*kandooPlan // by cookie
	killed int                    // leaders, while the second flow is large
	ended  bool
}

// kandooFlow is a flow from the host of a switch to that of another.
type kandooFlow struct {
	from, to openflow.DatapathID
	src, dst app.MAC
	large    bool
	decided  int    // how often it was let take a path
	had      int    // when the first one was over
	news     uint64 // of the network, then
}

// kandooPlan is what switches have executed of a path.
type kandooPlan struct {
	f       *kandooFlow
	entries map[app.PortOf]app.Port // by where the flow enters a switch: where it leaves it
	removed bool                    // in part
}

func newKandooTrial(s *simulation) trial {
	t := &kandooTrial{web: web{s, kandoo.New()}, plans: map[uint64]*kandooPlan{}}
	n := uint64(s.scenario.Switches)
	for i := range byte(2) {
		from := s.w.rand.Uint64N(n)
		t.flows = append(t.flows, &kandooFlow{from: openflow.DatapathID(1 + from),
			to:  openflow.DatapathID(1 + (from+1+s.w.rand.Uint64N(n-1))%n),
			src: app.MAC{2, 0, 0, 1, 0, i}, dst: app.MAC{2, 0, 0, 2, 0, i}})
	}
	return t
}

func (t *kandooTrial) applications() []*app.App {
	return []*app.App{t.s.wires(), t.fabric(), kandoo.New()}
}

func (t *kandooTrial) actor() ledger.Actor { return t.callee("GET /elephants", app.Request{}) }

// fabric makes an application that forwards the flows by the first way that it finds, and knows the hosts.
func (t *kandooTrial) fabric() *app.App {
	a := app.New("fabric")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		t.s.news++
		for _, f := range t.flows {
			for _, h := range []topology.Host{{MAC: f.src, At: app.PortOf{Switch: f.from, Port: census.HostPort}},
				{MAC: f.dst, At: app.PortOf{Switch: f.to, Port: census.HostPort}}} {
				if h.At.Switch != up.Switch {
					continue
				}
				if err := app.Emit(tx, topology.HostSeen{Host: h}); err != nil {
					return err
				}
			}
			if in, out := t.hop(f, up.Switch); out > 0 {
				tx.FlowMod(up.Switch, of13.FlowMod{Priority: 1, BufferID: of13.NoBuffer,
					Match:        of13.Match(nil).WithInPort(in).WithEthSrc(f.src).WithEthDst(f.dst),
					Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Outputs(out))})
			}
		}
		return nil
	})
	return a
}

// hop returns where the fabric has a flow enter and leave a switch; 0: nowhere.
func (t *kandooTrial) hop(f *kandooFlow, at openflow.DatapathID) (in, out of13.Port) {
	toward := t.s.toward(f.to, nil)
	toward[f.to] = census.HostPort
	way := app.PortOf{Switch: f.from, Port: census.HostPort}
	for way.Switch != at {
		next, linked := t.s.switches[way.Switch-1].beyond(toward[way.Switch])
		if !linked {
			return 0, 0
		}
		way = next
	}
	return way.Port, toward[at]
}

func (t *kandooTrial) start() {
	t.burst()
	t.work()
}

// burst has the large flows enter their first switches. What leaves those is of no interest.
func (t *kandooTrial) burst() {
	frame := make([]byte, burstBytes)
	for _, f := range t.flows {
		n := t.s.switches[f.from-1]
		copy(frame, f.dst[:])
		copy(frame[6:], f.src[:])
		for i := 0; i < burstFrames && f.large && n.p.up; i++ {
			n.sw.Frame(t.s.w.now, census.HostPort, frame)
			n.sw.Frames()
		}
	}
	if !t.ended {
		t.s.w.after(burstEvery, nil, t.burst)
	}
}

// work has the first flow come and go until the traffic ends, and the second one begin when nothing of that can come
// late.
func (t *kandooTrial) work() {
	f := t.flows[0]
	if f.large = t.s.traffic && !f.large; t.s.traffic {
		t.s.w.after(t.s.w.upTo(6*time.Second), nil, t.work)
		return
	}
	t.s.w.after(callPatience, nil, func() {
		for _, f := range t.flows {
			f.had, f.news = f.decided, t.s.news
		}
		t.flows[1].large = true
		t.wait(1, t.kill)
	})
}

// wait goes on when the root knows so many elephants, and they have their paths.
func (t *kandooTrial) wait(elephants int, then func()) {
	t.ask("GET /elephants", app.Request{}, func(r app.Response) {
		var list []kandoo.Elephant
		if err := json.Unmarshal(r.Body, &list); err != nil {
			t.s.w.fail("elephants: %s: %v", r.Body, err)
		}
		for _, e := range list {
			if e.Path == nil {
				list = nil
				break
			}
		}
		if len(list) == elephants && (elephants > 0 || len(r.Body) < 4) {
			then()
			return
		}
		t.s.pause(func() { t.wait(elephants, then) })
	})
}

// kill has the leaders of all groups die, twice, and looks for two more polls what the others decide.
func (t *kandooTrial) kill() {
	if t.killed++; t.killed > 2 {
		t.flows[1].large = false
		t.wait(0, func() { t.ended = true })
		return
	}
	for i := range t.s.groups {
		t.s.inflict(Fault{Kind: KillLeader, A: i, For: 100 * time.Millisecond})
	}
	t.s.w.after(3*kandoo.Interval, nil, t.kill)
}

// look follows the entries of paths, in bundles too: each is one command of the root.
func (t *kandooTrial) look(at *switchNode, msg []byte) {
	var bundled of13.BundleAdd
	if bundled.Decode(msg) == nil {
		msg = bundled.Message
	}
	var m of13.FlowMod
	if m.Decode(msg) == nil && m.Cookie>>32 == kandoo.Cookie>>32 && m.Cookie != kandoo.Cookie {
		t.follow(at, &m)
	}
}

func (t *kandooTrial) follow(at *switchNode, m *of13.FlowMod) {
	p := t.plans[m.Cookie]
	if m.Command != of13.FlowAdd {
		if p != nil {
			p.removed = true
		}
		return
	}
	src, _ := m.Match.Get(of13.FieldEthSrc)
	f := t.flows[src.Value[5]]
	if p == nil {
		p = &kandooPlan{f: f, entries: map[app.PortOf]app.Port{}}
		t.plans[m.Cookie] = p
	}
	in, _ := m.Match.InPort()
	apply, _ := m.Instructions.Get(of13.InstructionApplyActions)
	for a := range apply.Actions.All() {
		p.entries[app.PortOf{Switch: at.id, Port: in}] = a.Port
	}
	if at.id != f.from || p.removed {
		return
	}
	t.complete(p)
	if f.decided++; f.news > 0 {
		t.limit(f)
	}
}

// limit fails if the root has decided more often about a flow than there were reasons, since the faults are over.
func (t *kandooTrial) limit(f *kandooFlow) {
	most := int(t.s.news - f.news)
	if f.large {
		most++
	}
	if now := f.decided - f.had; now > most {
		t.s.w.fail("kandoo has decided %d times about the flow from switch %s to %s, at most %d were due", now, f.from,
			f.to, most)
	}
}

// complete fails if a switch of a path has no entry when the first one gets its own.
func (t *kandooTrial) complete(p *kandooPlan) {
	at := app.PortOf{Switch: p.f.from, Port: census.HostPort}
	for range len(t.s.switches) {
		out, there := p.entries[at]
		if !there {
			t.s.w.fail("kandoo lets the flow from switch %s to %s take a path on which switch %s has no entry",
				p.f.from, p.f.to, at.Switch)
			return
		}
		next, linked := t.s.switches[at.Switch-1].beyond(out)
		if !linked {
			break
		}
		at = next
	}
	if at.Switch != p.f.to {
		t.s.w.fail("a path of kandoo from switch %s to %s ends at switch %s", p.f.from, p.f.to, at.Switch)
	}
}

func (t *kandooTrial) unsettled() string {
	if !t.ended {
		return fmt.Sprintf("the second flow is large: %t, and leaders were killed %d times", t.flows[1].large, t.killed)
	}
	return ""
}
