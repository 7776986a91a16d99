package main

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// hello remembers at which port of a switch each host is, and sends packets there. It installs no flow entries, so
// that every packet comes to it.
type hello struct {
	ports app.Map[app.Switch, app.MAC, app.Port] // replicated: it survives the death of a controller
}

// New makes the application. Handlers run one at a time for each switch, and all that one does, or nothing, happens.
func New() *app.App {
	a := app.New("hello")
	h := &hello{ports: app.NewMap[app.Switch, app.MAC, app.Port](a, "ports")}
	app.Handle(a, nil, h.switchUp)
	app.Handle(a, h.packetInCells, h.packetIn)
	return a
}

// switchUp asks a switch for the packets that no flow entry matches.
func (h *hello) switchUp(tx *app.Tx, up app.SwitchUp) error {
	tx.TableMiss(up.Switch)
	return nil
}

// packetInCells says what packetIn reads and writes: packets of different switches have nothing in common, so
// controllers can share them.
func (h *hello) packetInCells(in app.PacketIn) app.Cells {
	return app.Need(h.ports.Cell(in.Switch))
}

func (h *hello) packetIn(tx *app.Tx, in app.PacketIn) error {
	h.ports.Put(tx, in.Switch, in.EthSrc(), in.InPort)
	to, known := h.ports.Get(tx, in.Switch, in.EthDst())
	if !known {
		to = of13.PortFlood
	}
	out := of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: of13.Actions(nil).Output(to, 0)}
	if in.BufferID == of13.NoBuffer {
		out.Data = in.Data
	}
	tx.PacketOut(in.Switch, out)
	return nil
}
