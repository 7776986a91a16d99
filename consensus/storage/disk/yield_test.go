package disk

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

// On one processor the loop of the group goes on while a large snapshot is written.
func TestWritingSnapshotYields(t *testing.T) {
	const pieces = 40
	d, _ := open(t, t.TempDir(), quiet())
	defer d.Close()
	large := snapshot(1, 1, strings.Repeat("holdfast", pieces*pieceBytes/8))
	var err error
	turns := await.Turns(func() { err = d.WriteSnapshot(0, *large) })
	must(t, err)
	if turns < pieces { // each is read for the checksum, and written
		t.Errorf("others run %d times while %d pieces are written", turns, pieces)
	}
}
