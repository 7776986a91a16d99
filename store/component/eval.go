package component

import (
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// eval returns the value of an expression.
func (m *machine) eval(f []Value, x syntax.Expr) Value {
	m.step(1)
	switch x := x.(type) {
	case *syntax.Literal:
		return x.Value
	case *syntax.Ident:
		return m.variable(f, x)
	case *syntax.ParenExpr:
		return m.eval(f, x.X)
	case *syntax.UnaryExpr:
		return m.unary(x.Op, m.eval(f, x.X))
	case *syntax.BinaryExpr:
		return m.binaryExpr(f, x)
	case *syntax.CondExpr:
		if truth(m.eval(f, x.Cond)) {
			return m.eval(f, x.True)
		}
		return m.eval(f, x.False)
	case *syntax.ListExpr:
		return &List{Items: m.evalAll(f, x.List)}
	case *syntax.TupleExpr:
		return Tuple(m.evalAll(f, x.List))
	case *syntax.DictExpr:
		d := m.memory.Dict(min(len(x.List), unindexed))
		m.grow(entrySize)
		for _, e := range x.List {
			entry := e.(*syntax.DictEntry)
			k := m.eval(f, entry.Key)
			m.set(d, k, m.eval(f, entry.Value))
		}
		return d
	case *syntax.Comprehension:
		return m.comprehension(f, x)
	case *syntax.IndexExpr:
		v := m.eval(f, x.X)
		return m.index(v, m.eval(f, x.Y))
	case *syntax.SliceExpr:
		return m.slice(f, x)
	case *syntax.CallExpr:
		return m.call(f, x)
	case *syntax.DotExpr:
		m.fail("%s is a method: call it", x.Name.Name)
	}
	m.fail("this expression is not possible in a component")
	return nil
}

func (m *machine) evalAll(f []Value, list []syntax.Expr) []Value {
	m.grow(itemSize * (len(list) + 1))
	values := make([]Value, 0, len(list))
	for _, x := range list {
		values = append(values, m.eval(f, x))
	}
	return values
}

func (m *machine) variable(f []Value, x *syntax.Ident) (v Value) {
	b := x.Binding.(*resolve.Binding)
	switch b.Scope {
	case resolve.Local:
		v = f[b.Index]
	case resolve.Global:
		v = m.globals[b.Index]
	case resolve.Predeclared:
		return host{}
	default:
		switch x.Name {
		case "None":
			return nil
		case "True":
			return true
		case "False":
			return false
		}
		return builtin(x.Name)
	}
	if _, is := v.(unset); is {
		m.fail("%s has no value yet", x.Name)
	}
	return v
}

// binaryExpr evaluates the second operand of and and or only if it counts.
func (m *machine) binaryExpr(f []Value, x *syntax.BinaryExpr) Value {
	a := m.eval(f, x.X)
	switch x.Op {
	case syntax.AND:
		if !truth(a) {
			return a
		}
		return m.eval(f, x.Y)
	case syntax.OR:
		if truth(a) {
			return a
		}
		return m.eval(f, x.Y)
	}
	return m.binary(x.Op, a, m.eval(f, x.Y))
}

func (m *machine) comprehension(f []Value, x *syntax.Comprehension) Value {
	list, dict := &List{}, (*Dict)(nil)
	if x.Curly {
		dict = m.memory.Dict(0)
	}
	m.grow(entrySize)
	m.clauses(f, x.Clauses, func() {
		if entry, is := x.Body.(*syntax.DictEntry); is {
			k := m.eval(f, entry.Key)
			m.set(dict, k, m.eval(f, entry.Value))
			return
		}
		m.append(list, m.eval(f, x.Body))
	})
	if dict != nil {
		return dict
	}
	return list
}

func (m *machine) clauses(f []Value, list []syntax.Node, body func()) {
	m.step(1)
	if len(list) == 0 {
		body()
		return
	}
	switch c := list[0].(type) {
	case *syntax.IfClause:
		if truth(m.eval(f, c.Cond)) {
			m.clauses(f, list[1:], body)
		}
	case *syntax.ForClause:
		for v := range m.each(m.eval(f, c.X)) {
			m.assign(f, c.Vars, v)
			m.clauses(f, list[1:], body)
		}
	}
}

// index is x[i].
func (m *machine) index(x, i Value) Value {
	switch x := x.(type) {
	case *List:
		return x.Items[m.place(i, len(x.Items))]
	case Tuple:
		return x[m.place(i, len(x))]
	case string:
		at := m.place(i, len(x))
		return x[at : at+1]
	case *Dict:
		v, there := x.Get(m.key(i))
		if !there {
			m.fail("the dictionary has no key %v", i)
		}
		return v
	}
	m.fail("a %s has no items with an index", TypeOf(x))
	return nil
}

// slice is x[lo:hi].
func (m *machine) slice(f []Value, x *syntax.SliceExpr) Value {
	v := m.eval(f, x.X)
	n := 0
	switch v := v.(type) {
	case *List:
		n = len(v.Items)
	case Tuple:
		n = len(v)
	case string:
		n = len(v)
	default:
		m.fail("a %s has no slices", TypeOf(v))
	}
	if x.Step != nil {
		m.fail("slices have no steps in a component")
	}
	lo, hi := m.bound(f, x.Lo, 0, n), m.bound(f, x.Hi, n, n)
	hi = max(lo, hi)
	switch v := v.(type) {
	case *List:
		m.grow(itemSize * (hi - lo + 1))
		return &List{Items: slices.Clone(v.Items[lo:hi])}
	case Tuple:
		m.grow(itemSize * (hi - lo + 1))
		return slices.Clone(v[lo:hi])
	}
	return v.(string)[lo:hi]
}

// bound returns an end of a slice of n items.
func (m *machine) bound(f []Value, x syntax.Expr, otherwise, n int) int {
	if x == nil {
		return otherwise
	}
	v := m.eval(f, x)
	if v == nil {
		return otherwise
	}
	i, is := v.(int64)
	if !is {
		m.fail("an end of a slice is a number, not a %s", TypeOf(v))
	}
	if i < 0 {
		i += int64(n)
	}
	return int(max(0, min(i, int64(n))))
}

// call is x(…).
func (m *machine) call(f []Value, x *syntax.CallExpr) Value {
	at, base := m.at, len(m.stack)
	v := m.called(f, x)
	m.at = at // an error after it is not one of the function
	m.stack = m.stack[:base]
	return v
}

func (m *machine) called(f []Value, x *syntax.CallExpr) Value {
	var receiver, callee Value
	dot, isMethod := x.Fn.(*syntax.DotExpr)
	name, isBuiltin := builtinOf(x.Fn)
	switch {
	case isMethod:
		receiver = m.eval(f, dot.X)
	case isBuiltin:
		m.step(1)
	default:
		callee = m.eval(f, x.Fn)
	}
	args, named := m.arguments(f, receiver, x.Args)
	switch {
	case isMethod:
		return m.method(dot.Name.Name, args, named)
	case isBuiltin:
		return m.builtin(name, args[1:], named)
	}
	switch callee := callee.(type) {
	case *function:
		return m.invoke(callee, args[1:], named)
	case builtin:
		return m.builtin(string(callee), args[1:], named)
	}
	m.fail("a %s cannot be called", TypeOf(callee))
	return nil
}

// builtinOf returns the name of a function of the language that is called by it.
func builtinOf(x syntax.Expr) (name string, is bool) {
	id, is := x.(*syntax.Ident)
	if !is || id.Binding.(*resolve.Binding).Scope != resolve.Universal {
		return "", false
	}
	return id.Name, true
}

// arguments returns those of a call, after its receiver, on the stack; named is nil if there are none.
func (m *machine) arguments(f []Value, receiver Value, list []syntax.Expr) (args []Value, named *Dict) {
	m.grow(itemSize * (len(list) + 1))
	base := len(m.stack)
	m.stack = append(m.stack, receiver)
	for _, a := range list {
		b, is := a.(*syntax.BinaryExpr)
		if !is || b.Op != syntax.EQ {
			v := m.eval(f, a) // it uses the stack
			m.stack = append(m.stack, v)
			continue
		}
		if named == nil {
			named = m.memory.Dict(min(len(list), unindexed))
		}
		m.set(named, b.X.(*syntax.Ident).Name, m.eval(f, b.Y))
	}
	return m.stack[base:], named
}

// invoke calls a function of the component.
func (m *machine) invoke(fn *function, args []Value, named *Dict) Value {
	called := (*syntax.DefStmt)(fn)
	def := called.Function.(*resolve.Function)
	switch {
	case len(m.calls) == maxCalls:
		m.fail("more than %d functions call each other", maxCalls)
	case slices.Contains(m.calls, called):
		m.fail("function %s calls itself", def.Name)
	case len(args) > len(def.Params):
		m.fail("function %s has %d parameters, %d are given", def.Name, len(def.Params), len(args))
	}
	f := m.frame(len(def.Locals))
	copy(f, args)
	used := 0
	for i, p := range def.Params {
		m.step(1)
		b, hasDefault := p.(*syntax.BinaryExpr)
		name, _ := p.(*syntax.Ident)
		if hasDefault {
			name = b.X.(*syntax.Ident)
		}
		var given bool
		var v Value
		if named != nil {
			v, given = named.Get(name.Name)
		}
		switch {
		case given && i < len(args):
			m.fail("parameter %s of function %s is given twice", name.Name, def.Name)
		case given:
			f[i], used = v, used+1
		case i < len(args):
		case hasDefault:
			f[i] = b.Y.(*syntax.Literal).Value
		default:
			m.fail("parameter %s of function %s is not given", name.Name, def.Name)
		}
	}
	if named != nil && used < named.Len() {
		m.fail("function %s has no parameter of one of these names", def.Name)
	}
	m.calls = append(m.calls, called)
	_, result := m.block(f, def.Body)
	m.calls = m.calls[:len(m.calls)-1]
	return result
}
