package node

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/reconcile"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// From time to time a switch is compared with the rows. An entry that is missing is told to its owner, like one that
// the switch has reported as removed; one that was changed is installed again; and entries with the mark of this
// package that no row has are removed. A change of the rows meanwhile ends the comparison.

const (
	// every is the mean time between two comparisons of a switch. It varies by a quarter, so that switches are not
	// compared together.
	every = time.Minute
	// maxAmiss bounds the entries and groups of a comparison that are told or installed again. The next one finds the
	// others.
	maxAmiss = 512
	// comparing is the name of the timer for the next comparison.
	comparing = "compare"
)

func pause() time.Duration { return every*3/4 + rand.N(every/2) }

// comparison is one that is under way.
type comparison struct {
	_        struct{} `cbor:",toarray"`
	Requests []uint32
	State    []byte // of the check
}

// checked is the check of a comparison, in memory, so that it is not made again for each part of a reply. It is of use
// as long as the row is the one of which it is: rows of entries do not change without ending that.
type checked struct {
	comparison
	check *reconcile.Check
	keys  []string
}

// maxChecked bounds the checks that are kept. Those of other switches are made again for each part.
const maxChecked = 16

// keep writes the row of a comparison, and keeps its check.
func (n *node) keep(tx *app.Tx, id app.Switch, c *checked) {
	c.State = c.check.State()
	n.comparisons.Put(tx, id, c.comparison)
	if _, there := n.checks[id]; !there && len(n.checks) == maxChecked {
		clear(n.checks)
	}
	n.checks[id] = c
}

// resume returns the check of a comparison. The error says that the rows of entries have changed.
func (n *node) resume(tx *app.Tx, id app.Switch, s state, row comparison) (*checked, error) {
	c := n.checks[id]
	delete(n.checks, id)
	if c != nil && slices.Equal(c.Requests, row.Requests) && bytes.Equal(c.State, row.State) {
		return c, nil
	}
	want, keys := n.want(tx, id, s)
	check, err := reconcile.Resume(want, policy(), row.State)
	return &checked{row, check, keys}, err
}

// want returns what a switch should have, and the keys of the rows in the same order.
func (n *node) want(tx *app.Tx, id app.Switch, s state) (w reconcile.Want, keys []string) {
	for key, f := range n.flows.All(tx, id) {
		keys = append(keys, key)
		match := bytes.Clone(n.compiler.matchOf(key))
		w.Flows = append(w.Flows, of13.FlowMod{TableID: tx.Table(), Cookie: cookie(s.Generation, f.ID),
			Priority: priorityOf(key), Flags: of13.FlowSendFlowRem, Match: match,
			Instructions: bytes.Clone(n.compiler.instructionsOf(&f, match))})
		if f.Backup > 0 {
			w.Groups = append(w.Groups, *f.group(match))
		}
	}
	return w, keys
}

// policy finds what has the mark of this package, and spares the entries and groups of others.
func policy() reconcile.Policy {
	return reconcile.Policy{
		Flow: func(f of13.FlowStats) reconcile.Owner {
			if f.Cookie&cookieMarkMask == cookieMark {
				return reconcile.Own
			}
			return reconcile.Spare
		},
		Group: func(g of13.GroupDesc) reconcile.Owner {
			if isGroup(g.GroupID) {
				return reconcile.Own
			}
			return reconcile.Spare
		},
	}
}

// compare asks a switch for what it has, unless it is being changed.
func (n *node) compare(tx *app.Tx, id app.Switch, s state) error {
	if !s.Up {
		return nil // the timer is set again when it is up
	}
	if err := tx.SetTimer(comparing, pause(), nil); err != nil {
		return err
	}
	for range n.pending.All(tx, id) {
		return nil
	}
	want, keys := n.want(tx, id, s)
	check, err := reconcile.New(want, policy())
	if err != nil {
		return err
	}
	c := &checked{check: check, keys: keys}
	for _, m := range check.Requests() {
		c.Requests = append(c.Requests, tx.Send(id, m))
	}
	n.keep(tx, id, c)
	return nil
}

// reply handles one part of what a switch has.
func (n *node) reply(tx *app.Tx, m app.Reply) error {
	row, under := n.comparisons.Get(tx, m.Switch)
	if !under || !slices.Contains(row.Requests, m.XID) {
		return nil
	}
	n.comparisons.Delete(tx, m.Switch)
	s, _ := n.states.Get(tx, m.Switch)
	c, err := n.resume(tx, m.Switch, s, row)
	if err != nil {
		return nil // the next comparison is with the new rows
	}
	deletions, err := c.check.Reply(m.MultipartReply)
	if err != nil {
		return nil // a part of the reply is not known: the comparison ends, and nothing is taken for missing
	}
	for _, d := range deletions {
		tx.Send(m.Switch, d)
	}
	if !c.check.Complete() {
		n.keep(tx, m.Switch, c)
		return nil
	}
	return n.mend(tx, m.Switch, s, c.check, c.keys)
}

// mend tells the owners of entries that are missing, and installs those again that are wrong.
func (n *node) mend(tx *app.Tx, id app.Switch, s state, check *reconcile.Check, keys []string) (err error) {
	left := maxAmiss
	for _, m := range check.Repair() {
		if g, is := m.(*of13.GroupMod); is && left > 0 {
			tx.Send(id, g)
			left--
		}
	}
	for i, missing := range check.Amiss() {
		if left--; left < 0 {
			break
		}
		f, _ := n.flows.Get(tx, id, keys[i])
		if !missing {
			n.install(tx, id, s.Generation, keys[i], &f)
			n.flows.Put(tx, id, keys[i], f)
			continue
		}
		n.flows.Delete(tx, id, keys[i])
		n.release(tx, id, f.Group)
		s.Flows--
		err = errors.Join(err, app.Emit(tx, model.Removed{Switch: id, Owner: f.Owner, ID: f.ID,
			Why: "the switch does not have an entry that it has confirmed"}))
	}
	n.states.Put(tx, id, s)
	return err
}
