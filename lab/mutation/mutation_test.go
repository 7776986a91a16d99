package mutation

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const program = `package main

import "fmt"

type counter struct{ n int }

func (c *counter) add(by int) { c.n += by }

func (counter) name(string, ...int) (s string, err error) { s = "right"; return }

func sum(list ...int) (total int) {
	for _, v := range list {
		total += v
	}
	return total
}

func pick[T any](a, _ T) T { return a }

func main() {
	c := &counter{}
	c.add(2)
	name, _ := c.name("", 1)
	fmt.Println(c.n, name, sum(1, 2, 3), pick("a", "b"))
}
`

var bugs = []Bug{
	{"subtract", "main.go", "c.n += by", "c.n -= by"},
	{"add twice", "main.go", "c.n += by", "c.n += 2 * by"},
	{"another name", "main.go", `s = "right"`, `s = "wrong"`},
	{"forget the last", "main.go", "range list {", "range list[:len(list)-1] {"},
	{"nothing at all", "main.go", "return a }", "var none T; return none }"},
	{"no first", "main.go", "c.add(2)\n", ""},
}

// One program has each bug if it is asked to, and only that; with none it is the program as it is.
func TestBuild(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/m\n\ngo 1.26\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(t.TempDir(), "program")
	if err := Build(root, "example.org/m", ".", binary, bugs); err != nil {
		t.Fatal(err)
	}
	for bug, want := range map[string]string{"": "2 right 6 a", "subtract": "-2 right 6 a",
		"add twice": "4 right 6 a", "another name": "2 wrong 6 a", "forget the last": "2 right 3 a",
		"nothing at all": "2 right 6 ", "no first": "0 right 6 a"} {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), Env+"="+bug)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want+"\n" {
			t.Errorf("with the bug %q: %q, %v; want %q", bug, out, err, want)
		}
	}
	if now, err := os.ReadFile(filepath.Join(root, "main.go")); err != nil || string(now) != program {
		t.Errorf("the source has changed, or cannot be read: %v", err)
	}
}

func TestRefuses(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string][]Bug{
		"has 0 times what":          {{"a", "main.go", "not there", ""}},
		"times what the bug":        {{"a", "main.go", "c", ""}},
		"changes more than bodies":  {{"a", "main.go", "n int }", "n int64 }"}},
		"with the bug \"a\"":        {{"a", "main.go", "c.n += by", "c.n +="}},
		"two bugs are called \"a\"": {{"a", "main.go", "c.n += by", ""}, {"a", "main.go", "c.add(2)", ""}},
		"no such file or directory": {{"a", "other.go", "c", ""}},
	} {
		if _, err := overlay(root, "example.org/m", list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Tests that took more than a tenth of the time of all are slow; subtests and tests that failed are in no pattern.
func TestBySpeed(t *testing.T) {
	out := "=== RUN   TestA\n--- PASS: TestA (0.02s)\n    --- PASS: TestA/part (0.01s)\n--- PASS: TestB (3.10s)\n" +
		"--- PASS: TestC (0.10s)\n--- PASS: TestD (2.00s)\n--- FAIL: TestE (9.00s)\n"
	if quick, slow := bySpeed(out); quick != "^(TestA|TestC)$" || slow != "^(TestB|TestD)$" {
		t.Errorf("quick %s, slow %s", quick, slow)
	}
	if quick, slow := bySpeed(""); quick != "^()$" || slow != "^()$" {
		t.Errorf("of no tests: quick %s, slow %s", quick, slow)
	}
}
