package ledger

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// An item is what a stream between actors carries. Its first field is the length of the rest.
//
//	input:    1, kind, flags, reason, at, Switch, Epoch, Seq, Name, Message, Command
//	commands: 2, Epoch, number of the first command, whole messages
//
// Commands are those of one transaction to one switch. Epoch is what the sender knew of the switch; 0 is any.
const (
	itemInput    = 1
	itemCommands = 2 // 3 is itemPiece
)

// item is a decoded item. Its slices alias the encoded one.
type item struct {
	input    Input // if commands and piece are nil
	commands []byte
	count    int    // of the commands
	epoch    uint64 // of the switch
	token    uint64 // number of the first command
	piece    *piece // if the item has neither
}

const itemExact = 1 // flag

// appendInputItem appends an item with an input.
func appendInputItem(dst []byte, in *Input) []byte {
	return appendItem(dst, func(b []byte) []byte { return appendInput(append(b, itemInput), in) })
}

func appendInput(b []byte, in *Input) []byte {
	flags := byte(0)
	if in.exact {
		flags = itemExact
	}
	b = binary.AppendUvarint(append(b, byte(in.Kind), flags), uint64(in.Reason))
	b = binary.BigEndian.AppendUint64(in.at.append(b), uint64(in.Switch))
	b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, in.Epoch), in.Seq)
	return appendBytes(appendBytes(appendString(b, in.Name), in.Message), in.Command)
}

// input is the inverse of appendInput.
func (d *decoder) input() (in Input) {
	in.Kind = InputKind(d.byte())
	in.exact = d.byte()&itemExact != 0
	in.Reason = message.Reason(d.uvarint())
	in.at = d.shard()
	in.Switch, in.Epoch, in.Seq = openflow.DatapathID(d.uint64()), d.uint64(), d.uvarint()
	in.Name, in.Message, in.Command = d.string(), d.bytes(), d.bytes()
	return in
}

// appendCommandItem appends an item with commands, which are pieces of buf.
func appendCommandItem(dst []byte, epoch, token uint64, buf []byte, pieces []span) []byte {
	return appendItem(dst, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(append(b, itemCommands), epoch)
		b = binary.AppendUvarint(b, token)
		for _, p := range pieces {
			b = append(b, buf[p.start:p.end]...)
		}
		return b
	})
}

// itemLen is the space for the length of an item: a varint of 4 bytes.
const itemLen = 4

// Bounds of an item, in bytes. What it causes must fit into an entry of the receiver, after a whole batch: commands are
// logged again there, with up to three times the bytes of the shortest. So more commands of a transaction are several
// items, which are several transactions at the switch.
const (
	maxCommands = 256 << 10
	maxInput    = 512 << 10
)

// itemOf returns how many of the pieces, which are commands, one item takes.
func itemOf(pieces []span) (n int) {
	for size := 0; n < len(pieces); n++ {
		size += pieces[n].end - pieces[n].start
		if n > 0 && size > maxCommands {
			break
		}
	}
	return n
}

func appendItem(dst []byte, add func([]byte) []byte) []byte {
	start := len(dst)
	dst = add(append(dst, 0, 0, 0, 0)) // itemLen
	n := len(dst) - start - itemLen
	copy(dst[start:], []byte{byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n >> 21)})
	return dst
}

// nextItem splits encoded items after the first one, which it decodes.
func nextItem(b []byte) (first []byte, it item, rest []byte, err error) {
	d := decoder{b: b}
	body := decoder{b: d.bytes()}
	if d.err != nil {
		return nil, item{}, nil, d.err
	}
	switch kind := body.byte(); kind {
	case itemInput:
		it.input = body.input()
		if body.err == nil {
			body.err = checkInput(&it.input)
		}
	case itemCommands:
		it.epoch, it.token = body.uint64(), body.uvarint()
		it.commands = body.b
		if it.count = countMessages(it.commands); it.count == 0 && body.err == nil {
			body.err = fmt.Errorf("%d bytes are not commands", len(it.commands))
		}
	case itemPiece:
		it.piece = body.piece()
	default:
		body.fail(fmt.Errorf("unknown kind %d of an item: %w", kind, errVersion))
	}
	return b[:len(b)-len(d.b)], it, d.b, body.err
}

// checkInput returns an error for an input that no application could be given.
func checkInput(in *Input) error {
	switch in.Kind {
	case SwitchUp, SwitchDown, Timer, Emitted, Forgotten:
		return nil
	case Discarded:
		if in.Epoch > (maxCommands+openflow.MaxMessageLen)/openflow.HeaderLen {
			return fmt.Errorf("%d commands are void; an item has fewer", in.Epoch)
		}
		return nil
	case Message:
		if !message.Single(in.Message) {
			return fmt.Errorf("%d bytes are not one message", len(in.Message))
		}
		return nil
	}
	return fmt.Errorf("unknown kind %d of an input: %w", in.Kind, errVersion)
}

// countMessages returns how many messages b consists of; 0 if it has anything else.
func countMessages(b []byte) (n int) {
	for ; len(b) > 0; n++ {
		msg, rest, err := openflow.Next(b)
		if err != nil || msg == nil {
			return 0
		}
		b = rest
	}
	return n
}
