package node

import (
	"fmt"
	"maps"
	"slices"

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
	Flows      int      // rows
	After      []byte   // the key of the last entry that was sent, while it gets them again
	Start      uint32   // the first command for that
	Barrier    uint32   // its reply says that the switch has all of them; 0: not sent yet
}

// flow is a flow entry: what it does, and for whom. Its key says the rest.
type flow struct {
	_         struct{} `cbor:",toarray"`
	Owner     string
	ID        uint64 // of the owner
	Out       app.Port
	Push      uint16 // as in model.Entry, as what follows
	Pop       bool
	Backup    app.Port
	BackupTag uint16
	Group     uint32 // that is for it only, if it has a backup; another one each time that the entry is sent
}

// batch is a change that is not confirmed yet. Its edits have a row of their own, which is not read if it is confirmed.
type batch struct {
	_              struct{} `cbor:",toarray"`
	Number         uint64
	Refused        []model.Refusal
	Start, Barrier uint32   // the first and the last command of the present attempt
	Groups         []uint32 // of entries that it replaces or removes

	edits []edit // of its steps, without those that are refused
}

// edit is what a batch has done to the row of a flow entry, so that it can be undone.
type edit struct {
	_      struct{} `cbor:",toarray"`
	Step   int      // in the change
	Key    []byte
	Remove bool
	// Old is the row before; nil: none. Of an earlier edit of the batch, if that is of the same key. A removal without
	// one has sent nothing: an earlier edit removes the entry.
	Old *flow
}

type node struct {
	states  app.Table[app.Switch, state]
	flows   app.Map[app.Switch, string, flow]   // by key: what the switch is to have
	pending app.Map[app.Switch, string, batch]  // by owner
	edits   app.Map[app.Switch, string, []edit] // of batches, by owner
	groups  app.Map[app.Switch, uint32, string] // that a switch may have, by id: the key of their flow entry
	// that is under way; any change of the entries of a switch deletes its row
	comparisons app.Table[app.Switch, comparison]
	checks      map[app.Switch]*checked
	compiler    compiler
	used        struct { // memory of the last change, which is used again
		edits []edit
		bytes []byte
	}
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	newNode(a)
	return a
}

func newNode(a *app.App) *node {
	n := &node{
		states:      app.NewTable[app.Switch, state](a, "states"),
		flows:       app.NewMap[app.Switch, string, flow](a, "flows"),
		pending:     app.NewMap[app.Switch, string, batch](a, "pending"),
		edits:       app.NewMap[app.Switch, string, []edit](a, "edits"),
		groups:      app.NewMap[app.Switch, uint32, string](a, "groups"),
		comparisons: app.NewTable[app.Switch, comparison](a, "comparisons"),
		checks:      map[app.Switch]*checked{},
	}
	at := func(id app.Switch) app.Cells {
		return app.Need(n.states.Cell(id), n.flows.Cell(id), n.pending.Cell(id), n.edits.Cell(id), n.groups.Cell(id),
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
	count := func(owner string, entries int) {
		if status.Entries[owner] += entries; status.Entries[owner] == 0 {
			delete(status.Entries, owner)
		}
	}
	for _, f := range n.flows.All(tx, id) {
		count(f.Owner, 1)
	}
	for owner := range n.pending.All(tx, id) {
		last := -1
		edits, _ := n.edits.Get(tx, id, owner)
		for _, e := range edits {
			if e.Step != last {
				status.Outstanding[owner]++
			}
			last = e.Step
			switch { // what the switch has confirmed
			case e.Remove && e.Old != nil:
				count(owner, 1)
			case !e.Remove && e.Old == nil:
				count(owner, -1)
			}
		}
	}
	return app.JSON(status, known)
}

// change sends a switch what an owner asks for. An error is one of the owner's program.
func (n *node) change(tx *app.Tx, m model.Change) error {
	s, _ := n.states.Get(tx, m.Switch)
	if !s.Up {
		return app.Emit(tx, model.Changed{Switch: m.Switch, Owner: m.Owner, Number: m.Number, Away: true})
	}
	if _, busy := n.pending.Get(tx, m.Switch, m.Owner); busy {
		return fmt.Errorf("%s asks switch %v for a change before the last one is answered: send one after the other",
			m.Owner, m.Switch)
	}
	b, h := batch{Number: m.Number}, n.holders(tx, m.Switch, s)
	index := -1
	for step, err := range m.Steps.All() {
		if index++; err == nil && index == model.MaxSteps {
			err = fmt.Errorf("more than %d steps are not possible", model.MaxSteps)
		}
		if err != nil {
			return fmt.Errorf("%s asks switch %v for a change: step %d: %w", m.Owner, m.Switch, index, err)
		}
		first, err := h.step(m.Owner, index, step)
		if err != nil {
			b.Refused = append(b.Refused, model.Refusal{Step: index, Why: err.Error()})
		} else if b.Start == 0 {
			b.Start = first
		}
	}
	b.edits = h.edits
	if h.state.Flows != s.Flows {
		n.states.Put(tx, m.Switch, h.state)
	}
	err := n.wait(tx, m.Switch, m.Owner, b)
	clear(h.edits)
	n.used.edits, n.used.bytes = h.edits[:0], h.bytes[:0]
	return err
}

// wait waits until the switch has executed what was sent for a batch.
func (n *node) wait(tx *app.Tx, id app.Switch, owner string, b batch) error {
	n.comparisons.Delete(tx, id) // its reply may or may not have these entries
	b.Groups = nil
	for _, e := range b.edits {
		if e.Old != nil && e.Old.Group > 0 {
			b.Groups = append(b.Groups, e.Old.Group)
		}
	}
	if b.Start == 0 { // there is nothing to do
		return n.finish(tx, id, owner, &b)
	}
	b.Barrier = tx.Send(id, &of13.BarrierRequest{})
	n.edits.Put(tx, id, owner, b.edits)
	n.pending.Put(tx, id, owner, b)
	return nil
}

// attempt sends what a batch does once more. start is the first command that was sent for it before; 0: none.
func (n *node) attempt(tx *app.Tx, id app.Switch, owner string, b batch, start uint32) error {
	s, _ := n.states.Get(tx, id)
	b.Start = start
	for i := range b.edits {
		e := &b.edits[i]
		f, there := n.flows.Get(tx, id, string(e.Key))
		var xid uint32
		switch {
		case e.Remove && e.Old == nil: // an earlier edit removes it
		case e.Remove:
			xid = n.uninstall(tx, id, string(e.Key))
		case there: // else a later step removes it
			xid = n.install(tx, id, s.Generation, string(e.Key), &f)
			n.flows.Put(tx, id, string(e.Key), f)
		}
		if b.Start == 0 {
			b.Start = xid
		}
	}
	return n.wait(tx, id, owner, b)
}

// finish deletes what only undoes a batch, and answers.
func (n *node) finish(tx *app.Tx, id app.Switch, owner string, b *batch) error {
	for _, group := range b.Groups {
		n.release(tx, id, group)
	}
	n.pending.Delete(tx, id, owner)
	n.edits.Delete(tx, id, owner)
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
		if app.Earlier(m.XID, b.Start) || app.Earlier(b.Barrier, m.XID) {
			continue // or it is about an attempt that was given up
		}
		return n.withdraw(tx, m.Switch, owner, b, key, m.Error.Error())
	}
	return nil
}

// withdraw takes back the step with the entry of a key, or all that install if there is none, and attempts the others.
func (n *node) withdraw(tx *app.Tx, id app.Switch, owner string, b batch, key, why string) error {
	s, _ := n.states.Get(tx, id)
	b.edits, _ = n.edits.Get(tx, id, owner)
	refused := b.refusedWith(key)
	start := n.takeBack(tx, id, &s, b.edits, refused)
	n.states.Put(tx, id, s)
	for _, step := range slices.Sorted(maps.Keys(refused)) {
		b.Refused = append(b.Refused, model.Refusal{Step: step, Why: why})
	}
	b.edits = slices.DeleteFunc(b.edits, func(e edit) bool { return refused[e.Step] || e.Remove && e.Old == nil })
	return n.attempt(tx, id, owner, b, start)
}

// refusedWith returns the steps that change the entry with a key, or all that install if there is none, and those that
// change an entry after a refused step which was to remove it.
func (b *batch) refusedWith(key string) map[int]bool {
	refused, all, stays := map[int]bool{}, !b.has(key), map[string]bool{}
	for _, e := range b.edits {
		if !all && string(e.Key) == key || all && !e.Remove {
			refused[e.Step] = true
		}
	}
	for _, e := range b.edits {
		switch {
		case refused[e.Step] && e.Remove:
			stays[string(e.Key)] = true
		case stays[string(e.Key)]:
			refused[e.Step] = true
		}
	}
	return refused
}

// takeBack undoes the edits of steps, and returns the first command that it sends; 0: none. A later edit of the same
// entry that stays replaces, or removes, what there was before the one that is undone. One that removes nothing any
// more has no Old afterwards.
func (n *node) takeBack(tx *app.Tx, id app.Switch, s *state, edits []edit, steps map[int]bool) (start uint32) {
	later := map[string]*edit{} // by key: the next one that stays
	for i := range slices.Backward(edits) {
		e, key := &edits[i], string(edits[i].Key)
		if !steps[e.Step] {
			later[key] = e
			continue
		}
		var xid uint32
		f, there := n.flows.Get(tx, id, key)
		switch next := later[key]; {
		case next != nil:
			f = *next.Old // what e has installed: after a removal that is undone, none stays
			if next.Old = e.Old; next.Remove && next.Old == nil {
				xid = n.uninstall(tx, id, key) // so that the switch confirms that it does not have it
			}
		case e.Old != nil:
			xid = n.install(tx, id, s.Generation, key, e.Old)
			n.revert(tx, id, s, e)
		default:
			if there { // else a later edit that is undone has removed it
				xid = n.uninstall(tx, id, key)
			}
			n.revert(tx, id, s, e)
		}
		if !e.Remove {
			n.release(tx, id, f.Group)
		}
		if start == 0 {
			start = xid
		}
	}
	return start
}

// revert makes the row of a flow entry what it was before an edit.
func (n *node) revert(tx *app.Tx, id app.Switch, s *state, e *edit) {
	if _, there := n.flows.Get(tx, id, string(e.Key)); there {
		s.Flows--
	}
	if e.Old == nil {
		n.flows.Delete(tx, id, string(e.Key))
		return
	}
	n.flows.Put(tx, id, string(e.Key), *e.Old)
	s.Flows++
}

// has reports whether a batch changes the entry with a key.
func (b *batch) has(key string) bool {
	return slices.ContainsFunc(b.edits, func(e edit) bool { return string(e.Key) == key })
}

// removes reports whether a batch removes the entry with a key, whatever it installs after that.
func (b *batch) removes(key string) bool {
	return slices.ContainsFunc(b.edits, func(e edit) bool { return e.Remove && string(e.Key) == key })
}

// flowRemoved tells the owner of an entry that the switch no longer has it.
func (n *node) flowRemoved(tx *app.Tx, m app.FlowRemoved) error {
	s, _ := n.states.Get(tx, m.Switch)
	key := n.compiler.keyOf(m.Priority, m.Match)
	f, there := n.flows.Get(tx, m.Switch, key)
	if !there || m.Cookie != cookie(s.Generation, f.ID) {
		return nil // it is about an entry before, or was removed for its owner
	}
	for owner, b := range n.pending.All(tx, m.Switch) {
		b.edits, _ = n.edits.Get(tx, m.Switch, owner)
		if b.removes(key) {
			return nil // by the batch itself, before it installs the entry again
		}
		if b.has(key) { // it was removed before it is confirmed
			return n.attempt(tx, m.Switch, owner, b, 0)
		}
	}
	n.comparisons.Delete(tx, m.Switch)
	n.flows.Delete(tx, m.Switch, key)
	n.release(tx, m.Switch, f.Group)
	s.Flows--
	n.states.Put(tx, m.Switch, s)
	return app.Emit(tx, model.Removed{Switch: m.Switch, Owner: f.Owner, ID: f.ID,
		Why: fmt.Sprintf("the switch reports that an entry was removed (reason %d)", m.Reason)})
}
