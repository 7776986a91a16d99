package node

import (
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxPart bounds the entries that a switch gets in one transaction when it comes up.
const maxPart = 512

// restoring is the name of the timer for the next part.
const restoring = "restore"

// switchUp begins to give a switch its entries again. They replace those that it may still have, so that it does not
// stop to forward. All others of this package have another generation, and are deleted at the end.
func (n *node) switchUp(tx *app.Tx, m app.SwitchUp) error {
	if _, known := n.states.Get(tx, m.Switch); !known { // or forgotten, with entries of the generation that begins
		uninstallAll(tx, m.Switch)
	}
	if err := n.down(tx, m.Switch); err != nil {
		return err
	}
	s, _ := n.states.Get(tx, m.Switch)
	s.Generation++
	s.After, s.Start, s.Barrier = nil, 0, 0
	return n.restore(tx, m.Switch, s)
}

// restore sends the next part of the entries, and after the last one deletes what else there is.
func (n *node) restore(tx *app.Tx, id app.Switch, s state) (err error) {
	sent := 0
	for key, f := range n.flows.All(tx, id) {
		if key <= string(s.After) {
			continue
		}
		if sent++; sent > maxPart {
			break
		}
		xid := n.install(tx, id, s.Generation, key, &f)
		if f.Backup > 0 {
			n.flows.Put(tx, id, key, f)
		}
		if s.After = []byte(key); s.Start == 0 {
			s.Start = xid
		}
	}
	if sent <= maxPart {
		uninstallOthers(tx, id, s.Generation)
		n.releaseOthers(tx, id)
		s.Barrier = tx.Send(id, &of13.BarrierRequest{})
	} else {
		err = tx.SetTimer(restoring, 1, nil)
	}
	n.states.Put(tx, id, s)
	return err
}

func (n *node) timer(tx *app.Tx, m app.Timer) error {
	s, _ := n.states.Get(tx, m.Switch)
	if m.Name == comparing {
		return n.compare(tx, m.Switch, s)
	}
	if !s.Up && s.Barrier == 0 && s.Generation > 0 {
		return n.restore(tx, m.Switch, s)
	}
	return nil
}

// restored tells that a switch is up.
func (n *node) restored(tx *app.Tx, m app.BarrierReply, s state) error {
	if s.Barrier == 0 || s.Barrier != m.XID {
		return nil
	}
	s.Up = true
	n.states.Put(tx, m.Switch, s)
	return errors.Join(tx.SetTimer(comparing, pause(), nil), app.Emit(tx, model.NodeUp{Switch: m.Switch}))
}

// refusedAgain gives up an entry that a switch no longer accepts when it has come up, and begins again.
func (n *node) refusedAgain(tx *app.Tx, m app.Refused, s state, key string) error {
	f, there := n.flows.Get(tx, m.Switch, key)
	if !there || s.Start == 0 || app.Earlier(m.XID, s.Start) {
		return nil
	}
	n.flows.Delete(tx, m.Switch, key)
	n.release(tx, m.Switch, f.Group)
	s.Flows--
	s.After, s.Start, s.Barrier = nil, 0, 0
	return errors.Join(n.restore(tx, m.Switch, s),
		app.Emit(tx, model.Removed{Switch: m.Switch, Owner: f.Owner, ID: f.ID, Why: m.Error.Error()}))
}

func (n *node) switchDown(tx *app.Tx, m app.SwitchDown) error {
	tx.CancelTimer(restoring)
	return n.down(tx, m.Switch)
}

// down undoes all batches: nobody knows what the switch has executed of them.
func (n *node) down(tx *app.Tx, id app.Switch) (err error) {
	s, _ := n.states.Get(tx, id)
	for owner, b := range n.pending.All(tx, id) {
		edits, _ := n.edits.Get(tx, id, owner)
		for _, e := range slices.Backward(edits) {
			n.revert(tx, id, &s, &e)
		}
		n.pending.Delete(tx, id, owner)
		n.edits.Delete(tx, id, owner)
		err = errors.Join(err, app.Emit(tx, model.Changed{Switch: id, Owner: owner, Number: b.Number, Away: true}))
	}
	if s.Up {
		err = errors.Join(err, app.Emit(tx, model.NodeDown{Switch: id}))
	}
	s.Up, s.After, s.Start, s.Barrier = false, nil, 0, 0
	n.states.Put(tx, id, s)
	n.comparisons.Delete(tx, id)
	return err
}

// switchForgotten tells the owners of entries. The cells are removed by themselves.
func (n *node) switchForgotten(tx *app.Tx, m app.SwitchForgotten) error {
	delete(n.checks, m.Switch)
	return app.Emit(tx, model.NodeForgotten{Switch: m.Switch})
}
