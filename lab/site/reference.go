package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-sdn/holdfast/internal/command"
)

// reference makes the pages that describe what the code has, as Markdown.
func reference(root string) (map[string][]byte, error) {
	pages := commands(command.Root())
	for name, write := range map[string]func(root string, to *bytes.Buffer) error{
		filePage: clusterFile, metricsPage: metrics, routesPage: routes, protosPage: protos,
	} {
		var page bytes.Buffer
		if err := write(root, &page); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = page.Bytes()
	}
	return pages, goPackages(root, pages)
}

// commands makes a page for each subcommand, and one that lists them.
func commands(top *cobra.Command) map[string][]byte {
	pages := map[string][]byte{}
	var list bytes.Buffer
	fmt.Fprintf(&list, "# Commands\n\n%s\n\n| command | |\n|---|---|\n", paragraphs(top.Long))
	for _, c := range top.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&list, "| [holdfast %s](commands/%s.md) | %s |\n", c.Name(), c.Name(), c.Short)
		var page bytes.Buffer
		describe(&page, c, 1)
		pages["reference/commands/"+c.Name()+".md"] = page.Bytes()
	}
	list.WriteString("\nExit codes: 0 if the command succeeded, 1 if it failed, 2 if it was called in a wrong way, " +
		"and 130 if Ctrl-C ended it.\n")
	pages[commandsPage] = list.Bytes()
	return pages
}

// describe writes what the help of a command says, and of those below it.
func describe(to *bytes.Buffer, c *cobra.Command, level int) {
	fmt.Fprintf(to, "%s %s\n\n", strings.Repeat("#", level), c.CommandPath())
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(to, "%s\n\n", paragraphs(long))
	if c.Runnable() {
		fmt.Fprintf(to, "```\n%s\n```\n\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(to, "Examples:\n\n```\n%s\n```\n\n", unindent(c.Example))
	}
	flagTable(to, c.NonInheritedFlags())
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			describe(to, sub, 2)
		}
	}
}

// paragraphs makes Markdown of a help text: what is indented there is code.
func paragraphs(help string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(help) {
		indented := strings.HasPrefix(line, "  ")
		if indented != code && (indented || strings.TrimSpace(line) != "") {
			b.WriteString("```\n")
			code = indented
		}
		if !code {
			line = escaped(line)
		}
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	if code {
		b.WriteString("\n```")
	}
	return b.String()
}

// escaped hides what would be a mark in Markdown.
func escaped(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`, "_", `\_`).Replace(text)
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

// flagTable lists flags, if there are any besides help.
func flagTable(to *bytes.Buffer, flags *pflag.FlagSet) {
	var lines []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			kind = " " + kind
		}
		name := "`--" + f.Name + kind + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" &&
			!strings.Contains(usage, "default") {
			usage += " (default " + d + ")"
		}
		lines = append(lines, fmt.Sprintf("| %s | %s |\n", name, cell(escaped(usage))))
	})
	if len(lines) > 0 {
		fmt.Fprintf(to, "| flag | |\n|---|---|\n%s\n", strings.Join(lines, ""))
	}
}

// cell is a text in a table.
func cell(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`) }

// parse reads the Go files of a package, and those of tests with examples if they are wanted.
func parse(root, folder string, examples bool) (*token.FileSet, []*ast.File, error) {
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	var files []*ast.File
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") && !(examples && strings.HasPrefix(base, "example")) {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("there is no Go file in %s", folder)
	}
	return set, files, nil
}

// literal is the value of a string in Go, or "".
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr: // "a" + "b"
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// metrics lists the series of controllers, agents and sentries.
func metrics(root string, to *bytes.Buffer) error {
	to.WriteString("# Metrics\n\nControllers serve these to Prometheus at `/metrics` of their address `api`; " +
		"agents and sentries do at the address that `--metrics` says. " +
		"[Watching](../docs/operating/watching.md#metrics) says " +
		"how to collect them; alerts and a dashboard are in [deploy](../deploy/prometheus).\n")
	for _, of := range []struct{ pkg, title string }{{"controller", "Controllers"}, {"agent", "Agents"},
		{"bfd/sentry", "Sentries"}} {
		_, files, err := parse(root, of.pkg, false)
		if err != nil {
			return err
		}
		lines := series(files)
		if len(lines) == 0 {
			return fmt.Errorf("package %s makes no series: are they made by other functions than those of metric?",
				of.pkg)
		}
		fmt.Fprintf(to, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n%s", of.title,
			strings.Join(lines, ""))
	}
	return nil
}

// series returns a line for each call of metric.Gauge and metric.Counter, by name.
func series(files []*ast.File) (lines []string) {
	each(files, func(call *ast.CallExpr) {
		made, is := call.Fun.(*ast.SelectorExpr)
		if !is || len(call.Args) < 2 || literal(call.Args[0]) == "" {
			return
		}
		kind := map[string]string{"Gauge": "gauge", "Counter": "counter"}[made.Sel.Name]
		if from, is := made.X.(*ast.Ident); !is || from.Name != "metric" || kind == "" {
			return
		}
		var labels []string
		for _, l := range call.Args[2:] {
			labels = append(labels, "`"+literal(l)+"`")
		}
		lines = append(lines, fmt.Sprintf("| `holdfast_%s` | %s | %s | %s |\n", literal(call.Args[0]), kind,
			strings.Join(labels, ", "), cell(literal(call.Args[1]))))
	})
	slices.Sort(lines)
	return lines
}

// each calls visit for all calls in files.
func each(files []*ast.File, visit func(*ast.CallExpr)) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				visit(call)
			}
			return true
		})
	}
}

// routes lists what controllers serve over HTTP, with the roles.
func routes(root string, to *bytes.Buffer) error {
	_, files, err := parse(root, "internal/access", false)
	if err != nil {
		return err
	}
	to.WriteString("# HTTP\n\nWhat controllers serve over HTTP, and the least " +
		"[role](../docs/operating/access.md#who-may-do-what) that may use it. Without `tls` and `tokens` in the " +
		"cluster file, everybody may. The command line uses the same paths. " +
		"`/` stands for what applications serve besides. " +
		"Clients are those with a certificate for clients; the store looks at their requests itself.\n\n" +
		"| path | to read | to change | clients |\n|---|---|---|---|\n")
	r := rolesReader{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
				r[spec.Names[0].Name] = spec.Values[0]
			}
			return true
		})
	}
	lines := r.needs()
	if len(lines) == 0 {
		return fmt.Errorf("package access has no table needs with the paths")
	}
	slices.Sort(lines)
	to.WriteString(strings.Join(lines, ""))
	to.WriteString("\nPaths of the store and of applications are at the address `rest` of a controller, and all " +
		"others at the address `api`. Handlers of applications in Go are below `/apps/NAME/`.\n")
	return nil
}

// rolesReader has the variables and constants of package access.
type rolesReader map[string]ast.Expr

// needs reads the table of paths.
func (r rolesReader) needs() (lines []string) {
	for _, e := range r.elements(r["needs"]) {
		row, is := e.(*ast.KeyValueExpr)
		if !is {
			continue
		}
		of := map[string]string{}
		for _, e := range r.elements(row.Value) {
			if field, is := e.(*ast.KeyValueExpr); is {
				of[fmt.Sprint(field.Key)] = roleName(field.Value)
			}
		}
		clients := ""
		if of["clients"] != "" {
			clients = "yes"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |\n", literal(r.value(row.Key)), of["read"],
			of["change"], clients))
	}
	return lines
}

// value is that of a constant or variable, or the expression itself.
func (r rolesReader) value(e ast.Expr) ast.Expr {
	if name, is := e.(*ast.Ident); is && r[name.Name] != nil {
		return r[name.Name]
	}
	return e
}

// elements are those of a composite literal, or of a variable that has one.
func (r rolesReader) elements(e ast.Expr) []ast.Expr {
	if c, is := r.value(e).(*ast.CompositeLit); is {
		return c.Elts
	}
	return nil
}

// roleName is the name of a role, as pki.Viewer.
func roleName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return strings.ToLower(e.Sel.Name)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// protos shows the interfaces that are defined as Protocol Buffers: services first.
func protos(root string, to *bytes.Buffer) error {
	to.WriteString("# Protocol Buffers\n\nThe interfaces for programs, as gRPC, gRPC-Web and Connect. Clients are " +
		"generated from these files.\n\n")
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (strings.HasPrefix(path, ".") && path != "." || path == "build") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("there are no .proto files")
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "## %s\n\n", name)
		for _, part := range protoParts(string(text)) {
			if part.name != "" {
				fmt.Fprintf(to, "### %s\n\n", part.name)
			}
			fmt.Fprintf(to, "```\n%s\n```\n\n", strings.TrimSpace(part.text))
		}
	}
	return nil
}

type protoPart struct{ name, text string }

// protoParts divides a file at the comments before its services, messages and enumerations.
func protoParts(text string) []protoPart {
	parts := []protoPart{{}}
	comment := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "//"):
			comment += line
			continue
		case len(words) > 1 && slices.Contains([]string{"service", "message", "enum"}, words[0]) && line[0] != ' ':
			parts = append(parts, protoPart{name: strings.TrimSuffix(words[1], "{")})
		}
		last := &parts[len(parts)-1]
		last.text += comment + line
		comment = ""
	}
	parts[len(parts)-1].text += comment
	return parts
}
