package ledger_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	. "github.com/holdfast-sdn/holdfast/ledger"
)

// order tells an account of the application "bank" to transfer something to another one. Chaos emits it.
type order struct {
	ID       string // unique
	From, To uint64 // keys of the actors
}

// transfer needs cells of both.
type transfer order

const orderName = "github.com/holdfast-sdn/holdfast/ledger_test.order"

var errOverdrawn = errors.New("overdrawn")

// overdrawn reports whether a transfer fails.
func (m transfer) overdrawn() bool {
	h := fnv.New32()
	_, _ = h.Write([]byte(m.ID))
	return h.Sum32()%16 == 0
}

// newBank makes the bank. Its accounts begin with 0, and may be below.
func newBank(c *cluster) *app.App {
	a := app.New("bank")
	orders := app.NewMap[uint64, string, uint64](a, "orders", app.Sharded)
	accounts := app.NewTable[uint64, int64](a, "accounts", app.Sharded)
	sent := app.NewMap[uint64, string, uint64](a, "sent", app.Sharded)
	received := app.NewMap[uint64, string, uint64](a, "received", app.Sharded)
	app.HandleEmitted(a, func(o order) app.Cells { return app.Need(orders.Cell(o.From)) },
		func(tx *app.Tx, o order) error {
			orders.Put(tx, o.From, o.ID, o.To)
			return app.Emit(tx, transfer(o))
		})
	cells := func(m transfer) app.Cells {
		return app.Need(accounts.Cell(m.From), sent.Cell(m.From), accounts.Cell(m.To), received.Cell(m.To))
	}
	if c.seed%2 == 1 {
		cells = nil
	}
	app.HandleEmitted(a, cells, func(tx *app.Tx, m transfer) error {
		for _, e := range []struct {
			account, other uint64
			list           app.Map[uint64, string, uint64]
			amount         int64
		}{{m.From, m.To, sent, -1}, {m.To, m.From, received, 1}} {
			if _, twice := e.list.Get(tx, e.account, m.ID); twice {
				c.fatalf("transfer %s is executed twice", m.ID)
			}
			e.list.Put(tx, e.account, m.ID, e.other)
			v, _ := accounts.Get(tx, e.account)
			accounts.Put(tx, e.account, v+e.amount)
		}
		if m.overdrawn() {
			return errOverdrawn
		}
		return nil
	})
	return a
}

// order emits an order.
func (a *chaos) order(tx *Tx, text func(string) string) {
	rng := a.c.rng
	o := order{ID: text(fmt.Sprint("order ", a.c.unique())), From: 1 + rng.Uint64N(4), To: 1 + rng.Uint64N(4)}
	body, err := cbor.Marshal(o)
	if err != nil {
		a.c.fatalf("%v", err)
	}
	_ = tx.Emit(orderName, body) // an error means that the bound is reached
}

// bankCounts says what has become of orders.
type bankCounts struct{ Done, Overdrawn, Apart, Waited int }

func (k *bankCounts) add(o bankCounts) {
	*k = bankCounts{k.Done + o.Done, k.Overdrawn + o.Overdrawn, k.Apart + o.Apart, k.Waited + o.Waited}
}

// checkBank checks, when nothing is in flight, that each transfer was executed once, by both accounts, or has failed.
func (s *site) checkBank() (sum bankCounts) {
	c := s.groups[0]
	lists := map[string]map[string]Row{"orders": {}, "sent": {}, "received": {}}
	balance := int64(0)
	for _, g := range s.groups {
		rows, err := g.nodes[g.leader].core.Rows("bank", 1<<30)
		if err != nil {
			c.fatalf("%v", err)
		}
		for _, r := range rows {
			if list := lists[r.Table]; list != nil {
				list[r.Field.S] = r
			} else if r.Table == "accounts" {
				balance += int64(number(r.Value))
			}
		}
		failed, waited := g.failuresOf("bank")
		sum.Waited += waited
		for _, text := range failed {
			switch {
			case strings.Contains(text, errOverdrawn.Error()):
				sum.Overdrawn++
			case strings.Contains(text, "come"):
				sum.Apart++
			}
		}
	}
	if balance != 0 {
		c.fatalf("the accounts have %d, and began with nothing", balance)
	}
	for id, r := range lists["sent"] {
		to, known := lists["received"][id]
		if !known || number(r.Value) != to.Cell.A || number(to.Value) != r.Cell.A || lists["orders"][id].Value == nil {
			c.fatalf("transfer %s: sent as %v, received as %v, ordered as %v", id, r, to, lists["orders"][id])
		}
	}
	sum.Done = len(lists["sent"])
	missing := len(lists["orders"]) - sum.Done
	if len(lists["received"]) != sum.Done || missing != sum.Overdrawn+sum.Apart && s.outbox == 0 {
		c.fatalf("%d orders, %d sent, %d received: %+v", len(lists["orders"]), sum.Done, len(lists["received"]), sum)
	}
	return sum
}

// number decodes a value of a table of numbers.
func number(b []byte) (v uint64) {
	for i, x := range b {
		v |= uint64(x&0x7f) << (7 * i)
	}
	return v
}

// failuresOf returns why an application has failed, and how often a timer of it was due, according to the log.
func (c *cluster) failuresOf(app string) (failed []string, waited int) {
	for _, entry := range c.log[:c.committed] {
		_, err := Walk(entry, func(r *Record) error {
			switch {
			case r.Op == OpFailure && r.App == app:
				failed = append(failed, r.Name)
			case r.Op == OpTimer && r.Actor.App == app:
				waited++
			}
			return nil
		})
		if err != nil {
			c.fatalf("%v", err)
		}
	}
	return failed, waited
}
