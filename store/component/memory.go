package component

import "go.starlark.net/syntax"

// Memory is what runs use one after the other, because it would otherwise be most of their garbage. What is taken from
// it is valid until Reset. The zero Memory is ready.
type Memory struct {
	dicts   []*Dict
	used    int // of dicts
	texts   []text
	stack   []Value
	globals []Value
	calls   [maxCalls]*syntax.DefStmt
	machine machine
}

// text is a string in a dictionary that nobody has read yet. Most columns of rows are never read: as a Value of its own
// each would be allocated.
type text struct{ s string }

// What a Memory keeps for the next run, at most.
const (
	maxKeptDicts   = 64
	maxKeptEntries = 64 // of a dictionary
	maxKeptTexts   = 1024
	maxKeptStack   = 1024
)

// Reset is called before a run, and before Dict makes its arguments.
func (m *Memory) Reset() {
	for _, d := range m.dicts[:m.used] {
		d.empty()
	}
	m.used = 0
	clear(m.texts)
	if m.texts = m.texts[:0]; cap(m.texts) > maxKeptTexts {
		m.texts = nil
	}
	clear(m.stack[:cap(m.stack)])
	if m.stack = m.stack[:0]; cap(m.stack) > maxKeptStack {
		m.stack = nil
	}
	clear(m.globals)
	m.machine = machine{}
}

// Dict returns an empty dictionary, with room for so many entries.
func (m *Memory) Dict(room int) *Dict {
	if m.used == maxKeptDicts {
		return NewDict(room)
	}
	if m.used == len(m.dicts) {
		m.dicts = append(m.dicts, NewDict(room))
	}
	d := m.dicts[m.used]
	m.used++
	return d
}

// SetText sets the value of a key to a string.
func (m *Memory) SetText(d *Dict, key Value, s string) {
	if len(m.texts) == cap(m.texts) { // those before stay where they are
		m.texts = make([]text, 0, max(16, min(2*cap(m.texts), maxKeptTexts)))
	}
	m.texts = append(m.texts, text{s})
	d.Set(key, &m.texts[len(m.texts)-1])
}
