// Package starter writes the files of a new module: an application with its tests, the program that is Holdfast with
// it, a cluster file and a page to read. It runs no Go command.
package starter

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed files
var files embed.FS

// module is the one that a new module needs.
const module = "github.com/holdfast-sdn/holdfast"

// name is what can be a module, a program and an application.
var name = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// Source is a folder with Holdfast's source, and how the new module's go.mod names it.
type Source struct {
	Dir     string
	Replace string
}

// Write makes a folder, which must not exist, with a module of its name. The module takes Holdfast from a folder with
// its source if there is one, with all versions that stand there, so that nothing has to be looked up; else it requires
// the release, and `go mod tidy` finds the rest. It returns the names of the files.
func Write(dir, release string, source *Source) ([]string, error) {
	hello := filepath.Base(dir)
	if !name.MatchString(hello) {
		return nil, fmt.Errorf("name %q: use up to 32 small letters, digits and _, and begin with a letter", hello)
	}
	all, err := texts(hello)
	if err != nil {
		return nil, err
	}
	switch {
	case source == nil && !strings.HasPrefix(release, "v"):
		return nil, fmt.Errorf("this program is no release, and the source that it was built from is not here: " +
			"use --source FOLDER")
	case source == nil:
		all["go.mod"] = fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire %s %s\n", hello, module, release)
	default:
		if err := source.modules(hello, all); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists: choose another name, or remove it", dir)
		}
		return nil, err
	}
	var list []string
	for file, text := range all {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return nil, err
		}
		list = append(list, file)
	}
	slices.Sort(list)
	return list, nil
}

// texts returns the files by name, but for those of the go command.
func texts(hello string) (map[string]string, error) {
	all := map[string]string{}
	entries, err := files.ReadDir("files")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("files", e.Name()))
		if err != nil {
			return nil, err
		}
		file := strings.TrimSuffix(e.Name(), ".tmpl")
		if file == "gitignore" {
			file = "." + file
		}
		all[file] = strings.ReplaceAll(string(text), "hello", hello)
	}
	return all, nil
}

// modules adds the files of the go command, made of those of the source.
func (s *Source) modules(hello string, all map[string]string) error {
	mod, err := os.ReadFile(filepath.Join(s.Dir, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(s.Dir, "go.sum"))
	if err != nil {
		return err
	}
	own := "module " + module + "\n"
	if !strings.HasPrefix(string(mod), own) {
		return fmt.Errorf("%s is not the source of Holdfast: its go.mod does not begin with %q", s.Dir,
			strings.TrimSpace(own))
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(string(mod), own), "\ntool ")
	all["go.mod"] = fmt.Sprintf("module %s\n%s\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", hello,
		strings.TrimRight(text, "\n"), module, module, s.Replace)
	all["go.sum"] = string(sum)
	return nil
}

// Find returns the folder of Holdfast's source from which the calling program was built, given a file in it as the
// runtime names it; nil if that is not here.
func Find(file string) *Source {
	for dir := filepath.Dir(file); filepath.IsAbs(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+module+"\n") {
			return &Source{dir, dir}
		}
	}
	return nil
}
