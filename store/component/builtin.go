package component

import (
	"slices"
	"strconv"

	"go.starlark.net/syntax"
)

// builtin is a function of the language.
type builtin string

// A builtin has as many arguments as it says.
type definition struct {
	least, most int
	run         func(m *machine, args []Value) Value
}

var builtins map[string]definition

func init() { // they refer to methods that refer to them
	builtins = map[string]definition{
		"None": {}, "True": {}, "False": {},
		"len":   {1, 1, (*machine).length},
		"str":   {1, 1, func(m *machine, a []Value) Value { return m.text(a[0]) }},
		"bool":  {1, 1, func(_ *machine, a []Value) Value { return truth(a[0]) }},
		"type":  {1, 1, func(_ *machine, a []Value) Value { return TypeOf(a[0]) }},
		"int":   {1, 2, (*machine).number},
		"abs":   {1, 1, (*machine).absolute},
		"range": {1, 3, (*machine).numbers},
		"min":   {1, 1 << 10, func(m *machine, a []Value) Value { return m.extreme(a, -1) }},
		"max":   {1, 1 << 10, func(m *machine, a []Value) Value { return m.extreme(a, 1) }},
		"sorted": {1, 1, func(m *machine, a []Value) Value {
			l := m.collect(a[0])
			slices.SortStableFunc(l.Items, m.compare)
			return l
		}},
		"reversed": {1, 1, func(m *machine, a []Value) Value {
			l := m.collect(a[0])
			slices.Reverse(l.Items)
			return l
		}},
		"list":      {0, 1, func(m *machine, a []Value) Value { return m.collect(orEmpty(a)) }},
		"tuple":     {0, 1, func(m *machine, a []Value) Value { return Tuple(m.collect(orEmpty(a)).Items) }},
		"dict":      {0, 1, (*machine).dict},
		"enumerate": {1, 1, (*machine).enumerate},
		"zip":       {2, 2, (*machine).zip},
		"any": {1, 1, func(m *machine, a []Value) Value {
			for v := range m.each(a[0]) {
				if truth(v) {
					return true
				}
			}
			return false
		}},
		"all": {1, 1, func(m *machine, a []Value) Value {
			for v := range m.each(a[0]) {
				if !truth(v) {
					return false
				}
			}
			return true
		}},
		"fail": {1, 1, func(m *machine, a []Value) Value {
			m.fail("%s", m.text(a[0]))
			return nil
		}},
	}
}

func isBuiltin(name string) bool {
	_, is := builtins[name]
	return is
}

func orEmpty(args []Value) Value {
	if len(args) == 0 {
		return Tuple{}
	}
	return args[0]
}

func (m *machine) builtin(name string, args []Value, named *Dict) Value {
	b := builtins[name]
	if b.run == nil {
		m.fail("%s cannot be called", name)
	}
	m.suits(b, name, args, named)
	return b.run(m, args)
}

// suits fails if a function cannot have such arguments.
func (m *machine) suits(d definition, name string, args []Value, named *Dict) {
	switch {
	case named != nil:
		m.fail("%s has no named arguments in a component", name)
	case len(args) < d.least || len(args) > d.most:
		m.fail("%s has %d to %d arguments, %d are given", name, d.least, d.most, len(args))
	}
}

func (m *machine) length(args []Value) Value {
	switch v := args[0].(type) {
	case string:
		return int64(len(v))
	case *List:
		return int64(len(v.Items))
	case Tuple:
		return int64(len(v))
	case *Dict:
		return int64(v.Len())
	case numbers:
		return v.len()
	}
	m.fail("a %s has no length", TypeOf(args[0]))
	return nil
}

// number is int().
func (m *machine) number(args []Value) Value {
	base := 10
	if len(args) == 2 {
		b, is := args[1].(int64)
		if !is || b < 2 || b > 36 {
			m.fail("the base of a number is 2 to 36")
		}
		base = int(b)
	}
	switch v := args[0].(type) {
	case int64:
		return v
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case string:
		m.work(len(v))
		i, err := strconv.ParseInt(v, base, 64)
		if err != nil {
			m.fail("%q is not a number of 64 bits", v[:min(len(v), 64)])
		}
		return i
	}
	m.fail("a %s is not a number", TypeOf(args[0]))
	return nil
}

func (m *machine) absolute(args []Value) Value {
	i, is := args[0].(int64)
	if !is {
		m.fail("a %s is not a number", TypeOf(args[0]))
	}
	if i < 0 {
		return m.unary(syntax.MINUS, i)
	}
	return i
}

// maxRange bounds the ends of a range, so that nothing overflows.
const maxRange = 1 << 40

// numbers is range().
func (m *machine) numbers(args []Value) Value {
	r := numbers{step: 1}
	to := []*int64{&r.stop}
	if len(args) > 1 {
		to = []*int64{&r.start, &r.stop, &r.step}
	}
	for i, a := range args {
		v, is := a.(int64)
		if !is || v > maxRange || v < -maxRange {
			m.fail("a range is from, to and by numbers up to %d", maxRange)
		}
		*to[i] = v
	}
	if r.step == 0 {
		m.fail("the step of a range is not 0")
	}
	return r
}

// extreme is min and max.
func (m *machine) extreme(args []Value, sign int) Value {
	from := Value(Tuple(args))
	if len(args) == 1 {
		from = args[0]
	}
	var best Value
	some := false
	for v := range m.each(from) {
		if !some || m.compare(v, best)*sign > 0 {
			best, some = v, true
		}
	}
	if !some {
		m.fail("there is nothing to choose from")
	}
	return best
}

func (m *machine) dict(args []Value) Value {
	d := m.memory.Dict(0)
	m.grow(entrySize)
	if of, is := orEmpty(args).(*Dict); is {
		return m.union(of, d)
	}
	for pair := range m.each(orEmpty(args)) {
		items := m.collect(pair).Items
		if len(items) != 2 {
			m.fail("dict needs pairs of keys and values")
		}
		m.set(d, items[0], items[1])
	}
	return d
}

func (m *machine) enumerate(args []Value) Value {
	l := &List{}
	for v := range m.each(args[0]) {
		m.grow(2 * itemSize)
		m.append(l, Tuple{int64(len(l.Items)), v})
	}
	return l
}

func (m *machine) zip(args []Value) Value {
	a, b := m.collect(args[0]).Items, m.collect(args[1]).Items
	l := &List{}
	for i := range min(len(a), len(b)) {
		m.grow(2 * itemSize)
		m.append(l, Tuple{a[i], b[i]})
	}
	return l
}

// method is args[0].name(…), with the others.
func (m *machine) method(name string, args []Value, named *Dict) Value {
	receiver := args[0]
	if _, is := receiver.(host); is {
		return m.callHost(name, args[1:], named)
	}
	var methods map[string]definition
	switch receiver.(type) {
	case string:
		methods = ofString
	case *List:
		methods = ofList
	case *Dict:
		methods = ofDict
	}
	d, there := methods[name]
	if !there {
		m.fail("a %s has no method %s", TypeOf(receiver), name)
	}
	m.suits(d, name, args[1:], named)
	return d.run(m, args)
}

func (m *machine) callHost(name string, args []Value, named *Dict) Value {
	m.grow(itemSize) // it copies them
	for _, v := range args {
		m.charge(v)
	}
	if named == nil {
		named = &none
	}
	m.charge(named)
	v, err := m.host.Call(name, args, named)
	if err != nil {
		panic(stop{err})
	}
	m.charge(v)
	return v
}

var none Dict // it does not change

// charge counts a value that the host makes or copies.
func (m *machine) charge(v Value) {
	m.grow(itemSize)
	switch v := v.(type) {
	case string:
		m.grow(len(v))
	case *text:
		m.grow(len(v.s))
	case *List:
		for _, item := range v.Items {
			m.charge(item)
		}
	case Tuple:
		for _, item := range v {
			m.charge(item)
		}
	case *Dict:
		m.chargeUnread(v.unread)
		for i := range v.entries {
			if e := &v.entries[i]; !e.removed {
				m.grow(entrySize)
				m.charge(e.key)
				m.charge(e.value)
			}
		}
	}
}

// chargeUnread counts fields as if they were entries, which they may become.
func (m *machine) chargeUnread(f Fields) {
	if f == nil {
		return
	}
	for i := range f.Len() {
		name, text := f.At(i)
		m.grow(entrySize)
		m.grow(itemSize)
		m.grow(len(name))
		m.grow(itemSize)
		m.grow(len(text))
	}
}

// str returns an argument that must be a string.
func (m *machine) str(v Value) string {
	s, is := v.(string)
	if !is {
		m.fail("a string is needed, not a %s", TypeOf(v))
	}
	m.work(len(s))
	return s
}
