package node

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Name is the name of the application.
const Name = "node"

// state is what there is once for each switch.
type state struct {
	_          struct{} `cbor:",toarray"`
	Up         bool     // it has confirmed all entries
	Generation uint16   // in the cookies of the entries that it is to have
	Flows      int      // that it has confirmed
	After      []byte   // the key of the last entry that was sent, while it gets them again
	Start      uint32   // the first command for that
	Barrier    uint32   // its reply says that the switch has all of them; 0: not sent yet
}

// flow is a flow entry.
type flow struct {
	_            struct{} `cbor:",toarray"`
	Owner        string
	ID           uint64 // of the owner
	Priority     uint16
	Match        of13.Match
	Instructions of13.Instructions // nil if it has a group
	Buckets      of13.Buckets      // of its group, which is for this entry only; nil: it has none
	Group        uint32            // the id of that; another one each time that the entry is sent
}

// batch is a change that is not confirmed yet.
type batch struct {
	_              struct{} `cbor:",toarray"`
	Number         uint64
	Steps          []step // without those that are refused
	Refused        []model.Refusal
	Start, Barrier uint32 // the first and the last command of the present attempt
}

// step is a step of a change, as flow entries.
type step struct {
	_      struct{} `cbor:",toarray"`
	Index  int      // in the change
	Remove bool
	Flows  []flow
}

type node struct {
	states  app.Table[app.Switch, state]
	flows   app.Map[app.Switch, string, flow]   // by key: what the switch has confirmed
	pending app.Map[app.Switch, string, batch]  // by owner
	groups  app.Map[app.Switch, uint32, string] // that a switch may have, by id: the key of their flow entry
	// that is under way; any change of the entries of a switch deletes its row
	comparisons app.Table[app.Switch, comparison]
	checks      map[app.Switch]*checked
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	newNode(a)
	return a
}

func newNode(a *app.App) *node {
	n := &node{app.NewTable[app.Switch, state](a, "states"), app.NewMap[app.Switch, string, flow](a, "flows"),
		app.NewMap[app.Switch, string, batch](a, "pending"), app.NewMap[app.Switch, uint32, string](a, "groups"),
		app.NewTable[app.Switch, comparison](a, "comparisons"), map[app.Switch]*checked{}}
	at := func(id app.Switch) app.Cells {
		return app.Need(n.states.Cell(id), n.flows.Cell(id), n.pending.Cell(id), n.groups.Cell(id),
			n.comparisons.Cell(id))
	}
	app.Handle(a, func(m app.SwitchUp) app.Cells { return at(m.Switch) }, n.switchUp)
	app.Handle(a, func(m app.SwitchDown) app.Cells { return at(m.Switch) }, n.switchDown)
	app.Handle(a, func(m app.SwitchForgotten) app.Cells { return at(m.Switch) }, n.switchForgotten)
	app.Handle(a, func(m app.Timer) app.Cells { return at(m.Switch) }, n.timer)
	app.Handle(a, func(m app.BarrierReply) app.Cells { return at(m.Switch) }, n.confirmed)
	app.Handle(a, func(m app.Refused) app.Cells { return at(m.Switch) }, n.refused)
	app.Handle(a, func(m app.Reply) app.Cells { return at(m.Switch) }, n.reply)
	app.Handle(a, func(m app.FlowRemoved) app.Cells { return at(m.Switch) }, n.flowRemoved)
	app.HandleEmitted(a, func(m model.Change) app.Cells { return at(m.Switch) }, n.change)
	app.HandleHTTP(a, "GET /switches/{switch}", func(r app.Request) app.Cells { return at(app.SwitchOf(r)) }, n.status)
	return n
}

// Status is what the node controller of a switch knows.
type Status struct {
	Up          bool           `json:"up"`
	Entries     map[string]int `json:"entries"`           // that the switch has confirmed, by owner
	Outstanding map[string]int `json:"outstanding_steps"` // that it has not confirmed yet, by owner
}

func (n *node) status(tx *app.Tx, r app.Request) (app.Response, error) {
	id := app.SwitchOf(r)
	s, known := n.states.Get(tx, id)
	status := Status{s.Up, map[string]int{}, map[string]int{}}
	for _, f := range n.flows.All(tx, id) {
		status.Entries[f.Owner]++
	}
	for owner, b := range n.pending.All(tx, id) {
		status.Outstanding[owner] = len(b.Steps)
	}
	return app.JSON(status, known)
}

// change sends a switch what an owner asks for. An error is one of the owner's program.
func (n *node) change(tx *app.Tx, m model.Change) error {
	s, _ := n.states.Get(tx, m.Switch)
	if !s.Up {
		return app.Emit(tx, model.Changed{Switch: m.Switch, Owner: m.Owner, Number: m.Number, Away: true})
	}
	if _, busy := n.pending.Get(tx, m.Switch, m.Owner); busy || len(m.Steps) > model.MaxSteps {
		return fmt.Errorf("%s asks switch %v for a change of %d steps: send one after the other, with at most %d",
			m.Owner, m.Switch, len(m.Steps), model.MaxSteps)
	}
	b, h := batch{Number: m.Number}, n.holders(tx, m.Switch, s.Flows)
	for i := range m.Steps {
		st, err := h.step(m.Owner, &m.Steps[i])
		if st.Index = i; err != nil {
			b.Refused = append(b.Refused, model.Refusal{Step: i, Why: err.Error()})
			continue
		}
		b.Steps = append(b.Steps, st)
	}
	return n.attempt(tx, m.Switch, m.Owner, b, 0)
}

// attempt sends the steps of a batch. start is the first command that was sent for it before; 0: none.
func (n *node) attempt(tx *app.Tx, id app.Switch, owner string, b batch, start uint32) error {
	n.comparisons.Delete(tx, id) // its reply may or may not have these entries
	s, _ := n.states.Get(tx, id)
	b.Start = start
	for i := range b.Steps {
		st := &b.Steps[i]
		for j := range st.Flows {
			var xid uint32
			if st.Remove {
				xid = uninstall(tx, id, &st.Flows[j])
			} else {
				xid = n.install(tx, id, s.Generation, &st.Flows[j])
			}
			if b.Start == 0 {
				b.Start = xid
			}
		}
	}
	if b.Start == 0 { // there is nothing to do
		return n.finish(tx, id, owner, &b)
	}
	b.Barrier = tx.Send(id, &of13.BarrierRequest{})
	n.pending.Put(tx, id, owner, b)
	return nil
}

// finish writes what the switch has confirmed, and answers.
func (n *node) finish(tx *app.Tx, id app.Switch, owner string, b *batch) error {
	s, _ := n.states.Get(tx, id)
	before := s.Flows
	for _, st := range b.Steps {
		for _, f := range st.Flows {
			key := keyOf(f.Priority, f.Match)
			old, there := n.flows.Get(tx, id, key)
			n.release(tx, id, old.Group)
			if st.Remove && there {
				n.flows.Delete(tx, id, key)
				s.Flows--
			} else if !st.Remove {
				n.flows.Put(tx, id, key, f)
				if !there {
					s.Flows++
				}
			}
		}
	}
	if s.Flows != before {
		n.states.Put(tx, id, s)
	}
	n.pending.Delete(tx, id, owner)
	return app.Emit(tx, model.Changed{Switch: id, Owner: owner, Number: b.Number, Refused: b.Refused})
}

// confirmed handles the reply to the last command of a batch, or of a switch that has come up.
func (n *node) confirmed(tx *app.Tx, m app.BarrierReply) error {
	s, _ := n.states.Get(tx, m.Switch)
	if !s.Up {
		return n.restored(tx, m, s)
	}
	for owner, b := range n.pending.All(tx, m.Switch) {
		if b.Barrier == m.XID {
			return n.finish(tx, m.Switch, owner, &b)
		}
	}
	return nil
}

// refused takes back the step that the switch refuses, and sends the others again: a switch without an agent has
// executed none of them, and one with an agent does not mind.
func (n *node) refused(tx *app.Tx, m app.Refused) error {
	s, _ := n.states.Get(tx, m.Switch)
	key := n.keyIn(tx, m.Switch, m.Command)
	if !s.Up {
		return n.refusedAgain(tx, m, s, key)
	}
	for owner, b := range n.pending.All(tx, m.Switch) {
		if int32(m.XID-b.Start) < 0 || int32(b.Barrier-m.XID) < 0 {
			continue // or it is about an attempt that was given up
		}
		return n.withdraw(tx, m.Switch, owner, b, key, m.Error.Error())
	}
	return nil
}

// withdraw takes back the step with the entry of a key, or all that install if there is none, and attempts the others.
func (n *node) withdraw(tx *app.Tx, id app.Switch, owner string, b batch, key, why string) error {
	s, _ := n.states.Get(tx, id)
	all := !b.has(key)
	var rest []step
	var start uint32
	for _, st := range b.Steps {
		if !all && !st.has(key) || all && st.Remove {
			rest = append(rest, st)
			continue
		}
		b.Refused = append(b.Refused, model.Refusal{Step: st.Index, Why: why})
		for i := range st.Flows {
			f := &st.Flows[i]
			var xid uint32
			if old, there := n.flows.Get(tx, id, keyOf(f.Priority, f.Match)); there {
				xid = n.install(tx, id, s.Generation, &old)
				n.flows.Put(tx, id, keyOf(f.Priority, f.Match), old)
			} else {
				xid = uninstall(tx, id, f)
			}
			n.release(tx, id, f.Group)
			if start == 0 {
				start = xid
			}
		}
	}
	b.Steps = rest
	return n.attempt(tx, id, owner, b, start)
}

func (b *batch) has(key string) bool {
	for _, st := range b.Steps {
		if st.has(key) {
			return true
		}
	}
	return false
}

func (s *step) has(key string) bool {
	for _, f := range s.Flows {
		if keyOf(f.Priority, f.Match) == key {
			return true
		}
	}
	return false
}

// changes reports whether a batch installs the entry with a key for something, and whether it removes it.
func (b *batch) changes(key string, low uint64) (installs, removes bool) {
	for _, st := range b.Steps {
		if st.has(key) {
			removes = removes || st.Remove
			installs = installs || !st.Remove && st.Flows[0].ID&0xffffffff == low
		}
	}
	return installs, removes
}

// flowRemoved tells the owner of an entry that the switch no longer has it.
func (n *node) flowRemoved(tx *app.Tx, m app.FlowRemoved) error {
	s, _ := n.states.Get(tx, m.Switch)
	key := keyOf(m.Priority, m.Match)
	for owner, b := range n.pending.All(tx, m.Switch) {
		switch installs, removes := b.changes(key, m.Cookie&0xffffffff); {
		case removes:
			return nil
		case installs: // it was removed before it is confirmed
			return n.attempt(tx, m.Switch, owner, b, 0)
		}
	}
	f, there := n.flows.Get(tx, m.Switch, key)
	if !there || m.Cookie != cookie(s.Generation, f.ID) {
		return nil // it is about an entry before
	}
	n.comparisons.Delete(tx, m.Switch)
	n.flows.Delete(tx, m.Switch, key)
	n.release(tx, m.Switch, f.Group)
	s.Flows--
	n.states.Put(tx, m.Switch, s)
	return app.Emit(tx, model.Removed{Switch: m.Switch, Owner: f.Owner, ID: f.ID,
		Why: fmt.Sprintf("the switch reports that an entry was removed (reason %d)", m.Reason)})
}
