// Package te is the traffic engineering application of Beehive's figure 1, and some handlers that are more difficult.
package te

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Spike is a flow that has become large.
type Spike struct {
	From app.PortOf
	Key  string
}

type te struct {
	stats  app.Map[app.Switch, uint32, uint64]
	matrix app.Table[app.PortOf, uint64]
	names  app.Table[string, uint64]
	seen   app.Table[uint32, uint64]
}

// New returns the application.
func New() *app.App {
	a := app.New("te")
	t := &te{app.NewMap[app.Switch, uint32, uint64](a, "stats"),
		app.NewTable[app.PortOf, uint64](a, "matrix", app.Together),
		app.NewTable[string, uint64](a, "names", app.Sharded),
		app.NewTable[uint32, uint64](a, "seen")}
	app.Handle(a, t.initCells, t.init)
	app.Handle(a, t.queryCells, t.query)
	app.Handle(a, t.collectCells, t.collect)
	app.HandleEmitted(a, t.routeCells, t.route)
	app.Handle(a, t.portCells, t.port)
	app.Handle(a, t.countCells, t.count)
	app.Handle(a, idleCells, idle)
	app.HandleHTTP(a, "GET /{name}", t.getCells, t.get)
	app.Handle(a, func(in app.FlowRemoved) app.Cells { return app.Drop() }, t.byHand)
	return a
}

func (t *te) init(tx *app.Tx, up app.SwitchUp) error {
	t.stats.Put(tx, up.Switch, 0, 0)
	return nil
}

func (t *te) query(tx *app.Tx, _ app.Timer) error {
	for id := range t.stats.Keys(tx) {
		n, _ := t.stats.Get(tx, id, 1)
		t.stats.Put(tx, id, 1, n+1)
		tx.Send(id, &of13.BarrierRequest{})
	}
	return nil
}

func (t *te) collect(tx *app.Tx, m app.Reply) error {
	id := m.Switch
	if n := t.add(tx, id, m.XID); n > 100 {
		return app.Emit(tx, Spike{From: app.PortOf{Switch: id}})
	}
	return nil
}

// add is followed with what collect knows.
func (t *te) add(tx *app.Tx, of app.Switch, xid uint32) uint64 {
	n, _ := t.stats.Get(tx, of, xid)
	t.stats.Put(tx, of, xid, n+1)
	return n
}

func (t *te) route(tx *app.Tx, m Spike) error {
	best := m.From
	for p, n := range t.matrix.All(tx) {
		if n > 1 {
			best = p
		}
	}
	t.matrix.Put(tx, best, 0)
	t.seen.Put(tx, 7, 1)
	return nil
}

func (t *te) port(tx *app.Tx, m app.PortStatus) error {
	at := app.PortOf{Switch: m.Switch, Port: m.Port.Port}
	t.matrix.Put(tx, at, 1)
	return nil
}

func (t *te) count(tx *app.Tx, in app.PacketIn) error {
	n, _ := t.seen.Get(tx, 0)
	t.seen.Put(tx, uint32(n), 1)
	return nil
}

func idle(tx *app.Tx, m app.SwitchDown) error { return nil }

func (t *te) get(tx *app.Tx, r app.Request) (app.Response, error) {
	n, _ := t.names.Get(tx, r.Values["name"])
	return app.Response{Status: int(n)}, nil
}

func (t *te) byHand(tx *app.Tx, m app.FlowRemoved) error { return nil }
