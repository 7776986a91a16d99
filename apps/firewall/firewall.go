// Package firewall is an access list: rules that allow or deny frames by their addresses, protocol, ports, VLAN and
// ingress port. Every switch has the list as flow entries, and decides with them about each frame that enters by one of
// its ports. Allowed frames go on to the table Next, where the flow entries of the other applications are.
//
// No frame passes that the list forbids. A switch that comes up passes nothing until it has the whole list, and without
// a list nothing passes anywhere. When the list changes, a switch handles each frame by the old list or by the new one.
// A switch that cannot take all entries of a new list keeps the old one.
//
// It keeps no state of connections, does not reassemble fragments, and rejects nothing with an ICMP error. It decides
// neither about frames of the controllers, such as probes and answers of ARP, when they leave a switch, nor about
// switches without a controller at which nothing was installed: set fail_mode=secure in Open vSwitch.
//
//	PUT, GET /apps/firewall/list: a List. PUT is answered with its version: {"version": 2}
//	GET /apps/firewall/switches/{switch}: a Status
package firewall

import (
	"errors"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is the name of the application.
const Name = "firewall"

// Cookie is that of all flow entries of this package.
const Cookie uint64 = 0x68666677 // "hffw"

// Next is the table for the entries of applications that run beside this one: put them there with app.App.InTable.
const Next uint8 = 3

// The tables of this package. The entry of the selector goes to the list that decides. A new list is installed in the
// other one of the two tables before that entry is replaced.
const selector, first, second uint8 = 0, 1, 2

// spare returns the table that is not in use.
func spare(used uint8) uint8 { return first + used%second }

// Status is what a switch has of the list.
type Status struct {
	Version    uint64 `json:"version"`              // of the list that decides; 0: none, so nothing passes
	Table      uint8  `json:"table,omitempty"`      // that has this list
	Installing uint64 `json:"installing,omitempty"` // the version that the switch is to have next; 0: none
	Refused    string `json:"refused,omitempty"`    // why it does not have the last version
	Start      uint32 `json:"-" cbor:"start"`       // the first command of the last installation
	Barrier    uint32 `json:"-" cbor:"barrier"`     // its reply says that Installing is complete
}

// saved is the list, and how often it was changed.
type saved struct {
	List
	Version uint64
}

// ask asks for the list. A switch that is down asks no more.
type ask struct {
	Switch app.Switch
	Down   bool
}

// install is the answer.
type install struct {
	Switch app.Switch
	List   saved
}

// all is the key of the one list, and of the switches that asked for it.
const all = "all"

type firewall struct {
	config   Config
	lists    app.Table[string, saved]
	asked    app.Map[string, app.Switch, bool]
	switches app.Table[app.Switch, Status]
}

// Config says what runs beside the firewall.
type Config struct {
	// Detours says that switches themselves send frames of hosts on detours with protect.DetourVLAN, and remove it at
	// the end. So the list decides about what is beneath this tag, and a list with rules for VLANs is refused.
	Detours bool
}

// New returns the application.
func New(c Config) *app.App {
	a := app.New(Name)
	f := &firewall{c, app.NewTable[string, saved](a, "lists"), app.NewMap[string, app.Switch, bool](a, "asked"),
		app.NewTable[app.Switch, Status](a, "switches")}
	list := app.Need(f.lists.Cell(all), f.asked.Cell(all))
	at := func(id app.Switch) app.Cells { return app.Need(f.switches.Cell(id)) }
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, f.switchUp)
	app.Handle(a, func(m app.SwitchDown) app.Cells { return at(m.Switch) }, f.switchDown)
	app.Handle(a, func(m app.BarrierReply) app.Cells { return at(m.Switch) }, f.complete)
	app.Handle(a, func(m app.Refused) app.Cells { return at(m.Switch) }, f.refused)
	app.Handle(a, func(app.Timer) app.Cells { return list }, f.send)
	app.HandleEmitted(a, func(ask) app.Cells { return list }, f.ask)
	app.HandleEmitted(a, func(m install) app.Cells { return at(m.Switch) }, f.install)
	app.HandleHTTP(a, "PUT /list", func(app.Request) app.Cells { return list }, f.put)
	app.HandleHTTP(a, "GET /list", func(app.Request) app.Cells { return list }, f.get)
	app.HandleHTTP(a, "GET /switches/{switch}", func(r app.Request) app.Cells { return at(app.SwitchOf(r)) }, f.status)
	return a
}

// flowMod sends a change of the tables of this package.
func flowMod(tx *app.Tx, id app.Switch, m of13.FlowMod) uint32 {
	m.Cookie, m.BufferID, m.OutPort, m.OutGroup = Cookie, of13.NoBuffer, of13.PortAny, of13.GroupAny
	return tx.FlowMod(id, m)
}

// selectTable has a switch decide by the list in a table; 0: it drops all. The entry hides whatever else is in the
// table, and is replaced in one step.
func selectTable(tx *app.Tx, id app.Switch, table uint8) {
	var in of13.Instructions
	if table > 0 {
		in = in.Goto(table)
	}
	flowMod(tx, id, of13.FlowMod{TableID: selector, Priority: 0xffff, Instructions: in})
	tx.Send(id, &of13.BarrierRequest{})
}

// switchUp has the switch drop all before its tables are changed: nobody knows what is in them.
func (f *firewall) switchUp(tx *app.Tx, up app.SwitchUp) error {
	f.switches.Put(tx, up.Switch, Status{})
	selectTable(tx, up.Switch, 0)
	flowMod(tx, up.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: first})
	flowMod(tx, up.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: second})
	return app.Emit(tx, ask{Switch: up.Switch})
}

func (f *firewall) switchDown(tx *app.Tx, down app.SwitchDown) error {
	f.switches.Delete(tx, down.Switch)
	return app.Emit(tx, ask{down.Switch, true})
}

// ask notes which switches are to have the list.
func (f *firewall) ask(tx *app.Tx, m ask) error {
	if m.Down {
		f.asked.Delete(tx, all, m.Switch)
		return nil
	}
	f.asked.Put(tx, all, m.Switch, true)
	return tx.SetTimer(m.Switch.String(), 1, nil)
}

// send sends a switch the list. Timers call it, so that the entries of each switch are a transaction of their own, and
// that has a bound.
func (f *firewall) send(tx *app.Tx, t app.Timer) error {
	id, err := openflow.ParseDatapathID(t.Name)
	s, there := f.lists.Get(tx, all)
	if _, up := f.asked.Get(tx, all, id); err != nil || !up || !there {
		return err
	}
	return app.Emit(tx, install{id, s})
}

// install puts a list into the table that is not in use. A list that was being installed there is given up.
func (f *firewall) install(tx *app.Tx, m install) error {
	s, up := f.switches.Get(tx, m.Switch)
	entries, err := m.List.compile(f.config, &m.Switch)
	if !up || err != nil { // a list that was put without recovery, which runs now, may be wrong
		return err
	}
	s.Start = flowMod(tx, m.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: spare(s.Table)})
	tx.Send(m.Switch, &of13.BarrierRequest{})
	for _, e := range entries {
		e.TableID = spare(s.Table)
		flowMod(tx, m.Switch, e)
	}
	s.Installing, s.Refused = m.List.Version, ""
	s.Barrier = tx.Send(m.Switch, &of13.BarrierRequest{})
	f.switches.Put(tx, m.Switch, s)
	return nil
}

// complete has the switch use a list when all of it is there.
func (f *firewall) complete(tx *app.Tx, m app.BarrierReply) error {
	s, _ := f.switches.Get(tx, m.Switch)
	if s.Installing == 0 || m.XID != s.Barrier {
		return nil
	}
	s = Status{Version: s.Installing, Table: spare(s.Table), Start: s.Start}
	f.switches.Put(tx, m.Switch, s)
	selectTable(tx, m.Switch, s.Table)
	flowMod(tx, m.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: spare(s.Table)})
	return nil
}

// refused gives up what the switch does not take, for example because its tables are full. The list before it stays.
func (f *firewall) refused(tx *app.Tx, m app.Refused) error {
	s, up := f.switches.Get(tx, m.Switch)
	if !up || s.Start > 0 && app.Earlier(m.XID, s.Start) {
		return nil // or it is about a list that was given up before
	}
	if s.Installing > 0 {
		flowMod(tx, m.Switch, of13.FlowMod{Command: of13.FlowDelete, TableID: spare(s.Table)})
	}
	s.Installing, s.Barrier, s.Refused = 0, 0, m.Error.Error()
	f.switches.Put(tx, m.Switch, s)
	return nil
}

// put changes the list. The answer does not wait for the switches: their Status says when they have it.
func (f *firewall) put(tx *app.Tx, r app.Request) (app.Response, error) {
	l, err := f.config.parse(r)
	if err != nil {
		return app.BadRequest(err)
	}
	was, _ := f.lists.Get(tx, all)
	f.lists.Put(tx, all, saved{l, was.Version + 1})
	for id := range f.asked.All(tx, all) {
		err = errors.Join(err, tx.SetTimer(id.String(), 1, nil))
	}
	answer, _ := app.JSON(map[string]uint64{"version": was.Version + 1}, true)
	return answer, err
}

func (f *firewall) get(tx *app.Tx, _ app.Request) (app.Response, error) {
	s, there := f.lists.Get(tx, all)
	return app.JSON(s.List, there)
}

func (f *firewall) status(tx *app.Tx, r app.Request) (app.Response, error) {
	s, up := f.switches.Get(tx, app.SwitchOf(r))
	return app.JSON(s, up)
}
