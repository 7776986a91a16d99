package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// value is what is known of an expression before a handler runs: source text that depends on the message and the
// application only, or why there is none.
type value struct {
	text string
	why  string // if there is no text
}

func unknown(format string, args ...any) value { return value{why: fmt.Sprintf(format, args...)} }

// uses is what a handler uses.
type uses struct {
	p       *pkg
	imports map[importOf]bool // that texts may have
	needs   []need
	wholes  []whole
	stack   []*ast.FuncDecl // calls that are followed
}

// importOf is a package by its name in the source.
type importOf struct{ name, path string }

// need is a cell: a table and a key.
type need struct{ table, key string }

// whole is a table of which all cells are taken.
type whole struct {
	table string
	why   string
	pos   token.Pos
	rows  bool // since the handler reads all rows
}

// maxCalls bounds the calls that are followed, one within the other.
const maxCalls = 16

// scope is what is known of the variables of a function.
type scope struct {
	values map[types.Object]value
}

func (u *uses) need(table, key string) {
	if n := (need{table, key}); !slices.Contains(u.needs, n) {
		u.needs = append(u.needs, n)
	}
}

func (u *uses) whole(w whole) {
	if !slices.ContainsFunc(u.wholes, func(o whole) bool { return o.table == w.table && o.rows == w.rows }) {
		u.wholes = append(u.wholes, w)
	}
}

// everything takes all tables of the application: nobody knows what the handler uses.
func (u *uses) everything(s *scope, pos token.Pos, why string) {
	found := false
	for o, v := range s.values {
		if v.text == "" || !u.isApplication(o) {
			continue
		}
		t := o.Type()
		if ptr, ok := t.(*types.Pointer); ok {
			t = ptr.Elem()
		}
		for f := range t.Underlying().(*types.Struct).Fields() {
			if isApp(f.Type(), "Table", "Map") {
				u.whole(whole{table: v.text + "." + f.Name(), why: why, pos: pos})
				found = true
			}
		}
	}
	if !found {
		u.whole(whole{why: why, pos: pos})
	}
}

// function notes what a function uses whose parameters are known.
func (u *uses) function(d *ast.FuncDecl, s *scope) {
	if len(u.stack) >= maxCalls || slices.Contains(u.stack, d) {
		u.everything(s, d.Pos(), d.Name.Name+" calls itself, or calls are too deep")
		return
	}
	u.stack = append(u.stack, d)
	defer func() { u.stack = u.stack[:len(u.stack)-1] }()
	u.locals(d, s)
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			u.call(n, s)
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				if u.isTx(e) {
					u.everything(s, e.Pos(), "the transaction is kept in a value")
				}
			}
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				if u.isTx(e) && len(n.Lhs) == len(n.Rhs) {
					if _, local := n.Lhs[i].(*ast.Ident); !local {
						u.everything(s, e.Pos(), "the transaction is kept in a variable")
					}
				}
			}
		}
		return true
	})
}

func (u *uses) isTx(e ast.Expr) bool {
	t := u.p.TypesInfo.TypeOf(e)
	return t != nil && isApp(t, "Tx")
}

// locals notes the values of variables that are set once, where they are declared.
func (u *uses) locals(d *ast.FuncDecl, s *scope) {
	sets := map[types.Object]int{}
	for o := range s.values {
		sets[o] = 1
	}
	set := func(e ast.Expr, what string) {
		for {
			switch x := ast.Unparen(e).(type) {
			case *ast.SelectorExpr:
				e = x.X
			case *ast.IndexExpr:
				e = x.X
			case *ast.Ident:
				o := u.p.TypesInfo.ObjectOf(x)
				if sets[o]++; sets[o] > 1 && !u.isApplication(o) {
					s.values[o] = unknown("%s %s", x.Name, what)
				}
				return
			default:
				return
			}
		}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				set(l, "is set more than once")
			}
		case *ast.IncDecStmt:
			set(n.X, "is set more than once")
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				set(n.Key, "is set in a loop")
				set(n.Value, "is set in a loop")
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				set(n.X, "is set where its address is")
				set(n.X, "is set where its address is")
			}
		}
		return true
	})
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if n, ok := n.(*ast.AssignStmt); ok && n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) {
			for i, l := range n.Lhs {
				if o := u.p.TypesInfo.Defs[l.(*ast.Ident)]; o != nil && sets[o] == 1 {
					s.values[o] = u.eval(n.Rhs[i], s)
				}
			}
		}
		return true
	})
}

// isApplication reports whether a variable is the receiver of a handler, whose tables do not change.
func (u *uses) isApplication(o types.Object) bool {
	if o == nil {
		return false
	}
	t := o.Type()
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range fields.Fields() {
		if isApp(f.Type(), "Table", "Map") {
			return true
		}
	}
	return false
}

// call notes what a call uses.
func (u *uses) call(c *ast.CallExpr, s *scope) {
	name := lastName(c.Fun)
	if name == nil {
		if slices.ContainsFunc(c.Args, u.isTx) {
			u.everything(s, c.Pos(), "the transaction is passed to a function that is not known")
		}
		return
	}
	f := u.p.TypesInfo.Uses[name]
	sel, isMethod := c.Fun.(*ast.SelectorExpr)
	if isMethod && isApp(u.p.TypesInfo.TypeOf(sel.X), "Table", "Map") {
		u.table(c, sel, s)
		return
	}
	if isMethod && u.isTx(sel.X) && name.Name == "Switches" {
		u.everything(s, c.Pos(), "it asks for all switches")
		return
	}
	if !slices.ContainsFunc(c.Args, u.isTx) || inApp(f) {
		return
	}
	d := u.p.decls[f]
	if d == nil || d.Body == nil {
		u.everything(s, c.Pos(), fmt.Sprintf("the transaction is passed to %s, which is not a function of this package",
			name.Name))
		return
	}
	inner := &scope{map[types.Object]value{}}
	if d.Recv != nil && len(d.Recv.List[0].Names) > 0 && isMethod {
		inner.values[u.p.TypesInfo.Defs[d.Recv.List[0].Names[0]]] = u.eval(sel.X, s)
	}
	for i, id := range parameters(d) {
		if i < len(c.Args) && id != nil {
			inner.values[u.p.TypesInfo.Defs[id]] = u.eval(c.Args[i], s)
		}
	}
	u.function(d, inner)
}

// parameters returns the names of a function's parameters; nil for one without.
func parameters(d *ast.FuncDecl) (list []*ast.Ident) {
	for _, f := range d.Type.Params.List {
		if len(f.Names) == 0 {
			list = append(list, nil)
		}
		list = append(list, f.Names...)
	}
	return list
}

// table notes a call of a method of a table.
func (u *uses) table(c *ast.CallExpr, sel *ast.SelectorExpr, s *scope) {
	table := u.eval(sel.X, s)
	if table.text == "" {
		u.everything(s, c.Pos(), "which table it uses is not known: "+table.why)
		return
	}
	if len(c.Args) == 0 || !u.isTx(c.Args[0]) {
		return // it only names a cell, or a reader
	}
	if len(c.Args) == 1 {
		u.whole(whole{table: table.text, why: "it reads all rows", pos: c.Pos(), rows: true})
		return
	}
	key := u.eval(c.Args[1], s)
	if key.text == "" {
		u.whole(whole{table: table.text, why: "the key does not depend on the message only: " + key.why, pos: c.Pos()})
		return
	}
	u.need(table.text, key.text)
}
