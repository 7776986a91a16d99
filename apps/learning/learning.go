// Package learning is a layer-2 learning switch, separate for each switch: it learns the port of each source address,
// installs a flow for known destinations, and floods packets to others. It does not detect loops: such networks need a
// spanning tree too.
package learning

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

//go:generate go run github.com/holdfast-sdn/holdfast/app/cellgen

// IdleTimeout is how long an unused flow stays in a switch, in seconds.
const IdleTimeout = 60

const flowPriority = 10

// MaxHosts bounds the addresses that are learned at one port of a switch, since one host can send from any number of
// them. At the bound, packets to further addresses are flooded, until the port goes down or addresses move away.
const MaxHosts = 16384

// New returns the application.
func New() *app.App {
	a := app.New("learning")
	l := &learning{hosts: app.NewMap[app.Switch, app.MAC, app.Port](a, "hosts"),
		counts: app.NewMap[app.Switch, app.Port, int](a, "counts")}
	app.Handle(a, l.switchUpCells, l.switchUp)
	app.Handle(a, l.packetInCells, l.packetIn, app.Degraded())
	app.Handle(a, l.portStatusCells, l.portStatus)
	return a
}

type learning struct {
	hosts  app.Map[app.Switch, app.MAC, app.Port]
	counts app.Map[app.Switch, app.Port, int] // of hosts, by port

	// Buffers for what is being sent; handlers run one at a time.
	match        of13.Match
	actions      of13.Actions
	instructions of13.Instructions
}

// switchUp asks for the packets that no flow matches.
func (l *learning) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.TableMiss(up.Switch)
	return nil
}

func (l *learning) packetIn(tx *app.Tx, in app.PacketIn) error {
	src, dst := in.EthSrc(), in.EthDst()
	if port, known := l.hosts.Get(tx, in.Switch, src); src[0]&1 == 0 && (!known || port != in.InPort) {
		l.learn(tx, in.Switch, src, in.InPort, port, known)
		if known {
			// The host has moved: flows lead to its old port, and those from there would hide that it is back.
			l.deleteFlows(tx, in.Switch, of13.PortAny, of13.Match(nil).WithEthDst(src))
			l.deleteFlows(tx, in.Switch, of13.PortAny, of13.Match(nil).WithInPort(port).WithEthSrc(src))
		}
	}
	out, known := l.hosts.Get(tx, in.Switch, dst)
	if !known {
		out = of13.PortFlood
	}
	l.actions = l.actions[:0].Output(out, 0)
	if known {
		l.match = l.match[:0].WithInPort(in.InPort).WithEthDst(dst).WithEthSrc(src)
		l.instructions = l.instructions[:0].Apply(l.actions)
		tx.FlowMod(in.Switch, of13.FlowMod{Command: of13.FlowAdd, Priority: flowPriority, IdleTimeout: IdleTimeout,
			BufferID: in.BufferID, Match: l.match, Instructions: l.instructions})
		if in.BufferID != of13.NoBuffer || out == in.InPort {
			return nil // the flow takes the buffered packet along; and a switch sends nothing back by itself
		}
	}
	tx.PacketOut(in.Switch, in.Out(l.actions))
	return nil
}

// learn learns a host at a port, which was at another one before if it has moved. If the port has too many, it forgets
// the host.
func (l *learning) learn(tx *app.Tx, sw app.Switch, host app.MAC, at, before app.Port, moved bool) {
	if moved {
		if n, counted := l.counts.Get(tx, sw, before); counted && n > 0 {
			l.counts.Put(tx, sw, before, n-1)
		}
	}
	n, _ := l.counts.Get(tx, sw, at)
	if n >= MaxHosts {
		l.hosts.Delete(tx, sw, host)
		return
	}
	l.hosts.Put(tx, sw, host, at)
	l.counts.Put(tx, sw, at, n+1)
}

// portStatus forgets the hosts behind a port that is gone or down.
func (l *learning) portStatus(tx *app.Tx, s app.PortStatus) error {
	if s.Reason != of13.PortDelete && s.Port.Up() {
		return nil
	}
	for mac, port := range l.hosts.All(tx, s.Switch) {
		if port == s.Port.Port {
			l.hosts.Delete(tx, s.Switch, mac)
		}
	}
	l.counts.Delete(tx, s.Switch, s.Port.Port)
	l.deleteFlows(tx, s.Switch, s.Port.Port, nil)
	// Those from the port would hide the hosts when they are back.
	l.deleteFlows(tx, s.Switch, of13.PortAny, of13.Match(nil).WithInPort(s.Port.Port))
	return nil
}

// deleteFlows deletes the flows that match, and lead to a port.
func (l *learning) deleteFlows(tx *app.Tx, id app.Switch, out app.Port, m of13.Match) {
	tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, BufferID: of13.NoBuffer, TableID: of13.TableAll, OutPort: out,
		OutGroup: of13.GroupAny, Match: m})
}
