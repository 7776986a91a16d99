package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Replicas of a group compare their states, so that one that differs, because of a bug or of memory that has changed,
// neither leads for long nor answers reads. When a snapshot is due, the leader freezes its state, and marks its next
// entry. Each replica encodes what it has before that entry, and sends a digest of it to the others.
//
// A majority decides. A replica that is in it stores what it has encoded as its snapshot, and logs who differs. One
// that has another digest than a majority hands over if it leads, and begins anew from its last snapshot, which is
// from before, and the log. Digests that are lost compare nothing.
//
//	digestPayload u8 | index of the entry u64 | digest u64
//
// Whoever changes what a digest is made of chooses another number for the payload, so that in a rolling upgrade the old
// replicas and the new ones do not compare themselves with each other.

// maxRebuilt bounds how often the groups of a controller begin anew because they differ. Then the controller ends.
const maxRebuilt = 3

// comparison is one comparison: the newest.
type comparison struct {
	mine  ledger.Frozen     // of a leader, until the entry that it has marked is committed
	asked bool              // this leader has begun one since the last snapshot
	state *image            // what was compared, from when it is encoded until it is stored
	equal bool              // this replica was in the majority just now, and may store it
	known bool              // it was found to be in the majority, and that later sums say so again proves nothing
	index uint64            // of the entry
	sums  map[uint64]uint64 // by controller
	named []string          // of those that differ, who were logged
	err   error             // this replica differs
	// early has the last digest of each other replica for an entry that this one does not have yet. Each chooses its
	// index, so it is no comparison before this replica has the entry: a faulty one harms only itself.
	early map[uint64]early
}

type early struct{ index, sum uint64 }

// divergedError is why a group begins anew.
type divergedError struct {
	index  uint64
	digest uint64
	others []string
	theirs uint64
}

func (e *divergedError) Error() string {
	return fmt.Sprintf("the state of this replica before entry %d differs from that of %s: its digest is %016x, "+
		"theirs is %016x", e.index, strings.Join(e.others, " and "), e.digest, e.theirs)
}

// Differs reports whether an error of a Core is that its state differs from that of a majority. It is to begin anew.
func Differs(err error) bool {
	_, differs := errors.AsType[*divergedError](err)
	return differs
}

// beginComparison makes a leader that is quiet mark its next entry.
func (c *Core) beginComparison() (err error) {
	c.comparison.asked = true
	c.comparison.mine, err = c.ledger.Compare()
	return err
}

// compare freezes the state before an entry that is marked, which is committed next. A replica that still encodes
// another state takes no part.
func (c *Core) compare(index uint64) (err error) {
	frozen := c.comparison.mine
	c.comparison.mine = nil
	if c.encoding != nil {
		return nil
	}
	if frozen == nil {
		if frozen, err = c.ledger.Freeze(); err != nil {
			return err
		}
	}
	c.comparing(index)
	c.encode(frozen, index)
	return nil
}

// comparing makes the comparison at an entry the present one, unless there is a newer one.
func (c *Core) comparing(index uint64) bool {
	if now := &c.comparison; index > now.index {
		sums, later := map[uint64]uint64{}, map[uint64]early{}
		for from, e := range now.early {
			if e.index == index {
				sums[from] = e.sum
			} else if e.index > index {
				later[from] = e
			}
		}
		*now = comparison{mine: now.mine, asked: now.asked, index: index, sums: sums, err: now.err, early: later}
	}
	return index == c.comparison.index
}

// digested tells the others the digest of this replica.
func (c *Core) digested(index, sum uint64) {
	if !c.comparing(index) {
		return
	}
	c.comparison.sums[c.cfg.ID] = sum
	for _, id := range c.present.Controllers {
		if id != c.cfg.ID {
			c.tellDigest(id)
		}
	}
	c.judge()
}

func (c *Core) tellDigest(to uint64) {
	b := binary.BigEndian.AppendUint64([]byte{digestPayload}, c.comparison.index)
	c.outside.SendPayload(to, binary.BigEndian.AppendUint64(b, c.comparison.sums[c.cfg.ID]))
}

// heardDigest takes the digest of another replica. One that has begun anew is told this one's again.
func (c *Core) heardDigest(from uint64, b []byte) {
	if !slices.Contains(c.present.Controllers, from) || len(b) != 16 {
		return
	}
	index, sum, now := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), &c.comparison
	switch {
	case index > now.index:
		if now.early == nil {
			now.early = map[uint64]early{}
		}
		now.early[from] = early{index, sum}
		return
	case index < now.index:
		return
	}
	was, known := now.sums[from]
	now.sums[from] = sum
	if mine, is := now.sums[c.cfg.ID]; is && (known && was != sum || !known && mine != sum) {
		c.tellDigest(from)
	}
	c.judge()
}

// judge decides, when this replica's digest is known.
func (c *Core) judge() {
	now := &c.comparison
	mine, is := now.sums[c.cfg.ID]
	if !is {
		return
	}
	by := map[uint64][]string{}
	for id, sum := range now.sums {
		if slices.Contains(c.present.Voters, id) {
			by[sum] = append(by[sum], c.nameOf(id))
		}
	}
	for sum, names := range by {
		slices.Sort(names)
		majority := len(names) > len(c.present.Voters)/2
		switch {
		case sum == mine && !majority:
		case sum == mine:
			now.equal, now.known = now.equal || !now.known, true
			c.nameOthers(by, mine)
		case majority:
			now.err = &divergedError{now.index, mine, names, sum}
		}
	}
}

// nameOthers logs who differs from the majority, which this replica is in.
func (c *Core) nameOthers(by map[uint64][]string, mine uint64) {
	for sum, names := range by {
		for _, name := range names {
			if sum != mine && !slices.Contains(c.comparison.named, name) {
				c.comparison.named = append(c.comparison.named, name)
				c.log.Error("the state of another replica differs from that of a majority; it should begin anew",
					"controller", name, "index", c.comparison.index, "digest", fmt.Sprintf("%016x", sum),
					"majority", fmt.Sprintf("%016x", mine))
			}
		}
	}
}
