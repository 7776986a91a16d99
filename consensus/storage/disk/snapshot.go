package disk

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/internal/durable"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A snapshot file is: magic | CRC-32C of everything after it, u32 | length of the raftpb.Snapshot, u32 |
// raftpb.Snapshot | state. Numbers are big endian.
const (
	snapshotMagic  = "HFSNAP01"
	snapshotHeader = len(snapshotMagic) + 8
	temporary      = ".tmp"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type snapshotFile struct{ group, term, index uint64 }

func (f snapshotFile) name() string {
	return fmt.Sprintf("%016x-%016x-%016x", f.group, f.term, f.index)
}

// WriteSnapshot writes the file under a temporary name first, so that it is complete or missing.
func (d *Disk) WriteSnapshot(group uint64, s storage.Snapshot) error {
	meta := s.Raft.GetMetadata()
	path := filepath.Join(d.snapDir, snapshotFile{group, meta.GetTerm(), meta.GetIndex()}.name())
	err := d.writeFile(path, s)
	if err == nil {
		return nil
	}
	return full(d.dir, errors.Join(fmt.Errorf("write snapshot %s: %w", path, err), os.RemoveAll(path+temporary)))
}

func (d *Disk) writeFile(path string, s storage.Snapshot) error {
	raft, err := proto.Marshal(s.Raft)
	if err != nil {
		return err
	}
	head := append(make([]byte, 0, snapshotHeader+len(raft)), snapshotMagic...)
	head = binary.BigEndian.AppendUint32(head, 0)
	head = binary.BigEndian.AppendUint32(head, uint32(len(raft)))
	head = append(head, raft...)
	crc := crc32.Checksum(head[len(snapshotMagic)+4:], castagnoli)
	for piece := range slices.Chunk(s.State, pieceBytes) {
		crc = crc32.Update(crc, castagnoli, piece)
		runtime.Gosched()
	}
	binary.BigEndian.PutUint32(head[len(snapshotMagic):], crc)

	return writeWhole(path, d.fsync, head, s.State)
}

// pieceBytes of a snapshot are read or written at a time, in less than a millisecond. Then others run: on one processor
// that is busy, a leader that writes a hundred megabytes at once sends no heartbeats for a second.
const pieceBytes = 256 << 10

// writeWhole makes a file that is complete or missing, and durable if it is to be synced.
func writeWhole(path string, fsync bool, parts ...[]byte) error {
	f, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = writeParts(f, parts)
	if err == nil && fsync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+temporary, path); err != nil || !fsync {
		return err
	}
	return durable.Names(filepath.Dir(path))
}

func writeParts(f *os.File, parts [][]byte) error {
	for _, p := range parts {
		for piece := range slices.Chunk(p, pieceBytes) {
			if _, err := f.Write(piece); err != nil {
				return err
			}
			runtime.Gosched()
		}
	}
	return nil
}

func readSnapshot(path string) (storage.Snapshot, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return storage.Snapshot{}, err
	}
	if len(b) < snapshotHeader || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return storage.Snapshot{}, fmt.Errorf("%s is not a snapshot", path)
	}
	sum, body := binary.BigEndian.Uint32(b[len(snapshotMagic):]), b[len(snapshotMagic)+4:]
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return storage.Snapshot{}, fmt.Errorf("%s is damaged: checksum %08x instead of %08x", path, got, sum)
	}
	n := binary.BigEndian.Uint32(body)
	if body = body[4:]; uint64(n) > uint64(len(body)) {
		return storage.Snapshot{}, fmt.Errorf("%s is damaged: %d bytes where %d are announced", path, len(body), n)
	}
	s := storage.Snapshot{Raft: new(raftpb.Snapshot), State: body[n:]}
	if err := proto.Unmarshal(body[:n], s.Raft); err != nil {
		return storage.Snapshot{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return s, nil
}

// snapshots lists the files of each group, the newest first.
func (d *Disk) snapshots() (map[uint64][]snapshotFile, error) {
	entries, err := os.ReadDir(d.snapDir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	groups := make(map[uint64][]snapshotFile)
	for _, e := range entries {
		var f snapshotFile
		_, err := fmt.Sscanf(e.Name(), "%016x-%016x-%016x", &f.group, &f.term, &f.index)
		if err == nil && f.name() == e.Name() {
			groups[f.group] = append(groups[f.group], f)
		}
	}
	for _, files := range groups {
		slices.SortFunc(files, func(a, b snapshotFile) int { return cmp.Compare(b.index, a.index) })
	}
	return groups, nil
}

// removeSnapshots removes the snapshots of a group that are older than the one at index.
func (d *Disk) removeSnapshots(group, index uint64) error {
	groups, err := d.snapshots()
	if err != nil {
		return err
	}
	for _, f := range groups[group] {
		if f.index >= index {
			continue
		}
		if err := os.Remove(filepath.Join(d.snapDir, f.name())); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

// removeTemporary removes unfinished files of an earlier process. A new segment that was being prepared may contain
// data already, which the log would not overwrite completely.
func (d *Disk) removeTemporary() error {
	for _, dir := range []string{d.snapDir, d.walDir} {
		files, err := filepath.Glob(filepath.Join(dir, "*"+temporary))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("remove what was not finished: %w", err)
			}
		}
	}
	return nil
}
