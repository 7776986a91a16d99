package ledger

import (
	"bytes"
	"fmt"
)

// Emit passes a message to every application that may handle it, in this transaction, after the handlers of the present
// input. It fails beyond 1,024 messages in one transaction.
func (tx *Tx) Emit(name string, data []byte) error {
	return tx.emit(Input{Name: name, Message: data, from: tx.Actor(), at: tx.at})
}

// EmitTo passes a message to one actor and to no other, wherever that lives: in this transaction if it can, else over a
// stream. It fails as Emit does.
func (tx *Tx) EmitTo(to Actor, name string, data []byte) error {
	in := Input{Name: name, Message: data, from: tx.Actor(), at: to.Shard, exact: true, to: to}
	if c := tx.c; c.sharded() && !(c.here(to) && c.direct(Link{tx.Actor(), to})) {
		in.Kind = Emitted
		tx.countEmitted(name)
		c.forward(Link{tx.Actor(), to}, &in)
		return nil
	}
	return tx.emit(in)
}

func (tx *Tx) emit(in Input) error {
	tx.check()
	c := tx.c
	if !in.exact && len(c.audience.named(in.Name)) == 0 {
		tx.countEmitted(in.Name)
		return nil
	}
	if len(c.emitted) >= maxEmitted {
		return fmt.Errorf("emit %q: a transaction may emit %d messages; this one loops or is too large", in.Name,
			maxEmitted)
	}
	in.Kind, in.Message = Emitted, bytes.Clone(in.Message)
	in.level, in.sender, in.source = tx.level, tx.Actor(), tx.countEmitted(in.Name)
	c.emitted = append(c.emitted, in)
	return nil
}

// Handled reports whether an application handles emitted messages of that name alone.
func (tx *Tx) Handled(name string) bool {
	_, is := tx.c.answerers[name]
	return is
}

// Sender returns the actor that has emitted the present message; false if the input is none.
func (tx *Tx) Sender() (a Actor, ok bool) { return tx.c.input.sender, tx.c.input.Kind == Emitted }
