package reconcile

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Want is what a switch should hold.
type Want struct {
	Flows  []of13.FlowMod  // as they would be added; Command, BufferID, OutPort and OutGroup do not count
	Groups []of13.GroupMod // one that refers to another comes after it; Command does not count
}

// Owner says who owns an entry or a group that is not wanted.
type Owner uint8

// The owners.
const (
	Foreign Owner = iota // of no known application
	Own                  // of the caller: it is removed
	Spare                // of another application: ignored and not counted
)

// Policy says what happens to what is not wanted.
type Policy struct {
	// Flow and Group classify what is not wanted; nil means that all is foreign. Their arguments are valid only during
	// the call. Flow must spare the marker of a switch without an agent (docs/design/stock.md): without it the
	// switch loses its epoch.
	Flow  func(of13.FlowStats) Owner
	Group func(of13.GroupDesc) Owner
	// RemoveForeign removes what is foreign, too.
	RemoveForeign bool
}

// Result counts entries and groups. Whatever is in the place of a wanted one and differs is wrong. Surplus and Foreign
// count twice what a switch reported twice.
type Result struct {
	Right, Wrong, Missing int // of those wanted; until the check is complete, what has not been reported yet is missing
	Surplus               int // of the caller, and not wanted
	Foreign               int
}

// Bounds of a check. What exceeds them is left to the next check.
const (
	maxRemovals = 4096 // entries that are removed
	maxGroups   = 1024 // groups that are removed; uses of groups that are looked at
)

// The states of a wanted entry or group.
const (
	missing byte = iota
	wrong
	right
)

// Check is one comparison.
type Check struct {
	want   Want
	policy Policy
	digest uint64

	text   string         // identity and content of each wanted entry, content of each wanted group, in canonical form
	bounds []bounds       // of them in text
	flows  map[string]int // by identity: place in want.Flows
	groups map[uint32]int // by id: place in want.Groups

	found    []byte // of each wanted entry, then of each wanted group
	done     [2]bool
	removals int
	surplus  int
	foreign  int
	doomed   []uint32 // groups to remove at the end
	uses     []use    // of groups that are not wanted
	spill    bool     // uses was full: no group is removed
	failed   error

	canon canon
	buf   []byte
}

// use says that one group uses another. by is of13.GroupAny for anything that stays.
type use struct{ by, of uint32 }

type bounds struct{ start, content, end int }

// The two replies, in Check.done.
const (
	flowReply = iota
	groupReply
)

// New returns a check that has seen nothing. It returns an error if something is wanted twice, or if no switch can hold
// it.
func New(w Want, p Policy) (*Check, error) {
	c := &Check{want: w, policy: p, flows: make(map[string]int, len(w.Flows)),
		groups: make(map[uint32]int, len(w.Groups)),
		bounds: make([]bounds, 0, len(w.Flows)+len(w.Groups)), found: make([]byte, len(w.Flows)+len(w.Groups))}
	var b []byte
	for i := range w.Flows {
		f := &w.Flows[i]
		at := bounds{start: len(b)}
		b = c.canon.identity(b, f.TableID, f.Priority, f.Match)
		at.content = len(b)
		b = c.canon.flow(b, f.Cookie, f.IdleTimeout, f.HardTimeout, f.Flags, f.Instructions)
		at.end = len(b)
		c.bounds = append(c.bounds, at)
	}
	for i := range w.Groups {
		at := bounds{len(b), len(b), 0}
		b = c.canon.group(b, w.Groups[i].GroupType, w.Groups[i].Buckets)
		at.end = len(b)
		c.bounds = append(c.bounds, at)
	}
	c.text = string(b)
	for i := range w.Flows {
		f, at := &w.Flows[i], c.bounds[i]
		id := c.text[at.start:at.content]
		if _, twice := c.flows[id]; twice || f.TableID > of13.TableMax {
			return nil, fmt.Errorf("%s is wanted twice, or in no table", name(f.TableID, f.Priority, f.Match))
		}
		c.flows[id] = i
	}
	for i, g := range w.Groups {
		if _, twice := c.groups[g.GroupID]; twice || g.GroupID > of13.GroupMax {
			return nil, fmt.Errorf("group %d is wanted twice, or is above the highest, %d", g.GroupID, of13.GroupMax)
		}
		c.groups[g.GroupID] = i
		b = binary.BigEndian.AppendUint32(b, g.GroupID)
	}
	for _, at := range c.bounds {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(at.content)), uint64(at.end))
	}
	c.digest = xxhash.Sum64(b)
	return c, nil
}

func name(table uint8, priority uint16, m of13.Match) string {
	return fmt.Sprintf("entry of table %d, priority %d, match %v", table, priority, m)
}

// Requests returns the requests for the entries of all tables and for all groups. They may be sent in any order, or one
// after the other.
func (c *Check) Requests() []of13.Message {
	flows := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	return []of13.Message{
		&of13.MultipartRequest{Part: of13.PartFlow, Body: flows.AppendTo(nil)},
		&of13.MultipartRequest{Part: of13.PartGroupDesc},
	}
}

// Complete reports whether the last part of both replies has come.
func (c *Check) Complete() bool { return c.done[flowReply] && c.done[groupReply] && c.failed == nil }

// Result counts what has been found so far.
func (c *Check) Result() Result {
	r := Result{Surplus: c.surplus, Foreign: c.foreign}
	for _, f := range c.found {
		switch f {
		case right:
			r.Right++
		case wrong:
			r.Wrong++
		default:
			r.Missing++
		}
	}
	return r
}

// Amiss yields the places in Want.Flows of the entries that are missing (true), or differ from what is wanted (false).
// It yields nothing before the check is complete.
func (c *Check) Amiss() iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		if !c.Complete() {
			return
		}
		for i := range c.want.Flows {
			if f := c.found[i]; f != right && !yield(i, f == missing) {
				return
			}
		}
	}
}

// Repair returns what is left to do once the check is complete, else nothing: first the groups that are missing or
// wrong, then the entries, then the deletion of unused groups. Keep the order if you split it.
func (c *Check) Repair() []of13.Message {
	if !c.Complete() {
		return nil
	}
	var msgs []of13.Message
	for i, g := range c.want.Groups {
		switch g.Command = of13.GroupAdd; c.found[len(c.want.Flows)+i] {
		case right:
			continue
		case wrong:
			g.Command = of13.GroupModify
		}
		msgs = append(msgs, &g)
	}
	for i, f := range c.want.Flows {
		if c.found[i] != right { // an addition replaces what is in its place
			f.Command, f.CookieMask, f.BufferID, f.OutPort, f.OutGroup = of13.FlowAdd, 0, of13.NoBuffer, of13.PortAny,
				of13.GroupAny
			msgs = append(msgs, &f)
		}
	}
	return append(msgs, c.removeGroups()...)
}
