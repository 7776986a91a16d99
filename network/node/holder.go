package node

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// holders makes the steps of a change, unless somebody else has their entries.
type holders struct {
	node  *node
	tx    *app.Tx
	id    app.Switch
	state state
	// leaving has the entries, by key, whose removal the switch has not confirmed: they are their owners' until then.
	leaving map[string]*flow
	edits   []edit // so far
	bytes   []byte // of their keys
	keys    []string
}

// holders returns those of a change.
func (n *node) holders(tx *app.Tx, id app.Switch, s state) *holders {
	h := &holders{node: n, tx: tx, id: id, state: s, edits: n.used.edits[:0], bytes: n.used.bytes[:0]}
	for _, edits := range n.edits.All(tx, id) {
		for _, e := range edits {
			if e.Remove && e.Old != nil {
				if h.leaving == nil {
					h.leaving = map[string]*flow{}
				}
				h.leaving[string(e.Key)] = e.Old
			}
		}
	}
	return h
}

func (h *holders) of(key string) (f flow, there bool) {
	if f, leaves := h.leaving[key]; leaves {
		return *f, true
	}
	return h.node.flows.Get(h.tx, h.id, key)
}

// add notes an edit.
func (h *holders) add(e edit, key string) {
	at := len(h.bytes)
	h.bytes = append(h.bytes, key...)
	e.Key = h.bytes[at:len(h.bytes):len(h.bytes)]
	h.edits = append(h.edits, e)
}

// removed reports whether an earlier step of the change removes an entry.
func (h *holders) removed(key string, id uint64) bool {
	return slices.ContainsFunc(h.edits, func(e edit) bool {
		return e.Remove && e.Old != nil && e.Old.ID == id && string(e.Key) == key
	})
}

// step makes a step, and returns its first command. It is refused if an entry that it installs belongs to something
// else. What it removes and does not have is left out, unless an earlier step removes that: then it is noted, so that
// both are refused if the switch keeps the entry.
func (h *holders) step(owner string, index int, m *model.Step) (first uint32, err error) {
	f, keys, err := h.node.compiler.compile(&m.Entry)
	if err != nil {
		return 0, err
	}
	f.Owner, f.ID = owner, m.ID
	start, added := len(h.edits), 0
	if start+len(keys) > model.MaxChanged {
		return 0, fmt.Errorf("switch %v: the steps before it change %d flow entries, and at most %d are possible: use "+
			"another change", h.id, start, model.MaxChanged)
	}
	h.keys = h.keys[:0]
	for _, key := range keys {
		has, there := h.of(key)
		mine := there && has.Owner == owner && has.ID == m.ID
		e := edit{Step: index, Remove: m.Remove}
		switch {
		case m.Remove && !mine:
			if h.removed(key, m.ID) {
				h.add(e, key)
			}
			continue
		case there && !mine:
			h.edits = h.edits[:start]
			return 0, fmt.Errorf("switch %v: number %d of %s has an entry for the same frames with priority %d: use "+
				"another priority, or remove that", h.id, has.ID, has.Owner, m.Priority)
		case there:
			old := has // here, so that it is on the heap if need be only
			e.Old = &old
		default:
			added++
		}
		h.add(e, key)
		h.keys = append(h.keys, key)
	}
	if h.state.Flows+added > model.MaxEntries {
		h.edits = h.edits[:start]
		return 0, fmt.Errorf("switch %v has %d flow entries, and at most %d are possible: remove some", h.id,
			h.state.Flows, model.MaxEntries)
	}
	h.state.Flows += added
	for _, key := range h.keys {
		var xid uint32
		if m.Remove {
			h.state.Flows--
			xid = h.node.uninstall(h.tx, h.id, key)
			h.node.flows.Delete(h.tx, h.id, key)
		} else {
			f.Group = 0
			xid = h.node.install(h.tx, h.id, h.state.Generation, key, &f)
			h.node.flows.Put(h.tx, h.id, key, f)
		}
		if first == 0 {
			first = xid
		}
	}
	return first, nil
}
