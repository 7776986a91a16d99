package ledger

import (
	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// Replicas compare what they have. A leader with nothing uncommitted takes a digest of its state, and marks the next
// entry: then each follower takes one too, of what it has before it applies that entry. Tables are shared until they
// change, so what is taken in the loop is small, and the digest is computed beside it.

// The flags of a header.
const (
	relayFlag   = 1 << iota // Header.Relay
	compareFlag             // Header.Compare
)

// Compares reports whether an entry asks for a Digest of the state before it.
func Compares(entry []byte) bool { return len(entry) > flagsAt && entry[flagsAt]&compareFlag != 0 }

// Compare makes the next entry of this leader ask for a Digest of the state as it is now, and returns its own. The
// leader must be Quiet.
func (c *Core) Compare() (digest func() uint64, err error) {
	if digest, err = c.Digest(); err == nil {
		c.compare = c.leading
	}
	return digest, err
}

// Digest returns a function that computes a digest of the replicated state as it is now, without the replayed
// application, which has digests of its own. Equal states have equal digests at all replicas. Another goroutine may run
// the function, once, while the Core continues. A leader must be Quiet.
func (c *Core) Digest() (digest func() uint64, err error) {
	if err := c.still(); err != nil {
		return nil, err
	}
	s := c.state
	small := s.appendRest(s.appendSwitches(nil))
	tables := map[TableName]*cells.Table{}
	for name, t := range s.tables {
		if t.cells.Len() > 0 {
			tables[name] = t.cells.Clone()
		}
	}
	return func() uint64 {
		sum := xxhash.Sum64(small)
		var b []byte
		for name, t := range tables {
			b = appendTableName(b[:0], name)
			n := len(b)
			for at, value := range t.Scan() { // in any order, so rows are added up
				b = appendBytes(at[1].Append(at[0].Append(b[:n])), value)
				sum += xxhash.Sum64(b)
			}
		}
		return sum
	}, nil
}
