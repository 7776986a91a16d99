package path

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// load is a leader of 16 switches in a line, which confirm everything at once, and an application that adds paths over
// two or three of them.
type load struct {
	tb   testing.TB
	core *ledger.Core
	wire *app.App
	asks *app.App
	seqs [17]uint64
	up   int
	now  int64

	entries, bytes, commands int // of the log, and for switches

	singly bool   // paths are asked for one by one
	local  bool   // they begin and end at the same switch
	ports  string // of the frames; "": any
}

const loadSwitches, together = 16, 64

func newLoad(tb testing.TB, singly bool) *load {
	l := &load{tb: tb, singly: singly, wire: newWire(), asks: app.New("asks").Whole()}
	app.NewTable[uint32, uint64](l.asks, "none")
	app.HandleHTTP(l.asks, "PUT /{first}", func(app.Request) app.Cells { return app.Need() }, l.ask)
	app.HandleEmitted(l.asks, func(model.PathState) app.Cells { return app.Need() }, func(_ *app.Tx, m model.PathState) error {
		switch m.State {
		case model.Up:
			l.up++
		case model.Refused:
			l.tb.Fatalf("%s: %s", m.Name, m.Why)
		}
		return nil
	})
	var err error
	l.core, err = ledger.New([]ledger.Application{l.wire, l.asks, node.New(), New()}, ledger.Limits{})
	l.must(err)
	l.now = 1000
	l.must(l.core.Lead(1, l.now))
	features := of13.FeaturesReply{}
	up := experimenter.SwitchUp{Features: features.Append(nil, 0)}.Append(nil, openflow.Version13)
	var links wired
	for i := range app.Switch(loadSwitches) {
		l.event(i+1, up)
		a, b := app.PortOf{Switch: i + 1, Port: 4}, app.PortOf{Switch: i + 2, Port: 3}
		if i+1 < loadSwitches {
			links.Up = append(links.Up, []topology.Link{{From: a, To: b}, {From: b, To: a}}...)
		}
	}
	body, err := json.Marshal(links)
	l.must(err)
	l.call(l.wire, "PUT /links", app.Request{Body: body})
	l.drain()
	return l
}

func (l *load) must(err error) {
	if err != nil {
		l.tb.Helper()
		l.tb.Fatal(err)
	}
}

// ask adds some paths.
func (l *load) ask(tx *app.Tx, r app.Request) (app.Response, error) {
	var first int
	if _, err := fmt.Sscan(r.Values["first"], &first); err != nil {
		return app.BadRequest(err)
	}
	var m model.AddPaths
	for i := first; i < first+together; i++ {
		from := app.Switch(i%(loadSwitches-2)) + 1
		m.Paths = append(m.Paths, model.Path{Name: fmt.Sprintf("p%d", i),
			From: app.PortOf{Switch: from, Port: 1}, To: app.PortOf{Switch: from + 1 + app.Switch(i/3%2), Port: 2},
			Class: packet.Class{Destination: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff)}})
		p := &m.Paths[len(m.Paths)-1]
		if l.local {
			p.To.Switch = from
		}
		if l.ports != "" {
			p.Class.Protocol, p.Class.DestinationPorts = "udp", l.ports
		}
	}
	if !l.singly {
		return app.Response{}, app.Emit(tx, m)
	}
	for _, p := range m.Paths {
		if err := app.Emit(tx, model.AddPath{Path: p}); err != nil {
			return app.Response{}, err
		}
	}
	return app.Response{}, nil
}

func (l *load) call(a *app.App, route string, r app.Request) {
	l.must(l.core.Call(ledger.Call{Actor: ledger.Actor{App: a.Name()}, Name: route, Message: httpcall.Encode(r)}))
}

func (l *load) event(id app.Switch, msg []byte) {
	l.seqs[id]++
	l.must(l.core.Event(id, 1, l.seqs[id], msg))
}

// drain commits all that there is, and has the switches confirm it. Timers that are due soon fire.
func (l *load) drain() {
	type reply struct {
		from app.Switch
		msg  []byte
	}
	var replies []reply
	for {
		for _, f := range l.core.Failures() {
			l.tb.Fatalf("%s: %v", f.App, f.Err)
		}
		entry, ok := l.core.Cut()
		if !ok {
			l.now += int64(2 * quiet)
			l.core.Tick(l.now)
			if entry, ok = l.core.Cut(); !ok {
				return
			}
		}
		l.entries, l.bytes = l.entries+1, l.bytes+len(entry)
		l.must(l.core.Commit(entry))
		l.core.Answers()
		for _, r := range l.core.Releases() {
			l.commands += r.Count
			for rest := r.Commands; len(rest) > 0; {
				msg, after, err := openflow.Next(rest)
				l.must(err)
				if rest = after; msg[1] == of13.TypeBarrierRequest {
					replies = append(replies, reply{r.Switch, (&of13.BarrierReply{}).Append(nil, openflow.XID(msg))})
				}
			}
			if r.Count > 0 {
				l.must(l.core.Done(r.Switch, r.Epoch, r.First+uint64(r.Count)-1))
			}
		}
		for ; len(replies) > 0 && l.core.Room(); replies = replies[1:] {
			l.event(replies[0].from, replies[0].msg)
		}
	}
}

// Paths of which each needs many flow entries are not refused because they are sent to a switch, or to all switches,
// together.
func TestPathsOfRangesWaitTogether(t *testing.T) {
	for _, local := range []bool{true, false} {
		l := newLoad(t, false)
		l.ports = "1-65534" // 30 flow entries
		l.local = local
		paths := 2048
		if local {
			paths = together // nothing else happens at these switches
		}
		for first := 0; first < paths; first += together {
			l.call(l.asks, "PUT /{first}", app.Request{Values: map[string]string{"first": fmt.Sprint(first)}})
		}
		if l.drain(); l.up != paths {
			t.Errorf("%d of %d paths are up", l.up, paths)
		}
	}
}

// Installs paths, at one leader.
func BenchmarkInstall(b *testing.B) {
	b.Run("one by one", func(b *testing.B) { install(b, true) })
	b.Run("together", func(b *testing.B) { install(b, false) })
}

func install(b *testing.B, singly bool) {
	l := newLoad(b, singly)
	l.entries, l.bytes, l.commands = 0, 0, 0
	b.ReportAllocs()
	const most = 16 * 1024 // a tag is free on each link
	asked := 0
	for b.Loop() {
		if asked > 0 && asked%most == 0 {
			b.StopTimer()
			done := l
			l = newLoad(b, singly)
			l.up, l.entries, l.bytes, l.commands = done.up, done.entries, done.bytes, done.commands
			b.StartTimer()
		}
		l.call(l.asks, "PUT /{first}", app.Request{Values: map[string]string{"first": fmt.Sprint(asked % most)}})
		asked += together
		if asked%1024 == 0 {
			l.drain()
		}
	}
	l.drain()
	if l.up != asked {
		b.Fatalf("%d of %d paths are up", l.up, asked)
	}
	for unit, n := range map[string]int64{"ns/path": b.Elapsed().Nanoseconds(), "entries/path": int64(l.entries),
		"logged-B/path": int64(l.bytes), "commands/path": int64(l.commands)} {
		b.ReportMetric(float64(n)/float64(asked), unit)
	}
}
