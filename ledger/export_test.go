package ledger

// These exports are used by the tests in package ledger_test. Those tests are in a package of their own because
// they also test package replay, which imports this one.
type (
	SimCommand = simCommand
	Relaxed    = relaxed
	Panics     = panics
)

var (
	NewMessage = newMessage
	SwitchUpOf = switchUp
	Dump       = dump
	HeaderLen  = headerLen
)

// DecodeItem decodes an item of a stream.
func DecodeItem(b []byte) (in Input, commands []byte, count int, epoch, token uint64, err error) {
	_, it, _, err := nextItem(b)
	return it.input, it.commands, it.count, it.epoch, it.token, err
}

// DecodePiece decodes an item with a part of an actor that moves, and calls f for what it contains.
func DecodePiece(b []byte, f func(*Record)) (p Piece, is bool) {
	_, it, _, _ := nextItem(b)
	if it.piece == nil {
		return p, false
	}
	_ = it.piece.walk(func(r *Record) error { f(r); return nil })
	return Piece{it.piece.actor, it.piece.next, it.piece.first, it.piece.last}, true
}

// Piece is what an item with a part of an actor says of it.
type Piece struct {
	Actor       Actor
	Next        Assignment
	First, Last bool
}

// IsExact reports whether an input is for one actor and no other.
func IsExact(in *Input) bool { return in.exact }

func (tx *Tx) Tag() uint32 { return tx.tag >> tagShift }

// Moving reports whether an actor is about to depart.
func (c *Core) Moving() bool { return len(c.state.moves.leaving) > 0 }

// Acknowledging reports whether something that was acknowledged is to be logged.
func (c *Core) Acknowledging() bool { return len(c.acked)+len(c.taken) > 0 }
