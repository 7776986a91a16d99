// Package app is the API of applications, and all of Holdfast that they import. An App has typed tables and handlers. A
// handler receives one message and a transaction. It is written as if one controller that never fails ran the whole
// network. The writes, commands, emitted messages and timers of a handler take effect after it returned nil: all of
// them, exactly once, whichever controllers die meanwhile. If it returns an error or panics, none of them takes effect.
//
//	func New() *app.App {
//		a := app.New("learning")
//		hosts := app.NewMap[app.Switch, app.MAC, app.Port](a, "hosts")
//		app.Handle(a,
//			func(in app.PacketIn) app.Cells { return app.Need(hosts.Cell(in.Switch)) },
//			func(tx *app.Tx, in app.PacketIn) error { … })
//		return a
//	}
//
// Handlers run only on the leader, one at a time, and need not be deterministic. They keep their state in tables: what
// is in a variable is lost with the leader.
//
// The model is Beehive's (applications as handlers over dictionaries). The map function of a handler returns which
// cells a message needs (Need, Whole, Each, Drop), and messages whose cells intersect are handled one after the other,
// by one actor. A handler that touches another cell fails. This package is not the runtime: that is package ledger.
package app

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The vocabulary of handlers.
type (
	// Switch names a switch by its datapath id.
	Switch = openflow.DatapathID
	// Port is a port number of a switch, or a reserved one such as of13.PortFlood.
	Port = of13.Port
	// MAC is an Ethernet address.
	MAC = of13.MAC
)

// App is one application: a name, tables and handlers. Make it, add tables and handlers,
// and then give it to one controller; it is not to be changed or shared after that.
type App struct {
	name     string
	tables   map[string]split
	hosts    []string                            // maps of Ethernet addresses by switch, see Prefetch
	handlers [256][]handler                      // of OpenFlow messages, by type
	degraded [256][]handler                      // those of them that run without a majority
	inputs   [ledger.Forgotten + 1][]handler     // of the other inputs, by ledger.InputKind
	emitted  map[string][]handler                // of applications' messages, by type name
	levels   [256]Level                          // of OpenFlow messages, by type
	answers  map[string]func(*Tx, *result) error // to calls, by the type of the request
	routes   map[string]route                    // over HTTP, by pattern
	detached []func(context.Context, emit)       // goroutines
	mux      *http.ServeMux                      // has the patterns, to refuse conflicts
	mappings []ledger.Mapping                    // of handlers of messages
	place    func(ledger.Key, []Group) Group     // of Place; nil without it
	sticky   bool
	rate     *rate // of RateLimit; nil without it
	table    uint8 // of InTable; 0 without it
	next     uint8 // of Before; 0 without it
	tx       Tx
	ahead    PacketIn // used by Prefetch
	last     receiver // of the packet before, there
}

// handler decodes the input, and runs what the application gave to Handle.
type handler func(tx *Tx, in *ledger.Input) error

// New makes an application without tables or handlers. The name is for logs and the
// tables' names; it must not change between releases, and be unique in a cluster.
func New(name string) *App {
	return &App{name: name, tables: map[string]split{}, emitted: map[string][]handler{},
		answers: map[string]func(*Tx, *result) error{}, routes: map[string]route{}, mux: http.NewServeMux()}
}

// Whole makes the application one actor, to which all its cells and handlers belong. So it handles messages of the
// whole network one after the other, in one group, and may ask for all switches. It returns the application. Call it
// before Handle.
func (a *App) Whole() *App {
	a.tx.whole = true
	return a
}

// InTable puts all flow entries of the application into one table of the switches, whichever table it names, and
// limits its deletions to that table. So an application that uses table 0 can run behind one whose entries decide first
// and then go to that table, such as apps/firewall. It is not for applications that use several tables.
func (a *App) InTable(table uint8) { a.table = table }

// Before says that another application has its flow entries in the table next, and handles the packets that this one
// leaves to it: see Tx.PassOn. The table of this one comes before it. Not every application can pass packets on.
func (a *App) Before(next uint8) { a.next = next }

// Name returns the application's name.
func (a *App) Name() string { return a.name }

// Shard implements ledger.Sharder.
func (a *App) Shard(table string, cell ledger.Key) ledger.Shard {
	if a.tx.whole {
		return ledger.Shard{}
	}
	switch table {
	case metersOfSwitch:
		return bySwitch.shard(cell)
	case metersOfKey, ledger.BondTable:
		return byKey.shard(cell)
	}
	return a.tables[table].shard(cell)
}

// Handle implements ledger.Application.
func (a *App) Handle(ltx *ledger.Tx, in *ledger.Input) error {
	a.tx.app, a.tx.ledger, a.tx.at = a, ltx, ltx.Shard()
	a.tx.asks, a.tx.answers, a.tx.gathering, a.tx.alone = nil, nil, gathering{}, false
	if a.rate != nil {
		a.tx.beginMetered(in)
	}
	switch {
	case in.Kind == ledger.Message && len(in.Message) < openflow.HeaderLen:
		return fmt.Errorf("%s: message of %d bytes", a.name, len(in.Message))
	case in.Kind == ledger.Timer && ledger.IsWait(in.Name):
		return a.due(in)
	case in.Kind == ledger.Emitted && strings.HasPrefix(in.Name, answerPrefix):
		return a.answered(in)
	case in.Kind == ledger.Emitted && in.Name == comeName:
		return a.comes(in)
	}
	a.tx.ran, a.tx.astray = false, ""
	list := a.list(in)
	for i := range list {
		var since *ledger.Mark
		if i > 0 { // the first one needs none
			m := ltx.Mark()
			since = &m
			ltx.Leave()
		}
		if err := a.handle(list, i, in, since); err != nil {
			return err
		}
	}
	return a.strayed()
}

// strayed returns an error if a message that is for one actor was handled by none.
func (a *App) strayed() error {
	if a.tx.ran || a.tx.astray == "" {
		return nil
	}
	to, _ := a.tx.ledger.To()
	return fmt.Errorf(
		"%v has received a message that no handler takes there, not %s: its map function, or without one "+
			"what it uses first, must depend on the message only", a.tx.actor(to), a.tx.astray)
}

// Hears implements ledger.Listener.
func (a *App) Hears(kind ledger.InputKind, typ uint8, name string) bool {
	switch kind {
	case ledger.Message:
		return len(a.handlers[typ]) > 0
	case ledger.Emitted:
		return len(a.emitted[name]) > 0 || name == comeName || strings.HasPrefix(name, answerPrefix)
	}
	return len(a.inputs[kind]) > 0
}

// list returns the handlers of an input.
func (a *App) list(in *ledger.Input) []handler {
	switch {
	case in.Kind == ledger.Message && a.tx.ledger.Degraded():
		return a.degraded[in.Message[1]]
	case in.Kind == ledger.Message:
		return a.handlers[in.Message[1]]
	case in.Kind == ledger.Emitted:
		return a.emitted[in.Name]
	}
	return a.inputs[in.Kind]
}

// event is a message type of this package: it knows which inputs it stands for.
type event[M any] interface {
	*M
	input() (ledger.InputKind, uint8)
	decode(in *ledger.Input) error
}

// Handle adds a handler for a message of the network: PacketIn, PortStatus, FlowRemoved, SwitchUp, SwitchDown,
// SwitchForgotten, Timer, Reply, BarrierReply, Refused, Void. The map function cells returns what the handler reads or
// writes for a message: see Need, Whole, Each and Drop. It must depend on the message only. Handle calls it once with
// an empty message, and panics if that asks for what cannot be. With nil, the handler is run to find out, if the
// application has tables. A handler without cells belongs to the application's actor at the switch of the message. Byte
// slices in the message are valid during the call. The options are At and Degraded.
func Handle[M any, P event[M]](a *App, cells func(M) Cells, run func(*Tx, M) error, options ...Option) {
	m := new(M) // one for all calls: handlers of an application never run side by side
	kind, typ := P(m).input()
	f := newFunction(a, cells)
	f.explain(kind, typ, "")
	h := func(tx *Tx, in *ledger.Input) error {
		if err := P(m).decode(in); err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
		return f.handle(tx, m, run)
	}
	how := handling{level: ExactlyOnce}
	for _, o := range options {
		o(&how)
	}
	switch {
	case how.degraded && (kind != ledger.Message || !message.Asynchronous(typ)):
		panic(fmt.Sprintf("application %s: %T is not handled without a majority", a.name, *m))
	case kind == ledger.Message:
		a.add(typ, how, h)
	case how.level != ExactlyOnce:
		panic(fmt.Sprintf("application %s: %T is %s always", a.name, *m, ExactlyOnce))
	default:
		a.inputs[kind] = append(a.inputs[kind], h)
	}
}

// HandleEmitted adds a handler for messages of type M that any application emits with
// Emit. They travel as CBOR, so M's fields must be exported.
func HandleEmitted[M any](a *App, cells func(M) Cells, run func(*Tx, M) error) {
	c := codec.Of[M]()
	name := c.Name()
	f := newFunction(a, cells)
	f.explain(ledger.Emitted, 0, name)
	a.emitted[name] = append(a.emitted[name], func(tx *Tx, in *ledger.Input) error {
		var m M
		if err := c.Parse(in.Message, &m); err != nil {
			return fmt.Errorf("emitted %s: %w", name, err)
		}
		return f.handle(tx, &m, run)
	})
}

// function is the map function of a handler. M is its type of message.
type function[M any] struct {
	app     *App
	handler string        // its name, for errors
	cells   func(M) Cells // nil: it is found by running the handler
}

// newFunction is called by the functions that add a handler, of which it names the caller. It panics if the map
// function, given an empty message, asks for what cannot be.
func newFunction[M any](a *App, cells func(M) Cells) function[M] {
	f := function[M]{a, fmt.Sprintf("the handler of %v", reflect.TypeFor[M]()), cells}
	if _, file, line, ok := runtime.Caller(2); ok {
		f.handler += fmt.Sprintf(" at %s:%d", filepath.Base(file), line)
	}
	if c := f.ofEmpty(); !a.tx.whole {
		if err := c.divided(); err != nil {
			panic(fmt.Sprintf("application %s: %s %v", a.name, f.handler, err))
		}
	}
	return f
}

// ofEmpty returns the cells for an empty message. A map function that panics, because it expects content, names none.
func (f function[M]) ofEmpty() (c Cells) {
	defer func() { _ = recover() }()
	if f.cells != nil {
		var empty M
		c = f.cells(empty)
	}
	return c
}

// handle runs the handler on a message, if it is to run here, and now.
func (f *function[M]) handle(tx *Tx, m *M, run func(*Tx, M) error) error {
	tx.trial, tx.refused = trial{}, false
	if f.cells == nil && len(f.app.tables) > 0 {
		tx.handler, tx.allowed = f.handler, Cells{}
		return f.find(tx, m, run)
	}
	if tx.limited() {
		return f.handleLimited(tx, m, run)
	}
	if here, err := f.enter(tx, m); !here {
		return err
	}
	return run(tx, *m)
}

// handleLimited is handle for a message that counts for RateLimit.
func (f *function[M]) handleLimited(tx *Tx, m *M, run func(*Tx, M) error) error {
	before := tx.ledger.Mark()
	if here, err := f.enter(tx, m); !here {
		return err
	}
	if ok, err := tx.admit(before); !ok {
		return err
	}
	return run(tx, *m)
}

// enter reports whether the handler is to run here, and now, on a message.
func (f *function[M]) enter(tx *Tx, m *M) (bool, error) {
	if tx.handler = f.handler; f.cells != nil {
		tx.allowed = f.cells(*m)
	} else {
		tx.allowed = Cells{}
	}
	return tx.enter()
}

// Emit hands m to the handlers of M in all applications, within this transaction and
// after the handlers of the present message.
func Emit[M any](tx *Tx, m M) error {
	c := codec.Of[M]()
	data, err := c.Append(tx.scratch[:0], &m)
	if err != nil {
		return fmt.Errorf("emit %s: %w", c.Name(), err)
	}
	tx.scratch = data
	return tx.ledger.Emit(c.Name(), data)
}

// typeName has the path of the package: two may end in the same word.
func typeName[M any]() string { return codec.Of[M]().Name() }
