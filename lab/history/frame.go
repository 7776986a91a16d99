package history

import (
	"encoding/binary"
	"errors"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// The following knows the formats of package ledger: of frames and items.

const (
	frameItems   = 1
	frameArrived = 4
	itemCommands = 2
	itemPiece    = 3
	pieceLast    = 1
	pieceFirst   = 2
)

var errShort = errors.New("ends within a field")

// itemFields is an item: an input, commands, or a piece of an actor that moves.
type itemFields struct {
	epoch uint64

	kind    ledger.InputKind
	message string

	commands     []byte // nil of an input
	count, token uint64 // of the commands; the token of the first

	piece *piece // nil of an input and of commands
}

// piece is a part of an actor that moves.
type piece struct {
	actor       ledger.Actor
	next        ledger.Assignment // of the last
	first, last bool
	ops         string
}

// parseItem reads an item that the ledger has accepted.
func parseItem(b []byte) (it itemFields) {
	d := reader{b: b}
	d.uvarint() // the length
	switch d.byte() {
	case itemPiece:
		flags := d.byte()
		it.piece = &piece{last: flags&pieceLast != 0, first: flags&pieceFirst != 0, actor: d.actor(),
			next: d.assignment(), ops: string(d.b)}
		return it
	case itemCommands:
		it.epoch, it.token, it.commands = d.uint64(), d.uvarint(), d.b
		Each(it.commands, func([]byte) { it.count++ })
		return it
	}
	it.kind = ledger.InputKind(d.byte())
	d.byte()    // flags
	d.uvarint() // the reason
	d.shard()   // of the actor
	d.uint64()  // the switch of the input
	it.epoch = d.uint64()
	d.uvarint() // the sequence
	d.string()  // the name
	it.message = d.string()
	return it
}

// reader reads fields; once one is short it returns zero values.
type reader struct {
	b     []byte
	short bool
}

func (d *reader) take(n uint64) []byte {
	if d.short = d.short || n > uint64(len(d.b)); d.short {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *reader) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *reader) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *reader) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.take(uint64(max(n, 1)))
	return v
}

func (d *reader) actor() ledger.Actor {
	return ledger.Actor{App: d.string(), Shard: d.shard()}
}

func (d *reader) shard() ledger.Shard {
	return ledger.Shard{Switch: openflow.DatapathID(d.uint64()), Key: d.key()}
}

func (d *reader) key() ledger.Key { return ledger.Key{A: d.uvarint(), B: d.uvarint(), S: d.string()} }

func (d *reader) link() ledger.Link { return ledger.Link{From: d.actor(), To: d.actor()} }

func (d *reader) assignment() ledger.Assignment {
	return ledger.Assignment{Group: d.uvarint(), Version: d.uvarint()}
}

// item reads an item with its length.
func (d *reader) item() []byte {
	whole := d.b
	d.take(d.uvarint())
	return whole[:len(whole)-len(d.b)]
}
