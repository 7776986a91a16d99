package starter

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write examples/hello")

// The example in the repository is what a user gets.
func TestExample(t *testing.T) {
	const example = "../../examples/hello"
	dir := filepath.Join(t.TempDir(), "hello")
	list, err := Write(dir, "", &Source{Dir: "../..", Replace: "../.."})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.RemoveAll(example); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(example, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range list {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(example, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s/%s is not what `holdfast new` writes (%v): run go test ./internal/starter -update", example, name,
				err)
		}
	}
}

func TestWithoutSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guard2")
	list, err := Write(dir, "v0.9.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.Contains(string(mod), "require github.com/holdfast-sdn/holdfast v0.9.0\n") {
		t.Errorf("go.mod is %q, %v", mod, err)
	}
	for _, name := range list {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(text), "hello") {
			t.Errorf("%s has another name than guard2 in it, or cannot be read: %v", name, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	here := t.TempDir()
	if err := os.Mkdir(filepath.Join(here, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "go.mod"), []byte("module other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "go.sum"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		source *Source
		want   string
	}{
		{"fine", nil, "use --source"}, {"Hello", nil, "small letters"}, {"", nil, "small letters"}, {"there", &Source{Dir: "../.."}, "exists"},
		{"fine", &Source{Dir: here}, "not the source of Holdfast"}, {"fine", &Source{Dir: here + "/no"}, "no such file"},
	} {
		if _, err := Write(here+"/"+c.name, "(devel)", c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.name, err, c.want)
		}
	}
	if s := Find("github.com/holdfast-sdn/holdfast/internal/command/new.go"); s != nil {
		t.Errorf("found a source that is not here: %v", s)
	}
}
