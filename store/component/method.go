package component

import (
	"slices"
	"strings"
)

// The methods of strings. The receiver is the first argument of run, and not counted.
var ofString = map[string]definition{
	"startswith": {1, 1, func(m *machine, a []Value) Value { return strings.HasPrefix(m.str(a[0]), m.str(a[1])) }},
	"endswith":   {1, 1, func(m *machine, a []Value) Value { return strings.HasSuffix(m.str(a[0]), m.str(a[1])) }},
	"find": {1, 1, func(m *machine, a []Value) Value {
		return int64(strings.Index(m.str(a[0]), m.str(a[1])))
	}},
	"lower": {0, 0, func(m *machine, a []Value) Value { return m.converted(a[0], strings.ToLower) }},
	"upper": {0, 0, func(m *machine, a []Value) Value { return m.converted(a[0], strings.ToUpper) }},
	"strip": {0, 0, func(m *machine, a []Value) Value { return strings.TrimSpace(m.str(a[0])) }},
	"split": {0, 1, (*machine).split},
	"join": {1, 1, func(m *machine, a []Value) Value {
		sep := m.str(a[0])
		var b strings.Builder
		for i, v := range m.collect(a[1]).Items {
			part := m.str(v)
			m.grow(len(sep) + len(part))
			if i > 0 {
				b.WriteString(sep)
			}
			b.WriteString(part)
		}
		return b.String()
	}},
	"replace": {2, 2, func(m *machine, a []Value) Value {
		s, old, by := m.str(a[0]), m.str(a[1]), m.str(a[2])
		m.grow(stringSize + len(s) + len(by)*strings.Count(s, old))
		return strings.ReplaceAll(s, old, by)
	}},
}

// split is split() and split(sep).
func (m *machine) split(args []Value) Value {
	s := m.str(args[0])
	var parts []string
	if len(args) == 1 {
		m.grow(stringSize * (len(s)/2 + 1))
		parts = strings.Fields(s)
	} else {
		sep := m.str(args[1])
		if sep == "" {
			m.fail("split needs what is between the parts")
		}
		m.grow(stringSize * (strings.Count(s, sep) + 1))
		parts = strings.Split(s, sep)
	}
	l := &List{}
	for _, p := range parts {
		m.append(l, p)
	}
	return l
}

// converted applies a function whose result has at most three times the bytes.
func (m *machine) converted(v Value, by func(string) string) Value {
	s := m.str(v)
	m.grow(stringSize + 3*len(s))
	return by(s)
}

// The methods of lists.
var ofList = map[string]definition{
	"append": {1, 1, func(m *machine, a []Value) Value {
		l := m.changed(a[0])
		m.append(l, a[1])
		return nil
	}},
	"extend": {1, 1, func(m *machine, a []Value) Value {
		l := m.changed(a[0])
		for _, v := range m.collect(a[1]).Items {
			m.append(l, v)
		}
		return nil
	}},
	"insert": {2, 2, func(m *machine, a []Value) Value {
		l := m.changed(a[0])
		m.moved(l)
		at := len(l.Items)
		if a[1] != int64(at) {
			at = m.place(a[1], at)
		}
		m.grow(itemSize)
		l.Items = slices.Insert(l.Items, at, a[2])
		return nil
	}},
	"pop": {0, 1, func(m *machine, a []Value) Value {
		l := m.changed(a[0])
		at := Value(int64(-1))
		if len(a) == 2 {
			at = a[1]
		}
		i := m.place(at, len(l.Items))
		m.moved(l)
		v := l.Items[i]
		l.Items = slices.Delete(l.Items, i, i+1)
		return v
	}},
	"remove": {1, 1, func(m *machine, a []Value) Value {
		l := m.changed(a[0])
		i := m.find(l, a[1])
		m.moved(l)
		l.Items = slices.Delete(l.Items, i, i+1)
		return nil
	}},
	"index": {1, 1, func(m *machine, a []Value) Value { return int64(m.find(a[0].(*List), a[1])) }},
}

// changed returns a list that changes.
func (m *machine) changed(v Value) *List {
	l := v.(*List)
	m.changing(l.looping)
	return l
}

// moved counts that the items of a list move.
func (m *machine) moved(l *List) { m.work(itemSize * len(l.Items)) }

func (m *machine) find(l *List, v Value) int {
	for i, item := range l.Items {
		if m.equal(item, v) {
			return i
		}
	}
	m.fail("the list has no such item")
	return 0
}

// The methods of dictionaries.
var ofDict = map[string]definition{
	"get": {1, 2, func(m *machine, a []Value) Value {
		v, there := a[0].(*Dict).Get(m.key(a[1]))
		if !there && len(a) == 3 {
			return a[2]
		}
		return v
	}},
	"setdefault": {2, 2, func(m *machine, a []Value) Value {
		d := a[0].(*Dict)
		if v, there := d.Get(m.key(a[1])); there {
			return v
		}
		m.set(d, a[1], a[2])
		return a[2]
	}},
	"pop": {1, 2, func(m *machine, a []Value) Value {
		d := a[0].(*Dict)
		m.changing(d.looping)
		v, there := d.Get(m.key(a[1]))
		switch {
		case !there && len(a) == 3:
			return a[2]
		case !there:
			m.fail("the dictionary has no key %v", a[1])
		}
		m.work(d.Len()) // on average much less
		d.remove(a[1])
		return v
	}},
	"keys": {0, 0, func(m *machine, a []Value) Value { return m.collect(a[0]) }},
	"values": {0, 0, func(m *machine, a []Value) Value {
		l := &List{}
		for _, v := range a[0].(*Dict).All {
			m.append(l, v)
		}
		return l
	}},
	"items": {0, 0, func(m *machine, a []Value) Value {
		l := &List{}
		for k, v := range a[0].(*Dict).All {
			m.grow(2 * itemSize)
			m.append(l, Tuple{k, v})
		}
		return l
	}},
	"update": {1, 1, func(m *machine, a []Value) Value {
		d, of := a[0].(*Dict), m.dict(a[1:]).(*Dict)
		for k, v := range of.All {
			m.set(d, k, v)
		}
		return nil
	}},
}
