package audit

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNobodyReads: an audit to a pipe that nobody reads does not hold up the loop that writes it.
func TestNobodyReads(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "audit")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // it never reads
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a, err := Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	entry := entryOf(t)
	for index := range uint64(2000) { // twice what a pipe takes, at least
		if err := a.Append(1, index, entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err == nil {
		t.Error("all was written, though nobody reads")
	}
}

// TestCloseAfterFailure: a file that could not be written is closed, and Close says why.
func TestCloseAfterFailure(t *testing.T) {
	a, err := Open("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	entry := entryOf(t)
	await.Until(t, "a write to fail", func() bool { return a.Append(1, 1, entry) != nil })
	if err := a.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closed: %v", err)
	}
	if _, err := a.f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
}

// entryOf returns an entry with one event.
func entryOf(t *testing.T) []byte {
	t.Helper()
	c, err := ledger.New(nil, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	up := experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
	if err := c.Lead(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Event(1, 1, 1, up); err != nil {
		t.Fatal(err)
	}
	entry, ok := c.Cut()
	if !ok {
		t.Fatal("there is no entry")
	}
	return entry
}
