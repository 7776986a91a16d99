package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/printer"
	"go/token"
	"path"
	"strings"
)

// publicPackages are those that programs of others import, by their folders.
var publicPackages = []string{".", "app", "app/apptest", "holdfasttest", "store/client"}

// modulePath is what import paths of this repository begin with.
const modulePath = "github.com/holdfast-sdn/holdfast"

// goPackages makes a page for each public package, and one that lists them.
func goPackages(root string, pages map[string][]byte) error {
	var list bytes.Buffer
	list.WriteString("# Go packages\n\nWhat programs of your own import.\n\n| package | |\n|---|---|\n")
	for _, folder := range publicPackages {
		set, files, err := parse(root, folder, true)
		if err != nil {
			return err
		}
		p, err := doc.NewFromFiles(set, files, path.Join(modulePath, folder))
		if err != nil {
			return err
		}
		if p.Doc == "" {
			return fmt.Errorf("package %s has no comment", folder)
		}
		w := packageWriter{pkg: p, set: set}
		fmt.Fprintf(&w.to, "# Package %s\n\n```\nimport %q\n```\n\n", p.Name, p.ImportPath)
		if err := w.write(); err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.Replace(folder, ".", p.Name, 1), "/", "-")
		pages["reference/go/"+name+".md"] = w.to.Bytes()
		fmt.Fprintf(&list, "| [%s](go/%s.md) | %s |\n", p.ImportPath, name, cell(p.Synopsis(p.Doc)))
	}
	pages[packagesPage] = list.Bytes()
	return nil
}

// packageWriter writes the documentation of a package.
type packageWriter struct {
	to  bytes.Buffer
	pkg *doc.Package
	set *token.FileSet
	err error
}

func (w *packageWriter) write() error {
	w.comment(w.pkg.Doc)
	w.examples(w.pkg.Examples)
	w.values("Constants", w.pkg.Consts)
	w.values("Variables", w.pkg.Vars)
	if len(w.pkg.Funcs) > 0 {
		w.to.WriteString("## Functions\n\n")
		w.functions(w.pkg.Funcs, 3)
	}
	for _, t := range w.pkg.Types {
		if !token.IsExported(t.Name) {
			continue
		}
		fmt.Fprintf(&w.to, "## type %s\n\n", t.Name)
		w.declaration(t.Decl)
		w.comment(t.Doc)
		w.examples(t.Examples)
		for _, v := range append(t.Consts, t.Vars...) {
			w.declaration(v.Decl)
			w.comment(v.Doc)
		}
		w.functions(t.Funcs, 3)
		w.functions(t.Methods, 3)
	}
	return w.err
}

func (w *packageWriter) values(title string, list []*doc.Value) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(&w.to, "## %s\n\n", title)
	for _, v := range list {
		w.declaration(v.Decl)
		w.comment(v.Doc)
	}
}

func (w *packageWriter) functions(list []*doc.Func, level int) {
	for _, f := range list {
		name := f.Name
		if f.Recv != "" {
			name = strings.TrimLeft(f.Recv, "*") + "." + name
		}
		fmt.Fprintf(&w.to, "%s %s\n\n", strings.Repeat("#", level), escaped(name))
		w.declaration(f.Decl)
		w.comment(f.Doc)
		w.examples(f.Examples)
	}
}

// declaration writes Go code, without the body of a function, which go/doc has taken away.
func (w *packageWriter) declaration(d ast.Decl) {
	var code bytes.Buffer
	if err := format.Node(&code, w.set, d); err != nil && w.err == nil {
		w.err = err
	}
	fmt.Fprintf(&w.to, "```\n%s\n```\n\n", code.Bytes())
}

// examples writes examples, which are tests.
func (w *packageWriter) examples(list []*doc.Example) {
	for _, e := range list {
		var code bytes.Buffer
		if err := format.Node(&code, w.set, &printer.CommentedNode{Node: e.Code, Comments: e.Comments}); err != nil &&
			w.err == nil {
			w.err = err
		}
		text := strings.TrimSpace(code.String())
		if _, block := e.Code.(*ast.BlockStmt); block { // what is inside the braces
			text = strings.ReplaceAll(strings.TrimSpace(text[1:len(text)-1]), "\n\t", "\n")
		}
		w.to.WriteString("Example:\n\n")
		w.comment(e.Doc)
		fmt.Fprintf(&w.to, "```\n%s\n```\n\n", text)
	}
}

// comment writes a comment. Its links are text: not all that they name is on a page.
func (w *packageWriter) comment(text string) {
	parser, markdown := w.pkg.Parser(), w.pkg.Printer()
	parser.LookupPackage = func(string) (string, bool) { return "", false }
	parser.LookupSym = func(string, string) bool { return false }
	markdown.HeadingLevel = 3
	markdown.HeadingID = func(*comment.Heading) string { return "" } // the page gives it one
	w.to.Write(markdown.Markdown(parser.Parse(text)))
	w.to.WriteString("\n")
}
