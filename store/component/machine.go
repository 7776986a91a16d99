package component

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// Host is what components can do besides computing. Its methods are called by Run.
type Host interface {
	// Call executes store.NAME(…). The arguments are valid until it returns. An error ends the run, and is returned by
	// Run as it is.
	Call(name string, args []Value, named *Dict) (Value, error)
}

// Limits bound runs: Run subtracts what it needs.
type Limits struct {
	Steps int // each is some tens of nanoseconds
	Bytes int // of all values that are made, also of those that are not needed any more
}

// ErrLimit is the error of a run that needs more than its Limits.
var ErrLimit = errors.New("the component needs too much")

// Bounds of the stack.
const (
	maxCalls = 32  // of functions in functions
	maxDepth = 100 // of values in values
)

// machine is one run. Its methods end it by a panic with stop.
type machine struct {
	program *Program
	host    Host
	limits  *Limits
	globals []Value
	// stack has the arguments of the calls that are executed, and the variables of the functions. Who has added to it
	// removes that.
	stack  []Value
	memory *Memory
	calls  []*syntax.DefStmt
	depth  int
	at     syntax.Stmt // that is executed; nil: none yet
}

type stop struct{ err error }

// Run calls the function run of the component with a dictionary, and returns what that returns. The error is an *Error,
// ErrLimit, or that of the host. It is not to be called with values that others use. The result may be in the memory.
func (p *Program) Run(h Host, args *Dict, limits *Limits, memory *Memory) (result Value, err error) {
	m := &memory.machine
	*m = machine{program: p, host: h, limits: limits, memory: memory, stack: memory.stack[:0],
		calls: memory.calls[:0]}
	memory.globals = slices.Grow(memory.globals[:0], p.globals)[:p.globals]
	m.globals = memory.globals
	defer func() {
		memory.stack = m.stack
		switch s := recover().(type) {
		case nil:
		case stop:
			err = s.err
		default:
			panic(s)
		}
	}()
	frame := m.frame(p.locals)
	for i := range m.globals {
		m.globals[i] = unset{}
	}
	for _, s := range p.file.Stmts {
		m.do(frame, s)
	}
	return m.invoke(m.globals[p.main].(*function), []Value{args}, nil), nil
}

// unset is the value of a variable before it has one.
type unset struct{}

// frame returns variables, on the stack.
func (m *machine) frame(size int) []Value {
	m.grow(16 * size)
	base := len(m.stack)
	for range size {
		m.stack = append(m.stack, unset{})
	}
	return m.stack[base:]
}

// fail ends the run with an *Error.
func (m *machine) fail(format string, args ...any) {
	panic(stop{&Error{m.line(), fmt.Sprintf(format, args...)}})
}

// line returns that of the statement that is executed.
func (m *machine) line() int {
	if m.at == nil {
		return 0
	}
	return int(lineOf(m.at))
}

// step counts steps.
func (m *machine) step(n int) {
	if m.limits.Steps -= n; m.limits.Steps < 0 {
		m.endSteps()
	}
}

// endSteps is not a part of step so that the compiler can inline that.
func (m *machine) endSteps() {
	m.limits.Steps = 0
	panic(stop{fmt.Errorf("%w: line %d: it has no steps left", ErrLimit, m.line())})
}

// bytesOfStep is how many bytes are copied or compared in the time of one step.
const bytesOfStep = 64

// work counts the bytes that are read.
func (m *machine) work(bytes int) { m.step(bytes / bytesOfStep) }

// grow counts the bytes of a new value. It is called before these are there.
func (m *machine) grow(bytes int) {
	m.work(bytes)
	if bytes > m.limits.Bytes {
		m.limits.Bytes = 0
		panic(stop{fmt.Errorf("%w: line %d: it has no memory left", ErrLimit, m.line())})
	}
	m.limits.Bytes -= bytes
}

// grown counts a new string.
func (m *machine) grown(s string) string {
	m.grow(stringSize + len(s))
	return s
}

// Sizes of values, in bytes.
const (
	stringSize = 16
	itemSize   = 32 // of a list, with the room that append leaves
	entrySize  = 160
)

// flow is how a statement ends.
type flow uint8

const (
	next flow = iota
	breaks
	continues
	returns
)

// block executes statements. If they return, result is what.
func (m *machine) block(f []Value, list []syntax.Stmt) (how flow, result Value) {
	for _, s := range list {
		if how, result = m.do(f, s); how != next {
			return how, result
		}
	}
	return next, nil
}

func (m *machine) do(f []Value, s syntax.Stmt) (how flow, result Value) {
	m.step(1)
	m.at = s
	switch s := s.(type) {
	case *syntax.ExprStmt:
		m.eval(f, s.X)
	case *syntax.AssignStmt:
		m.assignment(f, s)
	case *syntax.IfStmt:
		if truth(m.eval(f, s.Cond)) {
			return m.block(f, s.True)
		}
		return m.block(f, s.False)
	case *syntax.ForStmt:
		return m.loop(f, s)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			result = m.eval(f, s.Result)
		}
		return returns, result
	case *syntax.BranchStmt:
		switch s.Token {
		case syntax.BREAK:
			return breaks, nil
		case syntax.CONTINUE:
			return continues, nil
		}
	case *syntax.DefStmt:
		m.globals[s.Name.Binding.(*resolve.Binding).Index] = (*function)(s)
	}
	return next, nil
}

func (m *machine) loop(f []Value, s *syntax.ForStmt) (flow, Value) {
	for v := range m.each(m.eval(f, s.X)) {
		m.assign(f, s.Vars, v)
		switch how, result := m.block(f, s.Body); how {
		case breaks:
			return next, nil
		case returns:
			return returns, result
		}
	}
	return next, nil
}

// each yields the items of a value, which must not change meanwhile.
func (m *machine) each(v Value) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		switch v := v.(type) {
		case *List:
			v.looping++
			defer func() { v.looping-- }()
			m.yieldAll(v.Items, yield)
		case Tuple:
			m.yieldAll(v, yield)
		case *Dict:
			v.looping++
			defer func() { v.looping-- }()
			for k := range v.All {
				if m.step(1); !yield(k) {
					return
				}
			}
		case numbers:
			for i := range v.len() {
				if m.step(1); !yield(v.start + i*v.step) {
					return
				}
			}
		default:
			m.fail("a %s has no items", TypeOf(v))
		}
	}
}

func (m *machine) yieldAll(items []Value, yield func(Value) bool) {
	for _, v := range items {
		if m.step(1); !yield(v) {
			return
		}
	}
}

// collect returns the items of a value as a new list.
func (m *machine) collect(v Value) *List {
	l := &List{}
	for item := range m.each(v) {
		m.append(l, item)
	}
	return l
}

func (m *machine) append(l *List, v Value) {
	m.grow(itemSize)
	l.Items = append(l.Items, v)
}

func (m *machine) set(d *Dict, key, value Value) {
	key = m.key(key)
	if _, there := d.Get(key); !there {
		m.changing(d.looping)
		m.grow(entrySize)
	}
	d.Set(key, value)
}

// changing fails if loops are over what changes.
func (m *machine) changing(looping int) {
	if looping > 0 {
		m.fail("it cannot change while a loop is over it")
	}
}

// assignment executes x = y, and x += y.
func (m *machine) assignment(f []Value, s *syntax.AssignStmt) {
	if s.Op == syntax.EQ {
		m.assign(f, s.LHS, m.eval(f, s.RHS))
		return
	}
	op := s.Op - syntax.PLUS_EQ + syntax.PLUS
	switch to := s.LHS.(type) {
	case *syntax.IndexExpr:
		x, i := m.eval(f, to.X), m.eval(f, to.Y)
		m.setIndex(x, i, m.binary(op, m.index(x, i), m.eval(f, s.RHS)))
	default:
		before := m.eval(f, to)
		with := m.eval(f, s.RHS)
		if l, is := before.(*List); is && op == syntax.PLUS { // as extend does
			m.changing(l.looping)
			for v := range m.each(m.collect(with)) {
				m.append(l, v)
			}
			return
		}
		m.assign(f, to, m.binary(op, before, with))
	}
}

func (m *machine) assign(f []Value, to syntax.Expr, v Value) {
	m.step(1)
	switch to := to.(type) {
	case *syntax.ParenExpr:
		m.assign(f, to.X, v)
	case *syntax.Ident:
		if b := to.Binding.(*resolve.Binding); b.Scope == resolve.Global {
			m.globals[b.Index] = v
		} else {
			f[b.Index] = v
		}
	case *syntax.IndexExpr:
		m.setIndex(m.eval(f, to.X), m.eval(f, to.Y), v)
	case *syntax.TupleExpr:
		m.unpack(f, to.List, v)
	case *syntax.ListExpr:
		m.unpack(f, to.List, v)
	default:
		m.fail("nothing can be assigned to that")
	}
}

func (m *machine) unpack(f []Value, to []syntax.Expr, v Value) {
	items := m.collect(v).Items
	if len(items) != len(to) {
		m.fail("%d values for %d names", len(items), len(to))
	}
	for i, x := range to {
		m.assign(f, x, items[i])
	}
}

func (m *machine) setIndex(x, i, v Value) {
	switch x := x.(type) {
	case *List:
		x.Items[m.place(i, len(x.Items))] = v
	case *Dict:
		m.set(x, i, v)
	default:
		m.fail("nothing can be assigned to an item of a %s", TypeOf(x))
	}
}

// place returns an index of one of n items; a negative one counts from the end.
func (m *machine) place(i Value, n int) int {
	at, is := i.(int64)
	if !is {
		m.fail("an index is a number, not a %s", TypeOf(i))
	}
	if at < 0 {
		at += int64(n)
	}
	if at < 0 || at >= int64(n) {
		m.fail("index %d is not one of %d items", i, n)
	}
	return int(at)
}
