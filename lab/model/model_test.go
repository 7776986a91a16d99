package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func newTestChecker(t *testing.T) *checker {
	t.Helper()
	c, err := newChecker(io.Discard)
	if errors.Is(err, errMissing) && os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// Ravana, section 4: the protocol as it is written down, streams between groups and moves of actors, exhaustively for
// small networks. The rest is for make model.
func TestProtocolHolds(t *testing.T) {
	c := newTestChecker(t)
	for _, v := range variants {
		if !v.quick {
			continue
		}
		r, err := c.check(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r)
		if r.Problem != "" {
			t.Errorf("%s: %s\n%s\n%s", v.name, r.Problem, strings.Join(r.Steps, "\n"), r.Broken)
		}
	}
}

// Ravana, table 2: without any one of its mechanisms the protocol breaks, as docs/counterexamples says. So do streams
// and moves.
func TestEveryMechanismIsNeeded(t *testing.T) {
	c := newTestChecker(t)
	version, err := exec.Command("spin", "-V").Output()
	if err != nil {
		t.Fatal(err)
	}
	same := strings.Contains(string(version), "Version 6.5.2") // another may search in another order
	var names []string
	for _, v := range variants {
		if v.refuted == "" {
			continue
		}
		names = append(names, v.name+".md")
		r, err := c.check(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if r.Problem != "" {
			t.Errorf("%s: %s", v.name, r.Problem)
			continue
		}
		written, err := os.ReadFile(filepath.Join("..", "..", "docs", "counterexamples", v.name+".md"))
		if err != nil {
			t.Error(err)
		} else if same && string(written) != v.text(r) {
			t.Errorf("docs/counterexamples/%s.md is not what spin finds now: run `go run ./lab/model -write`; it finds\n%s",
				v.name, v.text(r))
		}
	}
	files, err := os.ReadDir(filepath.Join("..", "..", "docs", "counterexamples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "README.md" && !slices.Contains(names, f.Name()) {
			t.Errorf("docs/counterexamples/%s belongs to no variant: remove it", f.Name())
		}
	}
}

// A search that was cut short proves nothing.
func TestIncompleteSearchFails(t *testing.T) {
	for _, said := range []string{
		"error: max search depth too small\nState-vector 8 byte, depth reached 9, errors: 0\n 1 states, stored\n",
		"pan: reached -DMEMLIM bound\nWarning: Search not completed\nState-vector 8 byte, depth reached 9, errors: 0\n",
		"Killed\n",
	} {
		var r result
		r.parse(said)
		r.judge(variant{}, said)
		if r.Problem == "" {
			t.Errorf("counts as a proof: %q", said)
		}
	}
}
