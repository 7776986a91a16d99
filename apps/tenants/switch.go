package tenants

import (
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// What the actor of a switch and the one of the network tell each other.
type (
	// joined: a switch is up, and has no entries of this package.
	joined struct {
		Switch app.Switch
		Epoch  uint64
	}
	// left: it is down.
	left struct{ Switch app.Switch }
	// program is what a switch is to have. It now removes what is not in it.
	program struct {
		Switch       app.Switch
		Epoch, Round uint64
		Entries      []encoded
	}
	// proceed: all switches have removed what they are not to have, so it installs the rest.
	proceed struct {
		Switch       app.Switch
		Epoch, Round uint64
	}
	// confirmed: it has done that.
	confirmed struct {
		Switch       app.Switch
		Epoch, Round uint64
		Phase        phase
		Refused      string
	}
)

// state is what a switch is doing.
type state struct {
	Epoch   uint64 // how often it came up
	Round   uint64
	Phase   phase
	Barrier uint32 // whose reply ends the phase; 0: none is awaited
	Refused string
}

// clear removes all entries of this package from a switch, and waits until that is done.
func (t *tenants) clear(tx *app.Tx, id app.Switch, s state) {
	for e := range t.entries.All(tx, id) {
		t.entries.Delete(tx, id, e)
	}
	tx.FlowMod(id, of13.FlowMod{Command: of13.FlowDelete, TableID: of13.TableAll, Cookie: Cookie,
		CookieMask: 1<<64 - 1, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny})
	s.Barrier = tx.Send(id, &of13.BarrierRequest{})
	t.switches.Put(tx, id, s)
}

func (t *tenants) switchUp(tx *app.Tx, up app.SwitchUp) error {
	s, _ := t.switches.Get(tx, up.Switch)
	t.clear(tx, up.Switch, state{Epoch: s.Epoch + 1})
	return nil
}

func (t *tenants) switchDown(tx *app.Tx, down app.SwitchDown) error {
	return app.Emit(tx, left{down.Switch})
}

func (t *tenants) barrier(tx *app.Tx, m app.BarrierReply) error {
	s, _ := t.switches.Get(tx, m.Switch)
	if s.Barrier == 0 || s.Barrier != m.XID {
		return nil
	}
	return t.confirm(tx, m.Switch, s)
}

// confirm ends a phase.
func (t *tenants) confirm(tx *app.Tx, id app.Switch, s state) error {
	s.Barrier = 0
	t.switches.Put(tx, id, s)
	if s.Phase == idle {
		return app.Emit(tx, joined{id, s.Epoch})
	}
	return app.Emit(tx, confirmed{id, s.Epoch, s.Round, s.Phase, s.Refused})
}

// refused has a switch begin without entries: it is not known which of them it has taken. It does so once in a phase:
// other refusals are about what was sent before, or the deletion itself, which OpenFlow 1.0 does not have.
func (t *tenants) refused(tx *app.Tx, m app.Refused) error {
	s, known := t.switches.Get(tx, m.Switch)
	if !known || s.Phase == idle || s.Refused != "" {
		return nil
	}
	s.Refused = m.Error.Error()
	t.clear(tx, m.Switch, s)
	return nil
}

// program begins to remove what the switch is not to have.
func (t *tenants) program(tx *app.Tx, m program) error {
	s, _ := t.switches.Get(tx, m.Switch)
	if s.Epoch != m.Epoch {
		return nil
	}
	t.next.Put(tx, m.Switch, m.Entries)
	t.switches.Put(tx, m.Switch, state{Epoch: s.Epoch, Round: m.Round, Phase: withdraw})
	return tx.SetTimer(changes, 1, nil)
}

// proceed begins to install what the switch does not have.
func (t *tenants) proceed(tx *app.Tx, m proceed) error {
	s, _ := t.switches.Get(tx, m.Switch)
	if s.Epoch != m.Epoch || s.Round != m.Round {
		return nil
	}
	t.switches.Put(tx, m.Switch, state{Epoch: s.Epoch, Round: s.Round, Phase: install})
	return tx.SetTimer(changes, 1, nil)
}

// changes is the timer of a switch that is to change its entries. So those of each switch are a transaction of their
// own, and that has a bound.
const changes = "changes"

// changed sends the changes of a phase, and a barrier.
func (t *tenants) changed(tx *app.Tx, timer app.Timer) error {
	id := timer.Switch
	s, _ := t.switches.Get(tx, id)
	if s.Phase == idle || s.Barrier != 0 { // it came up since
		return nil
	}
	list, _ := t.next.Get(tx, id)
	send := t.add
	if s.Phase == withdraw {
		send = t.delete
	}
	if err := send(tx, id, list); err != nil {
		return err
	}
	s.Barrier = tx.Send(id, &of13.BarrierRequest{})
	t.switches.Put(tx, id, s)
	return nil
}

// delete removes what is not in a list.
func (t *tenants) delete(tx *app.Tx, id app.Switch, list []encoded) error {
	for e := range t.entries.All(tx, id) {
		if _, stays := slices.BinarySearch(list, encoded(e)); stays {
			continue
		}
		if err := t.send(tx, id, encoded(e), of13.FlowDeleteStrict); err != nil {
			return err
		}
		t.entries.Delete(tx, id, e)
	}
	return nil
}

// add installs what is in a list.
func (t *tenants) add(tx *app.Tx, id app.Switch, list []encoded) error {
	for _, e := range list {
		if _, there := t.entries.Get(tx, id, string(e)); there {
			continue
		}
		if err := t.send(tx, id, e, of13.FlowAdd); err != nil {
			return err
		}
		t.entries.Put(tx, id, string(e), true)
	}
	return nil
}

// send sends a change of an entry.
func (t *tenants) send(tx *app.Tx, id app.Switch, of encoded, how uint8) error {
	var e entry
	if err := cbor.Unmarshal([]byte(of), &e); err != nil {
		return fmt.Errorf("entry of switch %s: %w", id, err)
	}
	m := e.flowMod()
	m.Command = how
	tx.FlowMod(id, m)
	return nil
}
