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
	itemCommands = 2
)

var errFrame = errors.New("a frame between groups, or an item, ends within a field")

// commandsOf reads the commands of an item, and the epoch that they are for. They are nil if it has none.
func commandsOf(item []byte) (epoch uint64, commands []byte, err error) {
	d := reader{b: item}
	d.uvarint() // the length
	if d.byte() != itemCommands {
		return 0, nil, nil
	}
	epoch = d.uint64()
	d.uvarint() // the token of the first
	if d.short {
		return 0, nil, errFrame
	}
	return epoch, d.b, nil
}

// hasCommands reports whether an item has commands.
func hasCommands(item []byte) bool {
	_, commands, _ := commandsOf(item)
	return commands != nil
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
	name := d.take(d.uvarint())
	at := ledger.AtSwitch(openflow.DatapathID(d.uint64()))
	at.Key.A, at.Key.B = d.uvarint(), d.uvarint()
	at.Key.S = string(d.take(d.uvarint()))
	return ledger.Actor{App: string(name), Shard: at}
}

func (d *reader) link() ledger.Link { return ledger.Link{From: d.actor(), To: d.actor()} }

// item reads an item with its length.
func (d *reader) item() []byte {
	whole := d.b
	d.take(d.uvarint())
	return whole[:len(whole)-len(d.b)]
}
