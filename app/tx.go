package app

import (
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Tx is one transaction: a message and all that its handler does. It is valid until the
// handler returns. Tables are read and written through their own methods.
type Tx struct {
	app       *App
	ledger    *ledger.Tx
	handler   string // its name
	allowed   Cells
	trial     trial  // of a handler without a map function
	ran       bool   // a handler has handled the input
	astray    string // the name of one that has not, though the input is for one actor; "": none
	scratch   []byte
	whole     bool         // the application is one actor
	at        ledger.Shard // to which a handler without cells belongs
	entered   ledger.Shard // of the handler that runs
	asks      *pending     // the call for which the handler is to be run again
	answers   []result     // of those for which it is run again
	gathering gathering    // if the message has waited for other actors
	alone     bool         // the message is for one actor, and waits for no other

	kind       ledger.InputKind // of the present message
	free       bool             // no rate limit applies to it
	admissions []admission      // of it, by RateLimit
	refused    bool             // the handler does not run now, because of RateLimit

	// Copies of what is being sent: the encoders are called through an interface, and
	// these do not move to the heap for every message.
	packetOut of13.PacketOut
	flowMod   of13.FlowMod
}

// PacketOut sends a PACKET_OUT; see Send.
func (tx *Tx) PacketOut(to Switch, m of13.PacketOut) uint32 {
	tx.packetOut = m
	return tx.ledger.Send(to, &tx.packetOut)
}

var flood = of13.Actions(nil).Output(of13.PortFlood, 0)

// Flood has the switch of a packet send it out of all ports but the one where it came in.
func (tx *Tx) Flood(in PacketIn) { tx.PacketOut(in.Switch, in.Out(flood)) }

// FlowMod sends a FLOW_MOD; see Send.
func (tx *Tx) FlowMod(to Switch, m of13.FlowMod) uint32 {
	tx.flowMod = m
	if tx.app.table > 0 {
		tx.flowMod.TableID = tx.app.table
	}
	return tx.ledger.Send(to, &tx.flowMod)
}

// Table returns the table of InTable, in which all flow entries of the application are; 0 without it.
func (tx *Tx) Table() uint8 { return tx.app.table }

// Next returns the table of Before, to which packets go on; 0 without it.
func (tx *Tx) Next() uint8 { return tx.app.next }

// PassOn makes a switch leave the packets that no other entry matches to the next application, if there is one. The
// entry has no cookie, so an application that deletes its entries by their cookie passes packets on meanwhile.
func (tx *Tx) PassOn(to Switch) {
	if tx.app.next > 0 {
		tx.FlowMod(to, of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer,
			Instructions: of13.Instructions(nil).Goto(tx.app.next)})
	}
}

// TableMiss makes a switch send packets that no other entry matches, whole (OpenFlow 1.3.5, section 5.4).
func (tx *Tx) TableMiss(to Switch) {
	toController := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
	tx.FlowMod(to, of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer,
		Instructions: of13.Instructions(nil).Apply(toController)})
}

// Send sends any message of of13 to a switch, exactly once, after the transaction is
// committed. It returns the transaction id that an answer (Reply, Refused) will carry. To a
// switch that is down it does nothing and returns 0: when the switch is back, SwitchUp
// is the time to send what it needs.
func (tx *Tx) Send(to Switch, m of13.Message) uint32 {
	if f, is := m.(*of13.FlowMod); is {
		return tx.FlowMod(to, *f)
	}
	return tx.ledger.Send(to, m)
}

// Now is the ledger time. It never goes back, not even when the leader changes.
func (tx *Tx) Now() time.Time { return tx.ledger.Now() }

// SetTimer sets or resets the timer of that name of the actor that the handler's cells belong to: a switch has timers
// of its own. A Timer message is delivered when it is due, also if the leader has changed.
func (tx *Tx) SetTimer(name string, after time.Duration, data []byte) error {
	if ledger.IsWait(name) {
		return fmt.Errorf("set timer %q: names like this are used for what waits", name)
	}
	return tx.ledger.SetTimer(name, after, data)
}

// CancelTimer removes the actor's timer of that name, if it is set.
func (tx *Tx) CancelTimer(name string) { tx.ledger.CancelTimer(name) }

// Switches yields the switches that are up, by datapath id. With several groups, these are the ones whose SwitchUp the
// application handles with cells that are not keyed by a switch, and such a handler must ask.
func (tx *Tx) Switches() iter.Seq[Switch] {
	if tx.trial.on && tx.ledger.Sharded() {
		tx.touch(Cell{}, ledger.Shard{})
	}
	return tx.ledger.Switches()
}

var _ ledger.Encoder = of13.Message(nil)
