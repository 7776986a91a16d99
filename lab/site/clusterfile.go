package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/command"
)

// clusterFile lists the keys of the cluster file with their values, as the parser of package config reads them. What
// they mean is in docs/operating/configuration.md, which has to name each.
func clusterFile(root string, to *bytes.Buffer) error {
	_, files, err := parse(root, "internal/config", false)
	if err != nil {
		return err
	}
	r := configReader{to: to, constants: map[string]ast.Expr{}, methods: map[string]*ast.FuncDecl{}}
	for _, f := range files {
		r.collect(f)
	}
	top := r.methods["parse"]
	if top == nil {
		return fmt.Errorf("package config has no method parse")
	}
	explained, err := os.ReadFile(filepath.Join(root, "docs/operating/configuration.md"))
	if err != nil {
		return err
	}
	for _, k := range r.keys(top.Body) {
		if !bytes.Contains(explained, []byte("`"+k.name+"`")) {
			return fmt.Errorf("docs/operating/configuration.md does not explain the key %s", k.name)
		}
	}
	config, _, err := command.Root().Find([]string{"config"})
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "# The cluster file\n\n%s\n\n"+
		"[Configuration](../docs/operating/configuration.md#keys) explains the "+
		"keys and their defaults. `holdfast config check` finds mistakes in a file.\n", paragraphs(config.Long))
	r.section("Keys", top.Body)
	return nil
}

// configReader reads the parser of the cluster file: methods with literals {"key", function}, whose functions call
// methods for texts, numbers and the like.
type configReader struct {
	to        *bytes.Buffer
	constants map[string]ast.Expr
	methods   map[string]*ast.FuncDecl
}

func (r *configReader) collect(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				r.methods[d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, is := spec.(*ast.ValueSpec); is && len(v.Names) == len(v.Values) {
					for i, name := range v.Names {
						r.constants[name.Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// key is one of a section of the file, and the function that reads its value.
type key struct {
	name string
	read ast.Expr
}

// keys are those that a method reads.
func (r *configReader) keys(body *ast.BlockStmt) (list []key) {
	add := func(name string, read ast.Expr) {
		if !slices.ContainsFunc(list, func(k key) bool { return k.name == name }) {
			list = append(list, key{name, read})
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if len(n.Elts) == 2 && literal(n.Elts[0]) != "" {
				add(literal(n.Elts[0]), n.Elts[1])
				return false
			}
		case *ast.CallExpr: // of a function that makes such a literal
			if f, is := n.Fun.(*ast.Ident); is && f.Name == "address" && len(n.Args) == 2 {
				add(literal(n.Args[0]), n)
			}
		}
		return true
	})
	return list
}

// section writes a table of the keys that a method reads, and those of the sections below it.
func (r *configReader) section(title string, body *ast.BlockStmt) {
	fmt.Fprintf(r.to, "\n## %s\n\n| key | value |\n|---|---|\n", title)
	type section struct {
		title string
		body  *ast.BlockStmt
	}
	var below []section
	for _, k := range r.keys(body) {
		value, inside := r.value(k.read, 0)
		switch _, variable := k.read.(*ast.UnaryExpr); {
		case inside != nil && value == list:
			value = "list of sections, [below](#" + k.name + ")"
		case inside != nil:
			value = "section, [below](#" + k.name + ")"
		case variable: // a path that is read in a loop
			value = kinds["path"]
		case value == "":
			value = "see [Configuration](../docs/operating/configuration.md#keys)"
		}
		if inside != nil {
			below = append(below, section{"`" + k.name + "`", inside})
		}
		fmt.Fprintf(r.to, "| `%s` | %s |\n", k.name, value)
	}
	for _, s := range below {
		r.section(s.title, s.body)
	}
}

// value says what a function reads, and returns the body of the method with the keys if it is a section. Depth is how
// many methods call it.
func (r *configReader) value(read ast.Node, depth int) (what string, inside *ast.BlockStmt) {
	const deepest = 2
	found := func(text string) {
		switch {
		case what == "":
			what = text
		case what == list && text == kinds["text"]:
			what = kinds["texts"]
		}
	}
	ast.Inspect(read, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			found(r.kind(n))
		case *ast.SelectorExpr:
			m := r.methods[n.Sel.Name]
			x, is := n.X.(*ast.Ident)
			if !is || x.Name != "p" || m == nil || kinds[n.Sel.Name] != "" || inside != nil || depth == deepest {
				break
			}
			if len(r.keys(m.Body)) > 0 {
				inside = m.Body
				break
			}
			text, deeper := r.value(m.Body, depth+1)
			found(text)
			inside = deeper
		}
		return true
	})
	return what, inside
}

const list = "list"

// kinds are what the methods of the parser read, by their names. Those with bounds or a choice say more.
var kinds = map[string]string{"flag": "`true` or `false`", "address": "host:port", "path": "path", "text": "text",
	"texts": "list of texts", "sequence": list, "choice": "one of", "oneOf": "one of", "millis": "milliseconds",
	"number": "number", "mapping": " ", "mistake": " ", "unknown": " "}

// kind says what a call reads, as p.millis(n, "key", 1, 10_000, &to).
func (r *configReader) kind(c *ast.CallExpr) string {
	name := ""
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	text := strings.TrimSpace(kinds[name])
	switch {
	case name == "choice":
		return r.words(c.Args[2:4])
	case name == "oneOf":
		if list, is := c.Args[2].(*ast.CompositeLit); is {
			return r.words(list.Elts)
		}
	case name == "millis" || name == "number":
		least, known := r.number(c.Args[2])
		most, both := r.number(c.Args[3])
		if known && both {
			return fmt.Sprintf("%s, %d to %d", text, least, most)
		}
	}
	return text
}

// words is a list of texts.
func (r *configReader) words(list []ast.Expr) string {
	var words []string
	for _, e := range list {
		if call, is := e.(*ast.CallExpr); is && len(call.Args) == 1 { // string(Disk)
			e = call.Args[0]
		}
		if name, is := e.(*ast.Ident); is && r.constants[name.Name] != nil {
			e = r.constants[name.Name]
		}
		words = append(words, "`"+literal(e)+"`")
	}
	return strings.Join(words, " or ")
}

// number is the value of a constant expression.
func (r *configReader) number(e ast.Expr) (n uint64, known bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseUint(strings.ReplaceAll(e.Value, "_", ""), 0, 64)
		return n, err == nil
	case *ast.Ident:
		if value := r.constants[e.Name]; value != nil {
			return r.number(value)
		}
	case *ast.BinaryExpr:
		x, is := r.number(e.X)
		y, both := r.number(e.Y)
		switch {
		case !is || !both:
		case e.Op == token.SHL:
			return x << y, true
		case e.Op == token.SUB:
			return x - y, true
		}
	}
	return 0, false
}
