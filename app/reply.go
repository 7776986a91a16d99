package app

import (
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// replyPrefix precedes the type of a reply.
const replyPrefix = "reply "

// Reply sends m to the sender of the message that a handler of HandleEmitted handles, and to nobody else: to the
// handlers that the sending application gave to HandleReply for the type of m. These run in the actor that emitted the
// message, wherever that lives, in this transaction if it lives in the same group. Reply fails if no application has
// sent the present message: use Tx.Send for switches, and return the answer in a handler of HandleHTTP or HandleCall.
func (tx *Tx) Reply(m any) error {
	name := replyPrefix + codec.NameOf(reflect.TypeOf(m))
	to, ok := tx.ledger.Sender()
	if !ok || to.App == "" {
		return fmt.Errorf("%s: no application has sent the present message", name)
	}
	data, err := cbor.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return tx.ledger.EmitTo(to, name, data)
}

// HandleReply adds a handler for replies of type M to messages that this application has emitted. Its cells must belong
// to the actor that emitted the message. Without a map function, these are the cells that it uses. A reply that no
// handler takes is dropped.
func HandleReply[M any](a *App, cells func(M) Cells, run func(*Tx, M) error) {
	name := replyPrefix + typeName[M]()
	f := newFunction(a, cells)
	a.emitted[name] = append(a.emitted[name], func(tx *Tx, in *ledger.Input) error {
		var m M
		if err := cbor.Unmarshal(in.Message, &m); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return f.handleHere(tx, &m, run)
	})
}

// handleHere runs the handler on a message that is for the present actor and no other.
func (f *function[M]) handleHere(tx *Tx, m *M, run func(*Tx, M) error) error {
	tx.alone = true
	if f.cells == nil {
		return f.addressed(tx, m, run)
	}
	tx.handler, tx.allowed = f.handler, f.cells(*m)
	is := tx.ledger.Actor()
	at, ok := tx.allowed.of(is.Shard)
	if !tx.whole && (at != is.Shard || !ok && tx.ledger.Sharded()) {
		return fmt.Errorf("%v is told something that its handler handles with the cells of another actor (%s): name "+
			"cells of the one that has sent the message", is, &tx.allowed)
	}
	tx.enterAt(is.Shard)
	return run(tx, *m)
}
