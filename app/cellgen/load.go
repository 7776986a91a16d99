package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const appPath = "github.com/holdfast-sdn/holdfast/app"

// pkg is the package of an application.
type pkg struct {
	*packages.Package
	decls map[types.Object]*ast.FuncDecl
}

// load reads a package. That the generated functions are missing is no error.
func load(dir string) (*pkg, error) {
	list, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedFiles |
		packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
		packages.NeedTypesSizes | packages.NeedExportFile}, ".")
	if err != nil {
		return nil, fmt.Errorf("load the package in %s: %w", dir, err)
	}
	if len(list) != 1 || len(list[0].Syntax) == 0 {
		return nil, fmt.Errorf("there is no package in %s", dir)
	}
	p := &pkg{list[0], map[types.Object]*ast.FuncDecl{}}
	for _, e := range p.Errors {
		if e.Kind == packages.ParseError { // others may be about what is generated
			return nil, e
		}
	}
	for _, file := range p.Syntax {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				p.decls[p.TypesInfo.Defs[f.Name]] = f
			}
		}
	}
	return p, nil
}

// output is the name of the file with the map functions.
func (p *pkg) output() string { return p.Name + "_cells.go" }

// suffix ends the name of the map function of a handler.
const suffix = "Cells"

// handler is a handler whose map function is generated.
type handler struct {
	decl *ast.FuncDecl
	name string // of the map function
}

// handlers returns the handlers whose map functions are generated, in the order of the source.
func (p *pkg) handlers() (list []handler) {
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 || !p.registers(call) {
				return true
			}
			args := call.Args[1:]
			if len(call.Args) > 3 && len(p.textOf(call.Args[1])) > 0 { // the route of HandleHTTP
				args = call.Args[2:]
			}
			cells, run := lastName(args[0]), lastName(args[1])
			if cells == nil || run == nil || cells.Name != run.Name+suffix {
				return true // it is written by hand
			}
			decl := p.decls[p.TypesInfo.Uses[run]]
			if decl == nil || slices.ContainsFunc(list, func(h handler) bool { return h.decl == decl }) {
				return true
			}
			list = append(list, handler{decl, cells.Name})
			return true
		})
	}
	return list
}

// textOf returns the constant string that an expression is; "" if it is none.
func (p *pkg) textOf(e ast.Expr) string {
	if v := p.TypesInfo.Types[e].Value; v != nil {
		return v.String()
	}
	return ""
}

// registers reports whether a call gives a handler to an application.
func (p *pkg) registers(call *ast.CallExpr) bool {
	f := call.Fun
	if i, ok := f.(*ast.IndexExpr); ok {
		f = i.X
	}
	name := lastName(f)
	if name == nil {
		return false
	}
	o := p.TypesInfo.Uses[name]
	return inApp(o) && strings.HasPrefix(o.Name(), "Handle")
}

func inApp(o types.Object) bool { return o != nil && o.Pkg() != nil && o.Pkg().Path() == appPath }

// lastName returns the name of a function or method value.
func lastName(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return e.Sel
	}
	return nil
}

// isApp reports whether a type is that of package app, or a pointer to it, and has one of the names.
func isApp(t types.Type, names ...string) bool {
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && inApp(n.Obj()) && slices.Contains(names, n.Obj().Name())
}

// at is a position for people.
func (p *pkg) at(pos token.Pos) string {
	at := p.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
}
