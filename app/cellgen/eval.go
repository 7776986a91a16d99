package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// eval returns the source text of an expression in terms of the message and the application. Methods of the message are
// taken to depend on it only.
func (u *uses) eval(e ast.Expr, s *scope) value {
	if u.mayPanic(e) {
		return unknown("%s may panic, unless the handler has checked it before", types.ExprString(e))
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		return value{text: e.Value}
	case *ast.Ident:
		return u.ident(e, s)
	case *ast.ParenExpr:
		return u.join(s, "(", e.X, ")")
	case *ast.SelectorExpr:
		return u.selector(e, s)
	case *ast.IndexExpr:
		return u.join(s, "", e.X, "[", e.Index, "]")
	case *ast.BinaryExpr:
		return u.join(s, "", e.X, " "+e.Op.String()+" ", e.Y, "")
	case *ast.UnaryExpr:
		return u.join(s, e.Op.String(), e.X, "")
	case *ast.CallExpr:
		return u.callValue(e, s)
	case *ast.CompositeLit:
		return u.literal(e, s)
	}
	return unknown("%s is too difficult", types.ExprString(e))
}

// mayPanic reports whether an expression, without its parts, panics for some values.
func (u *uses) mayPanic(e ast.Expr) bool {
	constant := func(e ast.Expr) bool { return u.p.TypesInfo.Types[e].Value != nil }
	switch e := e.(type) {
	case *ast.IndexExpr:
		switch u.underlying(e.X).(type) {
		case *types.Map:
			return false
		case *types.Array:
			return !constant(e.Index)
		}
		return true
	case *ast.SelectorExpr:
		_, pointer := u.underlying(e.X).(*types.Pointer)
		return pointer && !u.ofApplication(e.X)
	case *ast.BinaryExpr:
		return (e.Op == token.QUO || e.Op == token.REM) && !constant(e.Y)
	case *ast.CallExpr:
		_, array := u.underlying(e.Fun).(*types.Array)
		if array && len(e.Args) == 1 { // a conversion
			_, slice := u.underlying(e.Args[0]).(*types.Slice)
			return slice
		}
	}
	return false
}

// underlying returns what the type of an expression is; nil if it has none, as a package.
func (u *uses) underlying(e ast.Expr) types.Type {
	if t := u.p.TypesInfo.TypeOf(e); t != nil {
		return t.Underlying()
	}
	return nil
}

// join joins texts and expressions.
func (u *uses) join(s *scope, parts ...any) value {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		case ast.Expr:
			v := u.eval(p, s)
			if v.text == "" {
				return v
			}
			b.WriteString(v.text)
		}
	}
	return value{text: b.String()}
}

func (u *uses) ident(e *ast.Ident, s *scope) value {
	o := u.p.TypesInfo.ObjectOf(e)
	if v, known := s.values[o]; known {
		return v
	}
	switch o := o.(type) {
	case *types.Const, *types.Nil, *types.TypeName, *types.Builtin, *types.Func:
		return value{text: e.Name}
	case *types.Var:
		if o.Parent() == u.p.Types.Scope() && isApp(o.Type(), "Table", "Map") {
			return value{text: e.Name}
		}
	}
	return unknown("%s is known only when the handler runs", e.Name)
}

func (u *uses) selector(e *ast.SelectorExpr, s *scope) value {
	if id, ok := e.X.(*ast.Ident); ok {
		if name, ok := u.p.TypesInfo.Uses[id].(*types.PkgName); ok {
			switch u.p.TypesInfo.Uses[e.Sel].(type) {
			case *types.Const, *types.TypeName, *types.Func:
				u.imports[importOf{id.Name, name.Imported().Path()}] = true
				return value{text: id.Name + "." + e.Sel.Name}
			}
			return unknown("%s is a variable of another package", types.ExprString(e))
		}
	}
	if o := u.p.TypesInfo.Uses[e.Sel]; u.ofApplication(e.X) && o != nil && !isApp(o.Type(), "Table", "Map") {
		if _, isVar := o.(*types.Var); isVar {
			return unknown("%s is a Go variable", types.ExprString(e))
		}
	}
	return u.join(s, "", e.X, "."+e.Sel.Name)
}

// ofApplication reports whether an expression is a value that has the tables of an application.
func (u *uses) ofApplication(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && u.isApplication(u.p.TypesInfo.ObjectOf(id))
}

// pure are packages whose functions depend on their arguments only. Those whose names begin with Must may panic.
var pure = []string{"bytes", "cmp", "encoding/binary", "net/netip", "strconv", "strings", "path"}

func (u *uses) callValue(e *ast.CallExpr, s *scope) value {
	if name := lastName(e.Fun); name != nil && !u.p.TypesInfo.Types[e.Fun].IsType() {
		f, ok := u.p.TypesInfo.Uses[name].(*types.Func)
		switch {
		case !ok: // a built-in function, or a variable
			if _, builtin := u.p.TypesInfo.Uses[name].(*types.Builtin); !builtin {
				return unknown("%s is not a function that is known", name.Name)
			}
		case f.Signature().Recv() == nil && !isPure(f) || u.isMethodOfApplication(e.Fun):
			return unknown("what %s returns is not known", name.Name)
		case f.Signature().Recv() != nil && isApp(f.Signature().Recv().Type(), "Table", "Map", "Tx"):
			return unknown("it is the result of %s", types.ExprString(e.Fun))
		}
	}
	parts := []any{"", e.Fun, "("}
	for i, a := range e.Args {
		if i > 0 {
			parts = append(parts, ", ")
		}
		parts = append(parts, a)
	}
	return u.join(s, append(parts, ")")...)
}

// isMethodOfApplication reports whether a function is a method of the application, which may read Go variables.
func (u *uses) isMethodOfApplication(f ast.Expr) bool {
	sel, ok := f.(*ast.SelectorExpr)
	return ok && u.ofApplication(sel.X)
}

func isPure(f *types.Func) bool {
	for _, path := range pure {
		if f.Pkg() != nil && f.Pkg().Path() == path && !strings.HasPrefix(f.Name(), "Must") {
			return true
		}
	}
	return false
}

func (u *uses) literal(e *ast.CompositeLit, s *scope) value {
	if e.Type == nil {
		return unknown("%s is too difficult", types.ExprString(e))
	}
	parts := []any{"", e.Type, "{"}
	for i, x := range e.Elts {
		if i > 0 {
			parts = append(parts, ", ")
		}
		if kv, ok := x.(*ast.KeyValueExpr); ok {
			parts = append(parts, types.ExprString(kv.Key)+": ", kv.Value)
			continue
		}
		parts = append(parts, x)
	}
	return u.join(s, append(parts, "}")...)
}
