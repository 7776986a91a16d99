// Package mutation puts seeded bugs into code that ships, all of them into one program, in which an environment
// variable chooses one. So a hundred bugs cost one build. It is for tests: it does not know what a bug breaks, nor who
// notices.
//
// A bug replaces a piece of text within a function. The function that has it stands beside the right one under another
// name, and the right one begins with a comparison that decides which of them runs. The go command reads these files
// by its flag -overlay; nothing is written into the source tree.
package mutation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Env is the environment variable that names the bug which a program is to have. If it is empty the program has none.
const Env = "HOLDFAST_MUTANT"

// Bug is a seeded bug: a piece of a file's text, which stands in it once, and what would stand there.
type Bug struct {
	Name   string
	File   string // from the root of the module, with slashes
	Before string
	After  string
}

// chooser is the package that the changed files import. It exists in the overlay only.
const (
	chooser     = "internal/seeded"
	chooserCode = "// Package seeded says which seeded bug a program has.\npackage seeded\n\nimport \"os\"\n\n" +
		"var name = os.Getenv(\"" + Env + "\")\n\nfunc Is(bug string) bool { return name == bug }\n"
)

// Build builds a main package of the module below root, with all bugs in it, as the file binary.
func Build(root, module, pkg, binary string, list []Bug) error {
	return build(root, module, pkg, binary, list, "build")
}

// BuildTest does the same with the tests of a package.
func BuildTest(root, module, pkg, binary string, list []Bug) error {
	return build(root, module, pkg, binary, list, "test", "-c", "-vet=off")
}

func build(root, module, pkg, binary string, list []Bug, command ...string) error {
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := overlay(root, module, list)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for name, code := range files {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(code), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", append(command, "-ldflags=-s -w", "-overlay", config, "-o", binary, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s with %d seeded bugs: %w\n%s", pkg, len(list), err, out)
	}
	return nil
}

// Apply returns the text of a file with the bug in it.
func (b Bug) Apply(code string) (string, error) {
	if n := strings.Count(code, b.Before); n != 1 {
		return "", fmt.Errorf("%s has %d times what the bug %q replaces: %q", b.File, n, b.Name, b.Before)
	}
	return strings.Replace(code, b.Before, b.After, 1), nil
}

// overlay returns the changed files by name, from the root of the module, and the package that they import.
func overlay(root, module string, list []Bug) (map[string]string, error) {
	files := map[string]string{chooser + "/seeded.go": chooserCode}
	inFile := map[string][]numbered{}
	for n, b := range list {
		if slices.ContainsFunc(list[:n], func(o Bug) bool { return o.Name == b.Name }) {
			return nil, fmt.Errorf("two bugs are called %q", b.Name)
		}
		inFile[b.File] = append(inFile[b.File], numbered{b, n})
	}
	var errs []error
	for name, bugs := range inFile {
		code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err == nil {
			files[name], err = both(string(code), module+"/"+chooser, bugs)
		}
		errs = append(errs, err)
	}
	return files, errors.Join(errs...)
}
