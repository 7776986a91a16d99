package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// For small applications, the map functions and the notes are as in the golden files, and the result is a package
// without errors.
func TestGolden(t *testing.T) {
	for _, name := range []string{"te", "odd"} {
		dir := filepath.Join("testdata", name)
		p, err := load(dir)
		if err != nil {
			t.Fatal(err)
		}
		code, notes, err := p.generate()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join(dir, p.output()), code)
		compare(t, filepath.Join(dir, "notes.txt"), []byte(strings.Join(notes, "\n")+"\n"))
		if p, err = load(dir); err != nil || len(p.Errors) > 0 {
			t.Errorf("%s: %v %v", name, err, p.Errors)
		}
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v, got\n%s\nwant\n%s", file, err, got, want)
	}
}

// The map functions of the applications in this repository are those that go generate writes, without notes.
func TestUpToDate(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../apps/*/*.go", "../../network/*/*.go", "../../lab/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(code, []byte("\n//go:generate go run github.com/holdfast-sdn/holdfast/app/cellgen\n")) {
				continue
			}
			found++
			p, err := load(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			got, notes, err := p.generate()
			want, readErr := os.ReadFile(filepath.Join(filepath.Dir(file), p.output()))
			if err != nil || readErr != nil || !bytes.Equal(got, want) || len(notes) > 0 {
				t.Errorf("%s: run go generate: %v %v, notes: %q", file, err, readErr, notes)
			}
		}
	}
	if found == 0 {
		t.Error("no application uses cellgen")
	}
}
