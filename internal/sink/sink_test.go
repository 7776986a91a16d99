package sink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What nobody reads makes nobody wait. When somebody reads again, the beginning is there, then how much is missing, and
// then what is new.
func TestNobodyReads(t *testing.T) {
	r, w := io.Pipe()
	s := New(w, 1000)
	line := func(i int) string { return fmt.Sprintf("line %03d\n", i) }
	for i := range 500 { // 9 bytes each
		if n, err := s.Write([]byte(line(i))); n != 9 || err != nil {
			t.Fatal(n, err)
		}
	}
	got := make(chan string, 1)
	var all bytes.Buffer
	go func() { // ends with the pipe
		buf := make([]byte, 100)
		for {
			n, err := r.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				got <- all.String()
				return
			}
		}
	}()
	for taken := false; !taken; { // until there is room again
		s.mu.Lock()
		taken = len(s.waiting) < 500
		s.mu.Unlock()
	}
	if _, err := s.Write([]byte("new\n")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	w.Close()
	next, missing, marks := 0, 0, 0
	for l := range strings.Lines(<-got) {
		var n int
		switch {
		case l == "new\n":
			next++
		case strings.HasPrefix(l, "…"):
			if _, err := fmt.Sscanf(l, "… %d writes were dropped", &n); err != nil {
				t.Fatal(l, err)
			}
			next, missing, marks = next+n, missing+n, marks+1
		case l == line(next):
			next++
		default:
			t.Fatalf("line %d is %q", next, l)
		}
	}
	if next != 501 || missing < 200 || marks == 0 {
		t.Errorf("%d writes are there or counted as missing, of 501; %d are missing", next, missing)
	}
}

// What was dropped last is told, too, although nothing is written after it.
func TestDroppedAtTheEnd(t *testing.T) {
	r, w := io.Pipe()
	s := New(w, 4)
	for _, text := range []string{"a\n", "too long\n", "too long, too\n"} {
		if _, err := s.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan string, 1)
	go func() { // ends with the pipe
		b, _ := io.ReadAll(r)
		got <- string(b)
	}()
	if err := s.Close(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	w.Close()
	const end = "… 2 writes were dropped here, because nobody read what was before …\n"
	if all := <-got; all != "a\n"+end {
		t.Errorf("%q", all)
	}
}

func TestClose(t *testing.T) {
	r, w := io.Pipe()
	s := New(w, 1000)
	_, _ = s.Write([]byte("x"))
	if err := s.Close(time.Millisecond); err == nil || !strings.Contains(err.Error(), "nobody has read") {
		t.Errorf("nobody reads: %v", err)
	}
	r.CloseWithError(errors.New("broken"))
	<-s.ended
	if _, err := s.Write([]byte("y")); err == nil || err.Error() != "broken" {
		t.Errorf("after a failure: %v", err)
	}
	if err := s.Close(time.Second); err == nil || err.Error() != "broken" {
		t.Errorf("closed after a failure: %v", err)
	}
}

func TestBlocks(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if Blocks(f) || !Blocks(w) {
		t.Errorf("a file blocks: %t; a pipe: %t", Blocks(f), Blocks(w))
	}
}
