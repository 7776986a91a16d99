package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A handler may need cells of several actors (Beehive, section 3.2, "merging bees"). One of them handles the message,
// and uses the cells of all of them in one transaction, which is possible if they live in one group. Otherwise the
// message is kept, as with Later, and they come together: see ledger.Bond for who comes to whom. Each message that
// waits asks again once a second, since a move may not have begun, or may have been called off.

const (
	// maxTogether bounds the actors whose cells a handler needs for one message.
	maxTogether = 64
	// askAgain is how often the message asks the actors that have not come, and gatherFor how long it waits for them.
	askAgain  = time.Second
	gatherFor = 10 * time.Second
	// comeName is the name of the message that asks an actor to come.
	comeName = "come"
)

// come asks an actor to come to where another one lives. The sender comes there, too.
type come struct {
	To ledger.Shard `cbor:"1,keyasint"`
	By string       `cbor:"2,keyasint"`           // the handler that needs both
	ID string       `cbor:"3,keyasint,omitempty"` // of what waits, which is to be told if it does not come
}

// gathering is what is known of a message that has waited for actors to come together.
type gathering struct {
	until   int64  // when that ends; 0: it has not waited
	refused string // why one of them does not come
}

// scattered is the actors of a message that are not in one group.
type scattered struct {
	owners, here, missing []ledger.Shard
	handler               string
}

// owners returns the actors that have the cells, the one that handles the message first. That is the actor at a switch,
// if there is one.
func (c *Cells) owners() (list []ledger.Shard) {
	add := func(at ledger.Shard) {
		if !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	if len(c.parts) > 0 {
		add(ledger.Shard{})
	}
	for i := range c.n {
		add(c.few[i].shard())
	}
	for i := range c.many {
		add(c.many[i].shard())
	}
	slices.SortFunc(list, func(a, b ledger.Shard) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return list
}

// checkTogether returns an error if the cells of actors can never be used in one transaction.
func (tx *Tx) checkTogether(owners []ledger.Shard, cells func() string) error {
	switches := 0
	for _, o := range owners {
		if o.Switch != 0 {
			switches++
		}
	}
	switch {
	case switches > 1:
		return fmt.Errorf("%s needs cells of %d switches (%s), which stay in their groups: emit a message for the "+
			"second one, or make the tables Together", tx.handler, switches, cells())
	case len(owners) > maxTogether:
		return fmt.Errorf("%s needs cells of %d actors, at most %d are possible: make the tables Together", tx.handler,
			len(owners), maxTogether)
	}
	return nil
}

// enterTogether is enter for a handler that needs cells of several actors.
func (tx *Tx) enterTogether() (bool, error) {
	owners := tx.allowed.owners()
	if err := tx.checkTogether(owners, tx.allowed.String); err != nil {
		return false, err
	}
	if !tx.enterOrStray(owners[0]) {
		return false, nil
	}
	err := tx.join(owners)
	return err == nil, err
}

// join bonds the actors if all of them live in this group. Otherwise it returns an error, with which the message waits,
// or fails if it has waited for too long.
func (tx *Tx) join(owners []ledger.Shard) error {
	i := slices.IndexFunc(owners, func(o ledger.Shard) bool { return !tx.ledger.Beside(o) })
	if i < 0 {
		tx.bond(owners, owners, tx.handler)
		return nil
	}
	p := &scattered{owners: slices.Clone(owners), here: slices.Clone(owners[:i]), handler: tx.handler}
	for _, o := range owners[i:] {
		if tx.ledger.Beside(o) {
			p.here = append(p.here, o)
		} else {
			p.missing = append(p.missing, o)
		}
	}
	switch g := &tx.gathering; {
	case g.refused != "":
		return fmt.Errorf("%s needs cells of several actors, and one of them does not come: %s", tx.handler, g.refused)
	case g.until != 0 && tx.ledger.Now().UnixNano() >= g.until:
		return fmt.Errorf("%s needs cells of several actors, and in %v these did not come: %s; see with holdfast "+
			"status whether all groups have a leader", tx.handler, gatherFor, tx.names(p.missing))
	}
	return &later{after: askAgain, scattered: p}
}

func (tx *Tx) names(list []ledger.Shard) string {
	var names []string
	for _, at := range list {
		names = append(names, tx.actor(at).String())
	}
	return strings.Join(names, ", ")
}

// bond bonds those of the actors that live here, and returns to which one they come: the first of all, or the one at a
// switch.
func (tx *Tx) bond(owners, here []ledger.Shard, handler string) (to ledger.Shard) {
	if i := slices.IndexFunc(owners, func(o ledger.Shard) bool { return o.Switch != 0 }); i >= 0 {
		to = owners[i]
	} else {
		to = tx.first(owners, here)
	}
	for _, o := range here {
		if b, bonded := tx.ledger.Bond(o); o.Switch == 0 && (!bonded || b.To != to) {
			tx.ledger.SetBond(o, ledger.Bond{To: to, By: handler})
		}
	}
	return to
}

// first returns the first of the actors, and of those to which the ones that live here are bonded.
func (tx *Tx) first(owners, here []ledger.Shard) ledger.Shard {
	to := owners[0]
	for _, o := range owners[1:] {
		if o.Before(to) {
			to = o
		}
	}
	for _, o := range here {
		if b, bonded := tx.ledger.Bond(o); bonded && b.To.Before(to) {
			to = b.To
		}
	}
	return to
}

// gather asks actors to come to where a message waits, or goes to where they are to come. id is that of what waits.
func (tx *Tx) gather(id string, p *scattered) error {
	to := tx.bond(p.owners, p.here, p.handler)
	data, err := cbor.Marshal(come{to, p.handler, id})
	if err != nil {
		return err
	}
	for _, o := range p.missing {
		if o.Switch != 0 {
			continue // it stays, and this actor goes there
		}
		if err := tx.ledger.EmitTo(tx.actor(o), comeName, data); err != nil {
			return err
		}
	}
	if tx.ledger.Shard().Switch != 0 {
		return nil
	}
	return tx.ledger.Follow(to)
}

// comes takes the message that asks this actor to come. If it is bonded to an earlier actor, it asks the sender to come
// there instead.
func (a *App) comes(in *ledger.Input) error {
	tx := &a.tx
	var m come
	if err := cbor.Unmarshal(in.Message, &m); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	at, to := tx.ledger.Shard(), m.To
	asker, _ := tx.ledger.Sender()
	b, bonded := tx.ledger.Bond(at)
	if own := at; asker.Switch == 0 {
		if bonded {
			own = b.To
		}
		if own.Before(to) {
			to = own
		}
	}
	if !bonded || b.To != to {
		tx.ledger.SetBond(at, ledger.Bond{To: to, By: m.By})
	}
	if to != m.To {
		data, err := cbor.Marshal(come{To: to, By: m.By})
		if err != nil {
			return err
		}
		if err := tx.ledger.EmitTo(asker, comeName, data); err != nil {
			return err
		}
	}
	if err := tx.ledger.Follow(to); err != nil {
		if m.ID == "" {
			return err
		}
		return tx.respond(comeName, m.ID, nil, err)
	}
	return nil
}
