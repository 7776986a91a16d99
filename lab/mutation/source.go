package mutation

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// numbered is a bug and a number, of which names of functions are made.
type numbered struct {
	Bug
	number int
}

// source is a parsed file.
type source struct {
	code      string
	file      *ast.File
	functions map[string]*ast.FuncDecl // by receiver and name
}

func parse(code string) (*source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{code: code, file: file, functions: map[string]*ast.FuncDecl{}}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			key := f.Name.Name
			if f.Recv != nil {
				key = s.text(f.Recv.List[0].Type) + "." + key
			}
			s.functions[key] = f
		}
	}
	return s, nil
}

// text is what stands in the file for a node. The file is the only one of its set, so it begins at position 1.
func (s *source) text(n ast.Node) string { return s.code[n.Pos()-1 : n.End()-1] }

// edit replaces a piece of a text, from one offset to another.
type edit struct {
	from, to int
	text     string
}

// both returns the code of a file with functions that have the bugs beside those that have not.
func both(code, chooser string, bugs []numbered) (string, error) {
	right, err := parse(code)
	if err != nil {
		return "", err
	}
	// The import is on the line of the package clause, so that all line numbers stay.
	end := int(right.file.Name.End() - 1)
	edits := []edit{{end, end, fmt.Sprintf("; import seeded %q", chooser)}}
	named := map[string]bool{} // functions whose parameters have names by now
	var beside strings.Builder
	for _, b := range bugs {
		wrongCode, err := b.Apply(code)
		if err != nil {
			return "", err
		}
		wrong, err := parse(wrongCode)
		if err != nil {
			return "", fmt.Errorf("%s with the bug %q: %w", b.File, b.Name, err)
		}
		changed, err := difference(right, wrong)
		if err != nil {
			return "", fmt.Errorf("%s: the bug %q %w", b.File, b.Name, err)
		}
		for _, key := range changed {
			f := right.functions[key]
			if !named[key] {
				edits = append(edits, naming(f)...)
				named[key] = true
			}
			name := fmt.Sprintf("%s__%d", f.Name.Name, b.number)
			edits = append(edits, detour(f, name, b.Name))
			w := wrong.functions[key]
			at := w.Name.Pos() - w.Pos()
			text := wrong.text(w)
			fmt.Fprintf(&beside, "\n%s%s%s\n", text[:at], name, text[int(at)+len(w.Name.Name):])
		}
	}
	return apply(code, edits) + beside.String(), nil
}

// difference returns the functions that are not the same in both files. All else is.
func difference(right, wrong *source) (changed []string, err error) {
	frame := func(s *source) string { // all but the bodies of functions
		var edits []edit
		for _, f := range s.functions {
			edits = append(edits, edit{int(f.Body.Pos() - 1), int(f.Body.End() - 1), ""})
		}
		return apply(s.code, edits)
	}
	if frame(right) != frame(wrong) {
		return nil, fmt.Errorf("changes more than bodies of functions")
	}
	for key, f := range right.functions {
		if right.text(f.Body) != wrong.text(wrong.functions[key].Body) {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// naming gives names to the receiver and the parameters that have none.
func naming(f *ast.FuncDecl) (edits []edit) {
	n := 0
	fresh := func() string { n++; return fmt.Sprintf("seeded%d", n) }
	for _, p := range inputs(f) {
		if len(p.Names) == 0 {
			at := int(p.Type.Pos() - 1)
			edits = append(edits, edit{at, at, fresh() + " "})
		}
		for _, name := range p.Names {
			if name.Name == "_" {
				edits = append(edits, edit{int(name.Pos() - 1), int(name.End() - 1), fresh()})
			}
		}
	}
	return edits
}

// detour is the question at the beginning of a function, and the call of the one that has the bug.
func detour(f *ast.FuncDecl, name, bug string) edit {
	var args []string
	n := 0
	arg := func(given string) string {
		if given == "" || given == "_" {
			n++
			return fmt.Sprintf("seeded%d", n)
		}
		return given
	}
	for _, p := range inputs(f) {
		names := []string{""}
		if len(p.Names) > 0 {
			names = names[:0]
			for _, id := range p.Names {
				names = append(names, id.Name)
			}
		}
		for _, given := range names {
			a := arg(given)
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				a += "..."
			}
			args = append(args, a)
		}
	}
	callee := name
	if f.Recv != nil {
		callee, args = args[0]+"."+name, args[1:]
	}
	call := fmt.Sprintf("%s(%s)", callee, strings.Join(args, ", "))
	if f.Type.Results != nil && len(f.Type.Results.List) > 0 {
		call = "return " + call
	} else {
		call += "; return"
	}
	at := int(f.Body.Lbrace)
	return edit{at, at, fmt.Sprintf(" if seeded.Is(%q) { %s };", bug, call)}
}

// inputs are the receiver, if there is one, and the parameters.
func inputs(f *ast.FuncDecl) (list []*ast.Field) {
	if f.Recv != nil {
		list = append(list, f.Recv.List...)
	}
	return append(list, f.Type.Params.List...)
}

// apply makes edits that do not overlap.
func apply(code string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	last := 0
	for _, e := range edits {
		b.WriteString(code[last:e.from])
		b.WriteString(e.text)
		last = e.to
	}
	return b.String() + code[last:]
}
