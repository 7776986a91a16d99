package reconcile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// State returns what Resume needs to continue: two bits for each wanted entry and group, some counts, and the groups to
// delete. It is nil if the check has ended by an error.
func (c *Check) State() []byte {
	if c.failed != nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, c.digest)
	var flags byte
	for i, set := range []bool{c.done[flowReply], c.done[groupReply], c.spill} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	at := len(b)
	b = append(b, make([]byte, (len(c.found)+3)/4)...)
	for i, f := range c.found {
		b[at+i/4] |= f << (i % 4 * 2)
	}
	for _, n := range []int{c.removals, c.surplus, c.foreign} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(c.doomed)))
	for _, id := range c.doomed {
		b = binary.AppendUvarint(b, uint64(id))
	}
	b = binary.AppendUvarint(b, uint64(len(c.uses)))
	for _, u := range c.uses {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(u.by)), uint64(u.of))
	}
	return b
}

// Resume returns the check that state was taken from, made for the same Want and Policy. A state of another Want is an
// error.
func Resume(w Want, p Policy, state []byte) (*Check, error) {
	c, err := New(w, p)
	if err != nil {
		return nil, err
	}
	if err := c.restore(state); err != nil {
		return nil, fmt.Errorf("go on with a check: %w", err)
	}
	return c, nil
}

func (c *Check) restore(b []byte) error {
	packed := (len(c.found) + 3) / 4
	if len(b) < 9+packed {
		return fmt.Errorf("state of %d bytes, at least %d expected", len(b), 9+packed)
	}
	if binary.BigEndian.Uint64(b) != c.digest {
		return errors.New("what is wanted has changed since it began")
	}
	flags := b[8]
	c.done[flowReply], c.done[groupReply], c.spill = flags&1 != 0, flags&2 != 0, flags&4 != 0
	for i := range c.found {
		c.found[i] = b[9+i/4] >> (i % 4 * 2) & 3
		if c.found[i] > right {
			return fmt.Errorf("entry or group %d is neither missing, wrong nor right", i)
		}
	}
	r := reader{b: b[9+packed:]}
	c.removals, c.surplus, c.foreign = r.number(maxRemovals), r.number(1<<62), r.number(1<<62)
	for range r.number(maxGroups) {
		c.doomed = append(c.doomed, r.id())
	}
	for range r.number(maxGroups) {
		c.uses = append(c.uses, use{r.id(), r.id()})
	}
	if r.bad || len(r.b) > 0 {
		return errors.New("the counts are cut off, or something follows them")
	}
	return nil
}

// reader reads numbers until one is missing.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number(most uint64) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) id() uint32 { return uint32(r.number(1<<32 - 1)) }
