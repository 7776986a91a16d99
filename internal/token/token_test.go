package token

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// A file has what was added and not removed, keeps its comments, and does not have the tokens.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := map[string]string{}
	for _, id := range []pki.Identity{{Role: pki.Operator, Name: "alice"}, {Role: pki.Viewer, Name: "grafana"}} {
		token, err := Add(file, id)
		if err != nil {
			t.Fatal(err)
		}
		tokens[id.Name] = token
		appendTo(t, file, "# after "+id.Name) // without an end of line
	}
	list, err := Read(file)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if e, ok := list.Find(HashOf(tokens["alice"])); !ok || e.Identity != (pki.Identity{Role: pki.Operator, Name: "alice"}) {
		t.Errorf("alice's token is that of %v, %v", e, ok)
	}
	if e, ok := list.Find(HashOf(tokens["alice"] + "x")); ok {
		t.Errorf("another token is that of %v", e)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), tokens["alice"]) || !strings.Contains(string(text), "# after alice\n") {
		t.Errorf("%v, the file has:\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := Remove(file, "alice"); err != nil {
		t.Fatal(err)
	}
	list, err = Read(file)
	if _, found := list.Find(HashOf(tokens["alice"])); err != nil || len(list) != 1 || found {
		t.Errorf("after alice was removed: %v, %v", list, err)
	}
	if err := Remove(file, "alice"); err == nil {
		t.Error("alice is removed twice")
	}
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Who could read a file still can when it has changed: the controllers, which may run as another user.
func TestReadersStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if _, err := Add(file, pki.Identity{Role: pki.Admin, Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // else all files here have the same owner
		if err := os.Chown(file, 12345, 12346); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(file, "alice"); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if after.Mode() != before.Mode() || is.Uid != was.Uid || is.Gid != was.Gid {
		t.Errorf("mode %v, user %d, group %d; before: %v, %d, %d", after.Mode(), is.Uid, is.Gid, before.Mode(), was.Uid,
			was.Gid)
	}
}

// Of changes at the same time none is lost.
func TestChangesAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	const tokens = 20
	var adding sync.WaitGroup
	for i := range tokens {
		adding.Go(func() {
			if _, err := Add(file, pki.Identity{Role: pki.Viewer, Name: fmt.Sprint("v", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if list, err := Read(file); err != nil || len(list) != tokens {
		t.Errorf("%d of %d tokens are in the file, %v", len(list), tokens, err)
	}
}

// A file with a mistake is refused whole, with the line and the remedy.
func TestMistakes(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for _, c := range []struct{ text, want string }{
		{"operator alice", "tokens:1: 2 words: write ROLE NAME HASH"},
		{"# one\nroot alice " + hash, `tokens:2: role "root": a token is for one of`},
		{"controller c1 " + hash, "all others need certificates"},
		{"operator alice " + hash[1:], "the hash of operator alice is not the SHA-256"},
		{"operator Alice " + hash, `name "Alice"`},
		{"operator alice " + hash + "\nviewer alice " + hash, "tokens:2: a token called alice is there already"},
	} {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if _, err := Add(file, pki.Identity{Role: pki.Admin, Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "can be written by other users") {
		t.Errorf("a file that others can write is read: %v", err)
	}
}

// FuzzRead: no file makes Read panic, and what it accepts has names and roles that are possible.
func FuzzRead(f *testing.F) {
	f.Add([]byte("operator alice " + strings.Repeat("0a", 32) + " # since May\n"))
	f.Add([]byte("viewer\x00"))
	file := filepath.Join(f.TempDir(), "tokens")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := Read(file)
		for _, e := range list {
			if err != nil || e.Validate() != nil {
				t.Errorf("%v with %v", e, err)
			}
		}
	})
}

// A file with a token has it and nothing else.
func TestReadSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if _, err := ReadSecret(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for text, want := range map[string]string{"holdfast-x\n": "holdfast-x", " holdfast-y ": "holdfast-y", "": "", "x": "",
		"operator alice holdfast-x": "", "holdfast-x holdfast-y": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if secret, err := ReadSecret(file); secret != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", text, secret, err)
		}
	}
}
