package ryu

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

func TestProbe(t *testing.T) {
	python := realPython(t)
	path := ryu(t, python)
	cfg := Config{Python: python, Applications: []string{"ryu.app.simple_switch_13", "testdata/ending.py"},
		Path: []string{path}, Options: []string{"--observe-links"}}
	id, err := Probe(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(id.Python, "3.") || !strings.HasPrefix(id.OSKen, "4.") || id.Host == "" ||
		len(id.Applications) != 2 {
		t.Fatalf("%+v", id)
	}
	for i, file := range []string{filepath.Join(path, "ryu/app/simple_switch_13.py"), "testdata/ending.py"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if a := id.Applications[i]; a.Name != cfg.Applications[i] ||
			a.SHA256 != fmt.Sprintf("%x", sha256.Sum256(content)) {
			t.Errorf("application %d: %+v", i, a)
		}
	}
	if again, err := Probe(t.Context(), cfg); err != nil || again.String() != id.String() {
		t.Errorf("again: %v, %v", again, err)
	}
}

func TestIdentity(t *testing.T) {
	id := func() Identity {
		return Identity{"3.11", "4.2.2", "1", []Application{{"a", "/a.py", "aa"}, {"b", "/b.py", "bb"}},
			[]string{"--x", "y"}, nil}
	}
	want := id().String()
	moved := id()
	moved.Applications[0].File = "/elsewhere/a.py"
	if moved.String() != want {
		t.Errorf("where a file lies makes %s of %s", moved, want)
	}
	for name, change := range map[string]func(*Identity){
		"Python":    func(id *Identity) { id.Python = "3.12" },
		"os-ken":    func(id *Identity) { id.OSKen = "4.2.3" },
		"the host":  func(id *Identity) { id.Host = "2" },
		"a name":    func(id *Identity) { id.Applications[0].Name = "c" },
		"a file":    func(id *Identity) { id.Applications[0].SHA256 = "ab" },
		"the order": func(id *Identity) { a := id.Applications; a[0], a[1] = a[1], a[0] },
		"number":    func(id *Identity) { id.Applications = id.Applications[:1] },
		"options":   func(id *Identity) { id.Options = []string{"--x y"} },
		"files":     func(id *Identity) { id.Files = []string{"/etc/a"} },
		"no option": func(id *Identity) { id.Options = nil },
	} {
		other := id()
		change(&other)
		if other.String() == want || strings.Contains(other.String(), "\n") {
			t.Errorf("%s: %s, before %s", name, other, want)
		}
	}
}

func TestProbeErrors(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "python9")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		python string
		apps   []string
		want   string
	}{
		{"no application", t.Context(), "", nil, "no application to host"},
		{"no Python on PATH", t.Context(), "python9", []string{"a"},
			"there is no python9: install Python 3.10 or later"},
		{"no Python there", t.Context(), absent, []string{"a"}, "there is no " + absent},
		{"not executable", t.Context(), "/dev/null", []string{"a"}, "start /dev/null: "},
		{"what it says is passed on", t.Context(), executable(t,
			"echo warning >&2; echo 'holdfast_ryu: do this' >&2; exit 1"), []string{"a"}, "ryu: do this"},
		{"an old Python", t.Context(), executable(t, "echo Traceback >&2; echo 'SyntaxError: what' >&2; exit 1"),
			[]string{"a"}, "it may not be Python 3.10 or later: SyntaxError: what"},
		{"no Python at all", t.Context(), executable(t, "echo hello"), []string{"a"},
			"says of the applications: invalid character 'h' looking for beginning of value: it may not be Python"},
		{"nothing at all", t.Context(), executable(t, "exit 0"), []string{"a"}, "it may not be Python 3.10 or later"},
		{"it hangs", t.Context(), executable(t, "sleep 1000"), []string{"a"}, "importing the applications a takes longer"},
		{"too late", ended, executable(t, "sleep 1000"), []string{"a"}, "look for the applications: context canceled"},
	} {
		cfg := Config{Python: tt.python, Applications: tt.apps}
		if tt.name == "it hangs" {
			cfg.loading = 100 * time.Millisecond
		}
		_, err := Probe(tt.ctx, cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want a line with %q", tt.name, err, tt.want)
		}
	}
	if _, err := Start(Config{Python: absent, Applications: []string{"a"}}, wire.Hello{}, nil); err == nil ||
		!strings.Contains(err.Error(), "there is no "+absent) {
		t.Errorf("Start without Python: %v", err)
	}
	if _, err := Start(Config{}, wire.Hello{}, nil); err != errNoApplication {
		t.Errorf("Start without applications: %v", err)
	}
}

// An application that cannot be imported: the error says in one line why, and has the traceback as its details.
func TestProbeImports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.py")
	if err := os.WriteFile(file, []byte("import os\nimport no_such_module\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Probe(t.Context(), Config{Python: realPython(t), Applications: []string{file}})
	no, ok := errors.AsType[*LoadError](err)
	if !ok || !strings.HasPrefix(no.Why, "ryu: "+file+", line 2: ModuleNotFoundError: ") ||
		!strings.Contains(no.Detail, "Traceback (most recent call last):\n") || strings.Contains(no.Detail, "os_ken") {
		t.Errorf("got %v, details %q", err, no)
	}
}

// What only the real Python knows: which module or application is missing.
func TestProbeMissing(t *testing.T) {
	python := realPython(t)
	bare := executable(t, "exec '"+python+"' -S \"$@\"")
	for _, tt := range []struct{ python, app, want string }{
		{python, "ryu.app.no_such", "ryu.app.no_such"},
		{python, "./no_such.py", "./no_such.py"},
		{bare, "testdata/ending.py", "pip install "},
	} {
		_, err := Probe(t.Context(), Config{Python: tt.python, Applications: []string{tt.app}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "may not be Python") {
			t.Errorf("%s: %v; want a line with %q", tt.app, err, tt.want)
		}
	}
}
