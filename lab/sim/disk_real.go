package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	logdisk "github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// realDisk is storage/disk in a folder of its own. A process ends without a last word to its log: what
// it had not yet handed to the system is undone.
type realDisk struct {
	dir    string
	fsync  bool
	d      *logdisk.Disk // nil: closed
	honest []file        // what restore goes back to
}

// sector is written whole or not at all.
const sector = 512

var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = 64 << 10 })

// newRealDisk keeps its files in memory if the system can do that.
func newRealDisk(fsync bool) (*realDisk, error) {
	smallSegments()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "holdfast-sim-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	return &realDisk{dir: dir, fsync: fsync}, nil
}

func (r *realDisk) load() (map[uint64]storage.Saved, error) {
	if err := r.stop(); err != nil {
		return nil, err
	}
	saved, err := r.open()
	if err != nil { // the folder has another name in each run
		err = errors.New(strings.ReplaceAll(err.Error(), r.dir, "DIR"))
	}
	return saved, err
}

func (r *realDisk) open() (map[uint64]storage.Saved, error) {
	d, err := logdisk.Open(r.dir, logdisk.Owner{Cluster: "sim", ID: 1}, r.fsync, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	saved, err := d.Load()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	r.d = d
	return saved, nil
}

func (r *realDisk) save(batches []storage.Batch) error {
	if err := r.d.Save(batches); err != nil {
		return err
	}
	return r.d.Mark()
}

func (r *realDisk) writeSnapshot(group uint64, s storage.Snapshot) error {
	return r.d.WriteSnapshot(group, s)
}

func (r *realDisk) stop() error { return r.end(func(now []file) []file { return now }) }

// end closes the log and leaves the files as they would be without that.
func (r *realDisk) end(as func(now []file) []file) error {
	if r.d == nil {
		return nil
	}
	now, err := r.read()
	if err != nil {
		return err
	}
	if err = r.d.Close(); err != nil {
		return err
	}
	r.d = nil
	return r.write(as(now))
}

func (r *realDisk) tear(batches []storage.Batch, random *rand.Rand) error {
	parts := settled(batches)
	if len(parts) > 1 {
		parts = parts[:1+random.IntN(len(parts))]
	}
	for _, p := range parts[:len(parts)-1] {
		if err := r.save(p); err != nil {
			return err
		}
	}
	before, err := r.read()
	if err != nil {
		return err
	}
	if err := r.save(parts[len(parts)-1]); err != nil {
		return err
	}
	return r.end(func(after []file) []file { return torn(before, after, random) })
}

// settled splits batches where storage/disk syncs and removes files: after a snapshot, and after the end of a replica.
// A file that is made and removed by the same save would otherwise never be seen.
func settled(batches []storage.Batch) (parts [][]storage.Batch) {
	from := 0
	for i, b := range batches {
		if i+1 == len(batches) || b.Snapshot != nil || b.Compact != nil || b.Forget {
			parts = append(parts, batches[from:i+1])
			from = i + 1
		}
	}
	return parts
}

// tearSnapshot leaves the whole file, a part of it under its temporary name, or nothing.
func (r *realDisk) tearSnapshot(group uint64, s storage.Snapshot, random *rand.Rand) error {
	switch {
	case r.d == nil:
		return nil
	case random.IntN(3) == 0:
		return r.d.WriteSnapshot(group, s)
	case random.IntN(2) == 0:
		meta := s.Raft.GetMetadata()
		name := fmt.Sprintf("%016x-%016x-%016x.tmp", group, meta.GetTerm(), meta.GetIndex())
		return os.WriteFile(filepath.Join(r.dir, "snap", name), s.State[:random.IntN(len(s.State)+1)], 0o600)
	}
	return nil
}

// reboot makes the mark of an unsynced log that of another boot.
func (r *realDisk) reboot() error {
	mark := filepath.Join(r.dir, "unsynced")
	if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) { // nothing was saved
		return nil
	}
	return os.WriteFile(mark, []byte("before\n"), 0o600)
}

func (r *realDisk) remember() (err error) {
	r.honest, err = r.read()
	return err
}

func (r *realDisk) restore() error { return r.write(r.honest) }
func (r *realDisk) remove() error  { return errors.Join(r.stop(), os.RemoveAll(r.dir)) }

// flip changes a byte of a snapshot, or of what a record of the log holds.
func (r *realDisk) flip(random *rand.Rand) error {
	files, err := r.read()
	if err != nil {
		return err
	}
	logs := slices.IndexFunc(files, func(f file) bool { return strings.HasPrefix(f.name, "wal") })
	if logs < 0 {
		return errors.New("there is no log to be damaged")
	}
	at := 0
	last := len(files) - 1
	for !strings.HasPrefix(files[last].name, "wal") {
		last--
	}
	f := files[last]                      // the newest segment
	if logs == 1 && random.IntN(4) == 0 { // of two, one may not count
		f = files[0]
		at = random.IntN(len(f.data))
	} else {
		contents := contents(f.data)
		if len(contents) == 0 {
			return fmt.Errorf("there is no record in %s", f.name)
		}
		c := contents[random.IntN(len(contents))]
		at = c[0] + random.IntN(c[1]-c[0])
	}
	f.data[at] ^= 1 << random.IntN(8)
	return r.write(files)
}

// contents finds what the records of a segment hold: from, to. A record is its length, of eight
// bytes with the length of the padding in the highest, and a walpb.Record, whose data come last.
func contents(segment []byte) (all [][2]int) {
	for at := 0; at+8 <= len(segment); {
		size := int(binary.LittleEndian.Uint64(segment[at:]) & (1<<56 - 1))
		from, to := at+8, at+8+size
		at = from + (size+7)/8*8
		if size == 0 || at > len(segment) { // the end, perhaps torn
			break
		}
		var r walpb.Record
		if err := proto.Unmarshal(segment[from:to], &r); err == nil && len(r.Data) > 0 && !hasZeroSector(segment, from,
			at) {
			all = append(all, [2]int{to - len(r.Data), to})
		}
	}
	return all
}

// hasZeroSector reports whether all of what lies between from and to in some sector is zero. If such a
// record is damaged, the log takes it for one that was cut off.
func hasZeroSector(segment []byte, from, to int) bool {
	for from < to {
		end := min(to, (from/sector+1)*sector)
		if len(bytes.TrimLeft(segment[from:end], "\x00")) == 0 {
			return true
		}
		from = end
	}
	return false
}

// file is one that counts, with its name in the folder.
type file struct {
	name string
	data []byte
}

// read returns the snapshots and then the segments, each from the oldest, and last what says how much of them is
// synced.
func (r *realDisk) read() (files []file, err error) {
	for _, pattern := range []string{"snap/*-????????????????", "wal/*.wal", "synced"} {
		paths, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths { // sorted
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name, _ := filepath.Rel(r.dir, path)
			files = append(files, file{name, data})
		}
	}
	return files, nil
}

// write makes the folder hold these files.
func (r *realDisk) write(files []file) error {
	old, err := r.read()
	if err != nil {
		return err
	}
	for _, f := range old {
		if find(files, f.name) == nil {
			err = errors.Join(err, os.Remove(filepath.Join(r.dir, f.name)))
		}
	}
	for _, f := range files {
		if o := find(old, f.name); o == nil || !bytes.Equal(o.data, f.data) {
			err = errors.Join(err, os.WriteFile(filepath.Join(r.dir, f.name), f.data, 0o600))
		}
	}
	return err
}

func find(files []file, name string) *file {
	for i := range files {
		if files[i].name == name {
			return &files[i]
		}
	}
	return nil
}

// torn is what is there when a process ends on the way from before to after: files are written in their order up to a
// random sector, and removed when all is written. In a segment that is written over, the length of the first record
// comes last.
func torn(before, after []file, random *rand.Rand) []file {
	total := 1 // for the removal
	for _, f := range after {
		from, to := f.changed(before)
		total += (to - from + sector - 1) / sector
	}
	left := random.IntN(total + 1)
	var now []file
	for _, f := range after {
		from, to := f.changed(before)
		size := (to - from + sector - 1) / sector
		switch {
		case left >= size:
			now = append(now, f)
		case find(before, f.name) != nil:
			now = append(now, f.headless(find(before, f.name).data, from+left*sector))
		case left > 0 && strings.HasPrefix(f.name, "wal"): // a new snapshot gets its name when it is whole
			now = append(now, f.cut(make([]byte, len(f.data)), from+left*sector))
		}
		left -= min(left, size)
	}
	for _, f := range before {
		if find(after, f.name) == nil && left == 0 {
			now = append(now, f)
		}
	}
	return now
}

// changed is the part that is not as before, from the beginning of a sector.
func (f file) changed(before []file) (from, to int) {
	old := find(before, f.name)
	if old == nil {
		return 0, len(bytes.TrimRight(f.data, "\x00"))
	}
	from = f.same(old.data)
	if to = len(f.data); len(old.data) >= to {
		for to > from && f.data[to-1] == old.data[to-1] {
			to--
		}
		if len(old.data) > len(f.data) { // it was truncated after that
			to = max(to, from+1)
		}
	}
	return from / sector * sector, to
}

// same is how many bytes at the beginning are as before.
func (f file) same(old []byte) (n int) {
	for n < min(len(f.data), len(old)) && f.data[n] == old[n] {
		n++
	}
	return n
}

// headless is cut. If there are old records behind, the log has not written the length of the first new one yet.
func (f file) headless(old []byte, at int) file {
	now := f.cut(old, at)
	first := f.same(old) &^ 7 // records begin at multiples of 8
	if strings.HasPrefix(f.name, "wal") && first+8 <= len(old) && len(bytes.TrimRight(old[first:], "\x00")) > 0 {
		copy(now.data[first:], old[first:first+8])
	}
	return now
}

// cut has the new bytes up to at, and the old ones behind.
func (f file) cut(old []byte, at int) file {
	data := slices.Clone(f.data[:min(at, len(f.data))])
	if len(old) > len(data) {
		data = append(data, old[len(data):]...)
	}
	return file{f.name, data}
}
