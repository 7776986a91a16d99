package auditlog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// read returns the records of a file.
func read(t *testing.T, file string) (list []record) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%s: %q: %v", file, lines.Text(), err)
		}
		list = append(list, r)
	}
	return list
}

// What Begin has recorded is in the file at once, and its result has the same id. The next process appends to it, after
// what a crash has left of a line.
func TestRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	ids := map[uint64]bool{}
	for run := range 2 {
		l := Open(file, quiet)
		for i := range 3 {
			id, err := l.Begin(t.Context(), Request{Who: "operator alice", What: fmt.Sprint("POST /v1/drain ", i)})
			if err != nil || ids[id] {
				t.Fatal(id, err)
			}
			ids[id] = true
			list := read(t, file)
			if last := list[len(list)-1]; last.Request == nil || last.ID != id || last.Who != "operator alice" {
				t.Fatalf("run %d: the last record is %+v", run, last)
			}
		}
		l.End(1, 409, "no controller leads")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Begin(t.Context(), Request{}); err == nil {
			t.Error("a record is taken after Close")
		}
		list := read(t, file)
		if last := list[len(list)-1]; last.Request != nil || last.Status != 409 || last.Error != "no controller leads" {
			t.Errorf("the result is %+v", last)
		}
	}
	if n := len(read(t, file)); n != 8 {
		t.Errorf("%d records, not 8", n)
	}

	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`"half a line`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l := Open(file, quiet)
	defer l.Close()
	text, err := os.ReadFile(file)
	if err != nil || text[len(text)-1] != '\n' {
		t.Errorf("%v: it ends with %q", err, text[len(text)-10:])
	}
}

// Files are replaced when they are large, in order, and the oldest are removed.
func TestRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := open(file, 1000, quiet)
	var first uint64
	for range 200 {
		id, err := l.Begin(t.Context(), Request{What: "POST /v1/pin"})
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = id
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := first + 200
	for i := range maxOlder + 1 { // from the youngest
		name := file
		if i > 0 {
			name = older(file, i)
		}
		list := read(t, name)
		for j := range list {
			if next--; list[len(list)-1-j].ID != next {
				t.Fatalf("%s: record %d has id %d, not %d", name, j, list[len(list)-1-j].ID, next)
			}
		}
	}
	if _, err := os.Stat(older(file, maxOlder+1)); err == nil {
		t.Error("too many files are kept")
	}
	if next <= first {
		t.Error("all records are kept")
	}
}

// Many at once share what is written, and nothing of it is lost.
func TestTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	l := Open(file, quiet)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			id, err := l.Begin(t.Context(), Request{What: "POST /v1/move"})
			if err != nil {
				t.Error(err)
			}
			l.End(id, 200, "")
		})
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(read(t, file)); n != 200 {
		t.Errorf("%d records, not 200", n)
	}
}

// A file that cannot be written refuses changes, and takes them again when it can be.
func TestDiskFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	l := Open(file, quiet)
	defer l.Close()
	l.f.Close() // nobody writes yet
	if _, err := l.Begin(t.Context(), Request{What: "POST /v1/drain"}); err == nil {
		t.Error("a record that cannot be stored is taken")
	}
	if _, err := l.Begin(t.Context(), Request{What: "POST /v1/drain"}); err != nil {
		t.Errorf("the file can be written again: %v", err)
	}
	if n := len(read(t, file)); n != 1 {
		t.Errorf("%d records, not 1", n)
	}
}
