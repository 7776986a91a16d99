// Package odd has handlers for which cellgen must take whole tables.
package odd

import (
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
	v13 "github.com/holdfast-sdn/holdfast/openflow/of13"
)

type odd struct {
	rows  app.Table[uint32, uint64]
	names app.Table[string, uint64]
	limit uint32
	act   func(*app.Tx)
}

// visit keeps a transaction.
type visit struct{ tx *app.Tx }

// New returns the application.
func New() *app.App {
	a := app.New("odd")
	o := &odd{rows: app.NewTable[uint32, uint64](a, "rows"), names: app.NewTable[string, uint64](a, "names")}
	app.Handle(a, o.loopCells, o.loop)
	app.Handle(a, o.callsCells, o.calls)
	app.HandleEmitted(a, o.recurseCells, o.recurse)
	app.Handle(a, o.keepsCells, o.keeps)
	app.Handle(a, o.variableCells, o.variable)
	app.Handle(a, o.changedCells, o.changed)
	app.Handle(a, o.breaksCells, o.breaks)
	app.HandleEmitted(a, o.indexCells, o.index)
	app.HandleEmitted(a, o.arrayCells, o.array)
	app.HandleEmitted(a, o.nextCells, o.next)
	app.HandleEmitted(a, o.divideCells, o.divide)
	app.HandleEmitted(a, o.convertCells, o.convert)
	app.HandleEmitted(a, o.parseCells, o.parse)
	app.HandleEmitted(a, o.renamedCells, o.renamed)
	return a
}

// hop has fields that a handler has to check, as the next ones do.
type hop struct {
	List []uint32
	Next *hop
	Of   uint32
	Hash []byte
	Text string
	MAC  [6]byte
}

func (o *odd) index(tx *app.Tx, m hop) error {
	if len(m.List) > 0 {
		o.rows.Put(tx, m.List[0], 1)
	}
	return nil
}

// array checks nothing: there is such an element.
func (o *odd) array(tx *app.Tx, m hop) error {
	o.rows.Put(tx, uint32(m.MAC[0]), 1)
	return nil
}

func (o *odd) next(tx *app.Tx, m hop) error {
	if m.Next != nil {
		o.rows.Put(tx, m.Next.Of, 1)
	}
	return nil
}

func (o *odd) divide(tx *app.Tx, m hop) error {
	if m.Of > 0 {
		o.rows.Put(tx, 100/m.Of, 1)
	}
	return nil
}

func (o *odd) convert(tx *app.Tx, m hop) error {
	if len(m.Hash) >= 4 {
		o.names.Put(tx, string([4]byte(m.Hash)[0]), 1)
	}
	return nil
}

func (o *odd) parse(tx *app.Tx, m hop) error {
	if m.Text != "" {
		o.names.Put(tx, netip.MustParseAddr(m.Text).String(), 1)
	}
	return nil
}

// renamed has a message of a package that has another name here.
func (o *odd) renamed(tx *app.Tx, m v13.PortDesc) error {
	o.rows.Put(tx, uint32(m.Port), 1)
	return nil
}

// loop uses a variable that is set again after it was copied.
func (o *odd) loop(tx *app.Tx, in app.PacketIn) error {
	next := uint32(in.InPort)
	for range 3 {
		at := next
		o.rows.Put(tx, at, 1)
		next++
	}
	return nil
}

func (o *odd) calls(tx *app.Tx, m app.SwitchUp) error {
	o.act(tx)
	return nil
}

func (o *odd) recurse(tx *app.Tx, n uint32) error {
	o.rows.Put(tx, n, 1)
	if n > 0 {
		return o.recurse(tx, n-1)
	}
	return nil
}

func (o *odd) keeps(tx *app.Tx, m app.SwitchDown) error {
	v := visit{tx}
	_ = v
	return nil
}

func (o *odd) variable(tx *app.Tx, m app.PortStatus) error {
	o.rows.Put(tx, o.limit, 1)
	return nil
}

func (o *odd) changed(tx *app.Tx, m app.FlowRemoved) error {
	m.Cookie++
	o.rows.Put(tx, uint32(m.Cookie), 1)
	return nil
}

// breaks is not Each: it ends with the first row.
func (o *odd) breaks(tx *app.Tx, _ app.Timer) error {
	for name := range o.names.All(tx) {
		o.names.Delete(tx, name)
		break
	}
	return nil
}
