package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// sources calls visit for each file of the repository whose name ends in one of the extensions.
func sources(t *testing.T, visit func(path, text string), extensions ...string) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		for _, extension := range extensions {
			if !d.IsDir() && strings.HasSuffix(path, extension) {
				text, err := fs.ReadFile(root, path)
				if err != nil {
					return err
				}
				visit(path, string(text))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// prose returns a page without its fenced blocks.
func prose(page string) string {
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			out.WriteString(line)
		}
	}
	return out.String()
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	inlineCode   = regexp.MustCompile("`([^`\n]+)`")
	testName     = regexp.MustCompile(`\bTest[A-Z]\w*`)
	goName       = regexp.MustCompile(`^([a-z][a-z0-9]*(?:/[a-z][a-z0-9]*)*)((?:\.[A-Za-z]\w*)+)(?:\(\))?$`)
)

// anchor returns the anchor that GitHub makes from a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

// Every link from a page to another page or heading has a target.
func TestLinksResolve(t *testing.T) {
	pages := map[string]string{}
	sources(t, func(path, text string) { pages[path] = prose(text) }, ".md")
	for path, text := range pages {
		for _, match := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			to, fragment, _ := strings.Cut(match[1], "#")
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(filepath.Join("../..", target)); err != nil {
				t.Errorf("%s: link %s leads nowhere", path, match[1])
				continue
			}
			if fragment == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(pages[target], -1) {
				found = found || anchor(h[1]) == fragment
			}
			if !found {
				t.Errorf("%s: link %s: %s has no such heading", path, match[1], target)
			}
		}
	}
}

// declared returns the names that Go files declare. For each package, by its folder and by the last element of
// that: functions, types, variables and constants, methods as Type.Method and fields as Type.Field. Also all tests.
type declared struct {
	names map[string]map[string]bool
	tests map[string]bool
}

func declarations(t *testing.T) declared {
	t.Helper()
	d := declared{map[string]map[string]bool{}, map[string]bool{}}
	sources(t, func(path, text string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					d.tests[f.Name.Name] = true
				}
			}
			return
		}
		last := filepath.Base(filepath.Dir(path))
		if last == "." { // the root
			last = file.Name.Name
		}
		for _, key := range []string{filepath.Dir(path), last} {
			if d.names[key] == nil {
				d.names[key] = map[string]bool{}
			}
			d.add(d.names[key], file)
		}
	}, ".go")
	return d
}

func (d declared) add(names map[string]bool, file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := decl.Name.Name
			if decl.Recv != nil {
				name = receiver(decl.Recv.List[0].Type) + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names[name.Name] = true
					}
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
					addFields(names, spec)
				}
			}
		}
	}
}

// receiver returns the name of the type of a receiver, which may be a pointer or have type parameters.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return ""
}

func addFields(names map[string]bool, spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			names[spec.Name.Name+"."+name.Name] = true
		}
	}
}

// Every file, Go name (package.Func, package.Type.Method) and test in a page exists.
func TestDocsNameWhatExists(t *testing.T) {
	code := declarations(t)
	sources(t, func(path, text string) {
		text = prose(text)
		for _, name := range testName.FindAllString(text, -1) {
			if !code.tests[name] {
				t.Errorf("%s: there is no test %s", path, name)
			}
		}
		for _, match := range inlineCode.FindAllStringSubmatch(text, -1) {
			if problem := code.missing(match[1]); problem != "" {
				t.Errorf("%s: `%s`: %s", path, match[1], problem)
			}
		}
	}, ".md")
}

// missing reports what is wrong with a piece of code in a page, if it is a path or a Go name.
func (d declared) missing(word string) string {
	if foreign.MatchString(word) || strings.HasPrefix(word, "build/") { // what commands make
		return ""
	}
	top, _, nested := strings.Cut(word, "/")
	if info, err := os.Stat(filepath.Join("../..", top)); nested && top != "" && top != "." && err == nil &&
		info.IsDir() && isPath(word) {
		if _, err := os.Stat(filepath.Join("../..", word)); err == nil {
			return ""
		}
		if !goName.MatchString(word) || strings.HasSuffix(word, ".go") {
			return "no such file"
		}
	}
	match := goName.FindStringSubmatch(word)
	if match == nil || d.names[match[1]] == nil || isFile(word) {
		return ""
	}
	if !d.names[match[1]][match[2][1:]] {
		return "package " + match[1] + " declares no " + match[2][1:]
	}
	return ""
}

var (
	onePath = regexp.MustCompile(`^[\w./-]+$`)
	// foreign has names of os-ken and Ryu, and commands of Open vSwitch, that look like ours.
	foreign = regexp.MustCompile(`^(ryu[./](app|lib|base)\b|hub\.|bfd/set-)`)
	oneFile = regexp.MustCompile(`\.(go|py|md|pml|json|yaml|txt|pem)$`)
)

// isPath reports whether word is the path of one file or folder, and not a pattern or an example.
func isPath(word string) bool { return onePath.MatchString(word) && !strings.Contains(word, "...") }

// isFile reports whether word is the name of a file, which looks like a Go name.
func isFile(word string) bool { return oneFile.MatchString(word) }
