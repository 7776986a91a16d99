package node

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// holders knows who has an entry of a switch after the steps of a change that were accepted so far.
type holders struct {
	node    *node
	tx      *app.Tx
	id      app.Switch
	flows   int
	changed map[string]*flow // by key; nil: nobody
}

// holders begins with what the switch has confirmed, and what others have asked for.
func (n *node) holders(tx *app.Tx, id app.Switch, flows int) *holders {
	h := &holders{n, tx, id, flows, map[string]*flow{}}
	for _, b := range n.pending.All(tx, id) {
		for _, st := range b.Steps {
			for i := range st.Flows {
				if f := &st.Flows[i]; !st.Remove {
					h.changed[keyOf(f.Priority, f.Match)] = f
				}
			}
		}
	}
	return h
}

func (h *holders) of(key string) *flow {
	f, changed := h.changed[key]
	if changed {
		return f
	}
	if f, there := h.node.flows.Get(h.tx, h.id, key); there {
		return &f
	}
	return nil
}

// step accepts a step, unless an entry that it installs belongs to something else. What it removes and does not have is
// left out.
func (h *holders) step(owner string, m *model.Step) (st step, err error) {
	flows, err := compile(&m.Entry)
	if err != nil {
		return st, err
	}
	st.Remove = m.Remove
	added := 0
	keys := make([]string, 0, len(flows)) // of st.Flows
	for _, f := range flows {
		f.Owner, f.ID = owner, m.ID
		key := keyOf(f.Priority, f.Match)
		has := h.of(key)
		mine := has != nil && has.Owner == owner && has.ID == m.ID
		switch {
		case m.Remove && !mine:
			continue
		case !m.Remove && has != nil && !mine:
			return st, fmt.Errorf("switch %v: number %d of %s has an entry for the same frames with priority %d: use "+
				"another priority, or remove that", h.id, has.ID, has.Owner, m.Priority)
		case has == nil:
			added++
		}
		st.Flows, keys = append(st.Flows, f), append(keys, key)
	}
	if h.flows+added > model.MaxEntries {
		return st, fmt.Errorf("switch %v has %d flow entries, and at most %d are possible: remove some", h.id, h.flows,
			model.MaxEntries)
	}
	h.flows += added
	for i, key := range keys {
		if h.changed[key] = &st.Flows[i]; m.Remove {
			h.changed[key] = nil
			h.flows--
		}
	}
	return st, nil
}
