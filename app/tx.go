package app

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Tx is one transaction: a message and all that its handler does. It is valid until the
// handler returns. Tables are read and written through their own methods.
type Tx struct {
	ledger  *ledger.Tx
	allowed Cells
	scratch []byte
	whole   bool         // the application is one actor
	at      ledger.Shard // to which a handler without cells belongs

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

// FlowMod sends a FLOW_MOD; see Send.
func (tx *Tx) FlowMod(to Switch, m of13.FlowMod) uint32 {
	tx.flowMod = m
	return tx.ledger.Send(to, &tx.flowMod)
}

// Send sends any message of of13 to a switch, exactly once, after the transaction is
// committed. It returns the transaction id that an answer (Reply, Refused) will carry. To a
// switch that is down it does nothing and returns 0: when the switch is back, SwitchUp
// is the time to send what it needs.
func (tx *Tx) Send(to Switch, m of13.Message) uint32 { return tx.ledger.Send(to, m) }

// Now is the ledger time. It never goes back, not even when the leader changes.
func (tx *Tx) Now() time.Time { return tx.ledger.Now() }

// SetTimer sets or resets the timer of that name of the actor that the handler's cells belong to: a switch has timers
// of its own. A Timer message is delivered when it is due, also if the leader has changed.
func (tx *Tx) SetTimer(name string, after time.Duration, data []byte) error {
	return tx.ledger.SetTimer(name, after, data)
}

// CancelTimer removes the actor's timer of that name, if it is set.
func (tx *Tx) CancelTimer(name string) { tx.ledger.CancelTimer(name) }

// Switches yields the switches that are up, by datapath id. With several groups, these are the ones whose SwitchUp the
// application handles with cells that are not keyed by a switch, and such a handler must ask.
func (tx *Tx) Switches() iter.Seq[Switch] { return tx.ledger.Switches() }

// Cell is one (table, key) of this application.
type Cell struct {
	table string
	key   ledger.Key
	split split // of the table
}

func (c Cell) String() string { return fmt.Sprintf("%s[%s]", c.table, c.key) }

// Cells is what a handler needs for a message.
type Cells struct {
	few  [4]Cell // the usual number, without allocating
	n    int
	many []Cell
}

// Need lists cells.
func Need(cells ...Cell) (c Cells) {
	c.n = copy(c.few[:], cells)
	if len(cells) > len(c.few) {
		c.many = append(c.many, cells[len(c.few):]...)
	}
	return c
}

func (c *Cells) has(cell Cell) bool {
	for i := range c.n {
		if c.few[i] == cell {
			return true
		}
	}
	for _, m := range c.many {
		if m == cell {
			return true
		}
	}
	return false
}

// of returns the shard that has the cells; without cells it is by. ok is false if they are in several.
func (c *Cells) of(by ledger.Shard) (at ledger.Shard, ok bool) {
	at = by
	for i := range c.n {
		owner := c.few[i].split.shard(c.few[i].key)
		if i > 0 && owner != at {
			return at, false
		}
		at = owner
	}
	for i := range c.many {
		if c.many[i].split.shard(c.many[i].key) != at {
			return at, false
		}
	}
	return at, true
}

// split says how the cells of a table are divided among actors.
type split uint8

const (
	together split = iota // all belong to one actor
	bySwitch              // the key is a switch, or a port of one
	byKey
)

// shard returns the shard that has the cell of a key.
func (s split) shard(k ledger.Key) ledger.Shard {
	switch s {
	case bySwitch:
		return ledger.AtSwitch(Switch(k.A))
	case byKey:
		return ledger.Shard{Key: k}
	}
	return ledger.Shard{}
}

// enter reports whether a handler that needs the allowed cells is to run here. If another group has them, the input
// goes there.
func (tx *Tx) enter() (bool, error) {
	if tx.whole {
		return tx.ledger.Enter(ledger.Shard{}), nil
	}
	at, ok := tx.allowed.of(tx.at)
	if !ok && tx.ledger.Sharded() {
		return false, fmt.Errorf("a handler needs cells of several switches, or of one and of none: with groups: "+
			"per-controller they may be in different groups (%s); an application that is to see all of them is "+
			"app.Whole", &tx.allowed)
	}
	return tx.ledger.Enter(at), nil
}

func (c *Cells) String() string {
	list := []string{}
	for i := range c.n {
		list = append(list, c.few[i].String())
	}
	for _, m := range c.many {
		list = append(list, m.String())
	}
	return strings.Join(list, ", ")
}

// use fails the handler if it did not declare the cell: the cell might live on another controller.
func (tx *Tx) use(c Cell) {
	if !tx.allowed.has(c) {
		panic(fmt.Sprintf("uses cell %s, which its cells function does not name: add it to Need(…)", c))
	}
}

var _ ledger.Encoder = of13.Message(nil)
