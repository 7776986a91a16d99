package disk

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

// FuzzLoad has any bytes in a segment of the log, and in a snapshot: the log is loaded, or the error says what is
// damaged.
func FuzzLoad(f *testing.F) {
	dir := f.TempDir()
	d, _ := open(f, dir, quiet())
	must(f, d.Save([]storage.Batch{{Hard: hard(1, 1, 2), Entries: entries(1, 1, 3, 10)}}))
	must(f, d.Close())
	names, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	must(f, err)
	name := filepath.Base(names[0])
	segment, err := os.ReadFile(names[0])
	must(f, err)
	f.Add(segment[:1<<10])
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		d, err := Open(dir, owner, false, quiet())
		must(t, err)
		must(t, os.Mkdir(filepath.Join(dir, "wal"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "wal", name), b, 0o600))
		if _, err := d.Load(); err == nil && len(b) == 0 {
			t.Error("an empty segment is a log")
		}
		_ = d.Close() // also of a log that is not loaded
		path := filepath.Join(dir, "a.snap")
		header := binary.BigEndian.AppendUint32([]byte(snapshotMagic), crc32.Checksum(b, castagnoli))
		must(t, os.WriteFile(path, append(header, b...), 0o600))
		_, _ = readSnapshot(path)
	})
}
