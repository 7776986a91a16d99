package controller

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int{"a": 1, "empty": 0, "half": maxFileBytes / 2, "whole": maxFileBytes} {
		if err := os.WriteFile(path(name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		files []string
		err   string
	}{
		{"none", nil, ""},
		{"one that is missing", []string{"a", "missing", "empty"}, ""},
		{"as many bytes as possible", []string{"half", "half"}, ""},
		{"one byte more", []string{"whole", "a"}, "a: the files have more than 1048576 bytes: list only those"},
		{"a folder", []string{"a", "."}, "is a directory: let the user that runs Holdfast read it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var paths []string
			for _, f := range tt.files {
				paths = append(paths, path(f))
			}
			set, err := readFiles(paths)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v; want one with %q", err, tt.err)
				}
				return
			case err != nil || len(set.Files) != len(paths):
				t.Fatalf("%d files, %v", len(set.Files), err)
			}
			for i, f := range set.Files {
				if content, err := os.ReadFile(paths[i]); f.Path != paths[i] || f.Missing != (err != nil) ||
					!bytes.Equal(f.Content, content) {
					t.Errorf("%s: missing %v, %d bytes", f.Path, f.Missing, len(f.Content))
				}
			}
		})
	}
}

// filing is a filer whose offers the test answers.
type filing struct {
	*filer
	t       *testing.T
	path    string
	offered chan []byte
	answers chan error
	log     bytes.Buffer // read after stop
	stop    func()
}

func newFiling(t *testing.T) *filing {
	f := &filing{t: t, path: filepath.Join(t.TempDir(), "f"), offered: make(chan []byte), answers: make(chan error)}
	ended, done := make(chan struct{}), make(chan struct{})
	offer := func(body []byte) error {
		select {
		case f.offered <- body:
			return <-f.answers
		case <-ended:
			return errClosing
		}
	}
	f.filer = newFiler([]string{f.path}, offer, slog.New(slog.NewTextHandler(&f.log, nil)), ended)
	f.pause = time.Hour // an attempt follows only what the test does
	go func() { f.run(); close(done) }()
	var stopped bool
	f.stop = func() {
		if !stopped {
			stopped = true
			close(ended)
			<-done
		}
	}
	t.Cleanup(f.stop)
	return f
}

func (f *filing) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// offers waits for an offer of files with that text. The filer waits for the answer.
func (f *filing) offers(first bool, text string) {
	f.t.Helper()
	want := wire.FileSet{First: first, Files: []wire.File{{Path: f.path, Content: []byte(text)}}}
	if got := <-f.offered; !bytes.Equal(got, want.Append(nil)) {
		f.t.Fatalf("offered %q; want %q, the first: %v", got, text, first)
	}
}

// Requests that come while files are being logged are served once, with what the files have then.
func TestReloadsAreCoalesced(t *testing.T) {
	f := newFiling(t)
	f.write("a")
	want(f.reload)
	f.offers(false, "a")
	for range 100 {
		want(f.reload)
	}
	f.write("b")
	f.answers <- nil
	f.offers(false, "b")
	f.answers <- nil
	want(f.first)
	f.offers(true, "b") // and none of the hundred before it
	f.answers <- nil
	f.stop()
	if n := strings.Count(f.log.String(), "configuration files logged"); n != 2 {
		t.Errorf("%d reloads are reported: %s", n, f.log.String())
	}
}

// A controller that does not lead offers its files again, and a reload meanwhile replaces them at once.
func TestReloadAtAFollower(t *testing.T) {
	f := newFiling(t)
	f.write("a")
	want(f.reload)
	f.offers(false, "a")
	f.answers <- replay.ErrNotLeading
	f.write("b")
	want(f.reload)
	f.offers(false, "b")
	f.answers <- replay.ErrNotLeading
	f.stop()

	f = newFiling(t)
	f.pause = 0
	f.write("a")
	want(f.reload)
	for range maxFilesTries {
		f.offers(false, "a")
		f.write("b") // nobody was told to read it
		f.answers <- replay.ErrNotLeading
	}
	f.write("a")
	want(f.first)
	f.offers(true, "a")
	f.answers <- replay.ErrNotLeading // the next leader logs its own
	want(f.reload)
	f.offers(false, "a")
	f.answers <- nil
	f.stop()
	if !strings.Contains(f.log.String(), "another controller leads") {
		t.Errorf("the log has %s", f.log.String())
	}
}

// Files that cannot be read, or that the log refuses, change nothing, and the next reload is served.
func TestFilesThatCannotBeLogged(t *testing.T) {
	f := newFiling(t)
	if err := os.Mkdir(f.path, 0o700); err != nil {
		t.Fatal(err)
	}
	f.serve(false) // ends at once
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{replay.ErrRefused, replay.ErrLeftOut, errors.New("other"), nil} {
		f.write("a")
		want(f.reload)
		f.offers(false, "a")
		f.answers <- err
	}
	f.stop()
	for _, said := range []string{"is a directory", replay.ErrRefused.Error(), replay.ErrLeftOut.Error()} {
		if !strings.Contains(f.log.String(), said) {
			t.Errorf("the log lacks %q: %s", said, f.log.String())
		}
	}
}
