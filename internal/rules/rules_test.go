// Package rules holds no code: its tests keep the rules of CONTRIBUTING.md that a compiler does not.
package rules

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/holdfast-sdn/holdfast/"

// layers is the order of the packages of the product, by the first folder of their path: a package imports its own
// folder and those below it, and only those.
var layers = []string{
	"cmd",
	"holdfast", // the package at the root
	"internal/command",
	"apps",
	"network",
	"store",
	"app",
	"controller",
	"ryu",
	"ledger",
	"tally",
	"python",
	"consensus",
	"southbound",
	"agent",
	"ovsdb",
	"bfd",
	"stream",
	"internal",
	"api",
	"openflow",
}

// laboratory is what makes networks, load, faults, oracles and figures, and the gate and releases. It imports what it
// likes. Of the product only the command line, which has the subcommands demo, bench, sim, vswitch and vnet, imports
// any of it.
var laboratory = []string{"deploy", "holdfasttest", "lab", "scripts"}

type pkg struct {
	ImportPath, Doc  string
	GoFiles, Imports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 { // otherwise it contains only tests
			list = append(list, p)
		}
	}
}

// place returns the folder of a package, and its place among layers: -1 for one of the laboratory or of another
// module.
func place(t *testing.T, path string) (top string, layer int) {
	t.Helper()
	inside, ours := strings.CutPrefix(path+"/", module)
	if !ours {
		return "", -1
	}
	top, _, _ = strings.Cut(inside, "/")
	switch {
	case inside == "":
		top = "holdfast"
	case strings.HasPrefix(inside, "internal/command/"):
		top = "internal/command"
	}
	layer = slices.Index(layers, top)
	if layer < 0 && !slices.Contains(laboratory, top) {
		t.Fatalf("%s: folder %s has no place among layers in rules_test.go: give it one", path, top)
	}
	return top, layer
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment: say what it is and what it is not", p.ImportPath)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		_, from := place(t, p.ImportPath)
		for _, imported := range p.Imports {
			if _, to := place(t, imported); to >= 0 && to < from {
				t.Errorf("%s imports %s, which is above it", p.ImportPath, imported)
			}
		}
	}
}

// The product does not depend on the laboratory.
func TestProductImportsNoLaboratory(t *testing.T) {
	for _, p := range packages(t) {
		if _, from := place(t, p.ImportPath); from <= slices.Index(layers, "internal/command") {
			continue
		}
		for _, imported := range p.Imports {
			if top, _ := place(t, imported); slices.Contains(laboratory, top) {
				t.Errorf("%s imports %s: move what it needs out of the laboratory, or itself into it", p.ImportPath,
					imported)
			}
		}
	}
}

// Applications import package app, the view of the network and the wire formats, and nothing else.
func TestAppsSeeOnlyApp(t *testing.T) {
	allowed := []string{"apps", "network", "app", "openflow"}
	for _, p := range packages(t) {
		if top, _ := place(t, p.ImportPath); top != "apps" {
			continue
		}
		for _, imported := range p.Imports {
			if top, _ := place(t, imported); top != "" && !slices.Contains(allowed, top) {
				t.Errorf("%s imports %s: an application may import %s", p.ImportPath, imported,
					strings.Join(allowed, ", "))
			}
		}
	}
}

// maxColumns is the maximal length of a line of code, with tabs of four columns.
const maxColumns = 120

// A line of Go, Python or Promela may be longer only if it is test data: a literal in a Go test.
func TestColumns(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".go", ".py", ".pml"}, filepath.Ext(path)) {
			return nil
		}
		code, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if strings.Contains(path, "api/") && strings.Contains(string(code[:min(len(code), 64)]), "Code generated") {
			return nil // by programs that are not ours
		}
		number := 0
		for line := range strings.Lines(string(code)) {
			number++
			columns := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    "))
			data := strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(strings.TrimSpace(line), "//")
			if columns > maxColumns && !data {
				t.Errorf("%s:%d has %d columns, at most %d are possible", path, number, columns, maxColumns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
