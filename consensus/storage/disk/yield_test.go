package disk

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// On one processor the loop of the group goes on while a large snapshot is written.
func TestWritingSnapshotYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const pieces = 40
	d, _ := open(t, t.TempDir(), quiet())
	defer d.Close()
	large := snapshot(1, 1, strings.Repeat("holdfast", pieces*pieceBytes/8))
	var over atomic.Bool
	turns, ended := 0, make(chan bool)
	go func() { // until the snapshot is written
		for ; !over.Load(); turns++ {
			runtime.Gosched()
		}
		close(ended)
	}()
	err := d.WriteSnapshot(0, *large)
	over.Store(true)
	<-ended
	must(t, err)
	if turns < pieces { // each is read for the checksum, and written
		t.Errorf("others run %d times while %d pieces are written", turns, pieces)
	}
}
