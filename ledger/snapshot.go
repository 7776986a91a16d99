package ledger

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// Replicas compare what they have before they keep it as a snapshot. A leader with nothing uncommitted freezes its
// state, and marks the next entry: then each follower freezes what it has before it applies that entry. Tables are
// shared until they change, so what is taken in the loop is small. The digest is computed beside it, while the state
// is encoded.

// The flags of a header.
const (
	relayFlag   = 1 << iota // Header.Relay
	compareFlag             // Header.Compare
)

// Compares reports whether an entry asks for a digest of the state before it.
func Compares(entry []byte) bool { return len(entry) > flagsAt && entry[flagsAt]&compareFlag != 0 }

// Compare makes the next entry of this leader ask for a digest of the state as it is now, and freezes that. The leader
// must be Quiet.
func (c *Core) Compare() (Frozen, error) {
	frozen, err := c.Freeze()
	if err == nil {
		c.compare = c.leading
	}
	return frozen, err
}

// Snapshot encodes the replicated state. Equal states give equal bytes. A leader must be Quiet.
func (c *Core) Snapshot() ([]byte, error) {
	if err := c.still(); err != nil {
		return nil, err
	}
	b := c.state.snapshot(Header{Time: c.state.time})
	return appendParts(b, c.replayedParts()), nil
}

// replayedParts returns the parts of a snapshot that are the state of the replayed application.
func (c *Core) replayedParts() iter.Seq[[]byte] {
	if c.replayed == nil {
		return func(func([]byte) bool) {}
	}
	return c.replayed.Freeze()
}

func appendParts(b []byte, parts iter.Seq[[]byte]) []byte {
	size := 0
	for part := range parts {
		size += 1 + binary.MaxVarintLen64 + len(part)
	}
	b = withRoom(b, size) // the parts are made again below, so that not all of them are in memory beside b
	for part := range parts {
		b = appendBytes(append(b, byte(OpPart)), part)
	}
	return b
}

// Frozen encodes a state as it was when it was frozen, its rows in any order. The digest is that of the replicated
// state without the replayed application, which has digests of its own: equal states have equal digests at all
// replicas. Another goroutine may run it, once, while the Core continues.
type Frozen func() (state []byte, digest uint64)

// Freeze is Snapshot without blocking the Core.
func (c *Core) Freeze() (Frozen, error) {
	if err := c.still(); err != nil {
		return nil, err
	}
	header := Header{Time: c.state.time}.append(nil)
	start := c.state.appendSwitches(header)
	end := c.state.appendRest(nil)
	parts := c.replayedParts()
	frozen := map[TableName]*cells.Table{}
	for name, t := range c.state.tables {
		if t.cells.Len() > 0 {
			frozen[name] = t.cells.Clone()
		}
	}
	return func() ([]byte, uint64) {
		b, n := start, uint64(0)
		digest := xxhash.Sum64(start[len(header):]) ^ bits.RotateLeft64(xxhash.Sum64(end), 1)
		for name, cells := range frozen {
			var sum uint64
			b, sum = appendTable(b, name, n, cells.Rows(), cells.Scan())
			digest += sum
			n++
		}
		return appendParts(append(withRoom(b, len(end)), end...), parts), digest
	}, nil
}

// still returns an error if no snapshot can be taken now.
func (c *Core) still() error {
	if !c.Quiet() {
		return fmt.Errorf("ledger: snapshot while something is executed and not committed; %d entries of that are "+
			"proposed", len(c.inflight))
	}
	return nil
}

// Restore replaces the state by that of a snapshot.
func (c *Core) Restore(snapshot []byte) error {
	if err := c.Follow(); err != nil {
		return err
	}
	s := newState()
	s.revision = c.state.revision + 1
	s.restored = s.revision
	h, err := Walk(snapshot, s.apply)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	switch {
	case c.replayed != nil:
		err = c.replayed.Restore(s.parts)
	case len(s.parts) > 0:
		err = errNotReplayed
	}
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	s.parts = nil
	s.time = h.Time
	c.state = s
	c.restoreDeparted()
	return nil
}
