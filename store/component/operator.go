package component

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

func (m *machine) unary(op syntax.Token, v Value) Value {
	if op == syntax.NOT {
		return !truth(v)
	}
	i, is := v.(int64)
	switch {
	case is && op == syntax.PLUS:
		return i
	case is && op == syntax.TILDE:
		return ^i
	case is && op == syntax.MINUS && i == math.MinInt64:
		m.overflow()
	case is && op == syntax.MINUS:
		return -i
	}
	m.fail("%s is not for a %s", op, TypeOf(v))
	return nil
}

func (m *machine) overflow() { m.fail("the number would have more than 64 bits") }

// binary is a op b, besides and and or.
func (m *machine) binary(op syntax.Token, a, b Value) Value {
	switch op {
	case syntax.EQL:
		return m.equal(a, b)
	case syntax.NEQ:
		return !m.equal(a, b)
	case syntax.LT:
		return m.compare(a, b) < 0
	case syntax.LE:
		return m.compare(a, b) <= 0
	case syntax.GT:
		return m.compare(a, b) > 0
	case syntax.GE:
		return m.compare(a, b) >= 0
	case syntax.IN:
		return m.contains(b, a)
	case syntax.NOT_IN:
		return !m.contains(b, a)
	case syntax.PERCENT:
		if format, is := a.(string); is {
			return m.format(format, b)
		}
	}
	switch x := a.(type) {
	case int64:
		if y, is := b.(int64); is {
			return m.arithmetic(op, x, y)
		}
		if op == syntax.STAR {
			return m.repeat(op, b, a)
		}
	case string:
		if y, is := b.(string); is && op == syntax.PLUS {
			m.grow(stringSize + len(x) + len(y))
			return x + y
		}
	case *List:
		if y, is := b.(*List); is && op == syntax.PLUS {
			m.grow(itemSize * (len(x.Items) + len(y.Items) + 1))
			return &List{Items: slices.Concat(x.Items, y.Items)}
		}
	case Tuple:
		if y, is := b.(Tuple); is && op == syntax.PLUS {
			m.grow(itemSize * (len(x) + len(y) + 1))
			return slices.Concat(x, y)
		}
	case *Dict:
		if y, is := b.(*Dict); is && op == syntax.PIPE {
			return m.union(x, y)
		}
	}
	if op == syntax.STAR {
		return m.repeat(op, a, b)
	}
	return m.unsuited(op, a, b)
}

func (m *machine) unsuited(op syntax.Token, a, b Value) Value {
	m.fail("%s is not for a %s and a %s", op, TypeOf(a), TypeOf(b))
	return nil
}

// repeat is v * times.
func (m *machine) repeat(op syntax.Token, v, times Value) Value {
	n, is := times.(int64)
	if !is {
		return m.unsuited(op, v, times)
	}
	count := int(max(0, min(n, math.MaxInt32)))
	switch v := v.(type) {
	case string:
		m.grow(stringSize + min(len(v), 1<<30)*count)
		return strings.Repeat(v, count)
	case *List:
		m.grow(itemSize * (1 + len(v.Items)*count))
		return &List{Items: slices.Repeat(v.Items, count)}
	case Tuple:
		m.grow(itemSize * (1 + len(v)*count))
		return slices.Repeat(v, count)
	}
	return m.unsuited(op, v, times)
}

func (m *machine) arithmetic(op syntax.Token, a, b int64) Value {
	switch op {
	case syntax.PLUS:
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
		m.overflow()
	case syntax.MINUS:
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
		m.overflow()
	case syntax.STAR:
		return m.product(a, b)
	case syntax.SLASHSLASH, syntax.PERCENT:
		return m.divide(op, a, b)
	case syntax.AMP:
		return a & b
	case syntax.PIPE:
		return a | b
	case syntax.CIRCUMFLEX:
		return a ^ b
	case syntax.LTLT, syntax.GTGT:
		if b < 0 || b > 63 {
			m.fail("a shift is by 0 to 63 bits, not by %d", b)
		}
		if op == syntax.GTGT {
			return a >> b
		}
		if c := a << b; c>>b == a {
			return c
		}
		m.overflow()
	}
	return m.unsuited(op, a, b)
}

func (m *machine) product(a, b int64) Value {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	negative := (a < 0) != (b < 0)
	if hi > 0 || lo > 1<<63 || lo == 1<<63 && !negative {
		m.overflow()
	}
	if negative {
		return -int64(lo)
	}
	return int64(lo)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// divide rounds down, as Python does.
func (m *machine) divide(op syntax.Token, a, b int64) Value {
	switch {
	case b == 0:
		m.fail("division by zero")
	case a == math.MinInt64 && b == -1:
		if op == syntax.PERCENT {
			return int64(0)
		}
		m.overflow()
	}
	q, r := a/b, a%b
	if r != 0 && (r < 0) != (b < 0) {
		q, r = q-1, r+b
	}
	if op == syntax.PERCENT {
		return r
	}
	return q
}

func (m *machine) union(a, b *Dict) Value {
	d := m.memory.Dict(min(a.Len()+b.Len(), unindexed))
	m.grow(entrySize)
	for _, of := range []*Dict{a, b} {
		for k, v := range of.All {
			m.step(1)
			m.set(d, k, v)
		}
	}
	return d
}

// contains is v in x.
func (m *machine) contains(x, v Value) bool {
	switch x := x.(type) {
	case string:
		s, is := v.(string)
		if !is {
			m.fail("in a string there are only strings, not a %s", TypeOf(v))
		}
		m.work(len(x))
		return strings.Contains(x, s)
	case *Dict:
		_, there := x.Get(m.key(v))
		return there
	}
	for item := range m.each(x) {
		if m.equal(item, v) {
			return true
		}
	}
	return false
}

// format is s % v, with %s, %d and %%.
func (m *machine) format(s string, v Value) Value {
	values, several := v.(Tuple)
	if !several {
		values = Tuple{v}
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		m.step(1)
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			m.fail("a format ends with %%")
		}
		switch c := s[i]; {
		case c == '%':
			b.WriteByte('%')
			continue
		case c != 's' && c != 'd':
			m.fail("%%%c is not possible: use %%s and %%d", c)
		case len(values) == 0:
			m.fail("there are too few values for the format")
		case c == 'd' && TypeOf(values[0]) != "int":
			m.fail("%%d is for a number, not for a %s", TypeOf(values[0]))
		}
		part := m.text(values[0])
		m.grow(len(part))
		b.WriteString(part)
		values = values[1:]
	}
	if len(values) > 0 {
		m.fail("there are too many values for the format")
	}
	m.grow(stringSize + len(s))
	return b.String()
}
