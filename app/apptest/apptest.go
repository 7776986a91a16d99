// Package apptest runs applications for their tests: events go in, and the commands that
// they sent come out, decoded. Behind it is a real ledger that leads alone, or with Group
// three, of which the leader may die; there are no switches or connections.
//
//	net := apptest.New(t, learning.New())
//	net.SwitchUp(1)
//	sent := net.PacketIn(1, 3, of13.NoBuffer, frame)
package apptest

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Net is a network of one controller. A failure of an application fails the test.
type Net struct {
	t      testing.TB
	core   *ledger.Core
	now    int64
	epochs map[app.Switch]uint64
	seqs   map[app.Switch]uint64
}

// Sent is a command on its way to a switch.
type Sent struct {
	Switch  app.Switch
	Message of13.Message
}

// New starts a ledger that runs apps.
func New(t testing.TB, apps ...*app.App) *Net {
	t.Helper()
	list := make([]ledger.Application, len(apps))
	for i, a := range apps {
		list[i] = a
	}
	core, err := ledger.New(list, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	n := &Net{t: t, core: core, now: 1, epochs: map[app.Switch]uint64{}, seqs: map[app.Switch]uint64{}}
	if err := core.Lead(1, n.now); err != nil {
		t.Fatal(err)
	}
	return n
}

// SwitchUp begins a new epoch of a switch with these ports.
func (n *Net) SwitchUp(id app.Switch, ports ...of13.PortDesc) []Sent {
	n.t.Helper()
	n.epochs[id]++
	n.seqs[id] = 0
	return n.Event(id, Up(id, ports...))
}

// SwitchDown ends the epoch of a switch.
func (n *Net) SwitchDown(id app.Switch) []Sent {
	n.t.Helper()
	return n.Event(id, Down())
}

// Up is the event that begins an epoch of a switch with these ports.
func Up(id app.Switch, ports ...of13.PortDesc) []byte {
	var list of13.List[of13.PortDesc]
	for _, p := range ports {
		list = list.With(p)
	}
	features := of13.FeaturesReply{DatapathID: id, NTables: 254}
	reply := of13.MultipartReply{Part: of13.PartPortDesc, Body: list}
	return experimenter.SwitchUp{Features: features.Append(nil, 0), Ports: reply.Append(nil, 0)}.Append(nil,
		openflow.Version13)
}

// Down is the event that ends an epoch.
func Down() []byte {
	return experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonConnectionLost)
}

// PacketIn hands a frame that came in by a port to the controller.
func (n *Net) PacketIn(id app.Switch, port app.Port, buffer uint32, frame string) []Sent {
	n.t.Helper()
	return n.Message(id, &of13.PacketIn{BufferID: buffer, TotalLen: uint16(len(frame)),
		Match: of13.Match(nil).WithInPort(port), Data: []byte(frame)}, 0)
}

// Message gives the controller any message from a switch.
func (n *Net) Message(id app.Switch, m of13.Message, xid uint32) []Sent {
	n.t.Helper()
	return n.Event(id, m.Append(nil, xid))
}

// Event is Message for one that is encoded already.
func (n *Net) Event(id app.Switch, msg []byte) []Sent {
	n.t.Helper()
	n.seqs[id]++
	if err := n.core.Event(id, n.epochs[id], n.seqs[id], msg); err != nil {
		n.t.Fatal(err)
	}
	return n.commit()
}

// Advance lets time pass; timers that are due fire.
func (n *Net) Advance(d time.Duration) []Sent {
	n.t.Helper()
	n.now += int64(d)
	n.core.Tick(n.now)
	return n.commit()
}

// Rows returns what an application has in its tables.
func (n *Net) Rows(name string) []ledger.Row {
	n.t.Helper()
	rows, err := n.core.Rows(name, 1<<30)
	if err != nil {
		n.t.Fatal(err)
	}
	return rows
}

// commit commits all that was executed and returns what leaves at once, and then what may leave.
func (n *Net) commit() (sent []Sent) {
	n.t.Helper()
	for _, f := range n.core.Failures() {
		n.t.Errorf("application %s failed on %s: %v\n%s", f.App, f.Input.String(), f.Err, f.Stack)
	}
	sent = n.decode(nil, n.core.Immediate())
	entry, ok := n.core.Cut()
	if !ok {
		return sent
	}
	if err := n.core.Commit(entry); err != nil {
		n.t.Fatal(err)
	}
	return n.decode(sent, n.core.Releases())
}

func (n *Net) decode(sent []Sent, list []ledger.Release) []Sent {
	n.t.Helper()
	for _, r := range list {
		rest := r.Commands
		if r.BestEffortCount > 0 {
			rest = r.BestEffort
		}
		for len(rest) > 0 {
			msg, after, err := openflow.Next(rest)
			if err != nil {
				n.t.Fatal(err)
			}
			m, err := of13.Decode(msg)
			if err != nil {
				n.t.Fatal(err)
			}
			sent, rest = append(sent, Sent{r.Switch, m}), after
		}
	}
	return sent
}
