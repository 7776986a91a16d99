package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	flushSize  = 256 << 10 // bytes of records that are written at once; a larger record is written alone
	maxReserve = 4         // old segments that are kept for reuse
)

// segmentSize is the length at which the next segment begins. The setting of etcd's own log is used only if it is less,
// as in tests.
func segmentSize() int64 { return min(16<<20, wal.SegmentSizeBytes) }

// appender writes the log in etcd's format, so that etcd's decoder can read it. An entry is copied once on its way to
// the file. Without fsync it overwrites old segments, whose pages are still in memory: allocating pages for new ones
// costs several times as much as writing. See docs/decisions/0016.
type appender struct {
	dir   string
	fsync bool
	owner []byte
	hard  *raftpb.HardState // the newest, with which the next segment begins; nil: none was saved
	index uint64            // of the last entry; the next segment is named by it
	crc   uint32            // of all records
	buf   []byte            // records that are not yet in the file
	dirty bool              // the file may hold data that is not synced

	file    *os.File // the newest segment
	seq     uint64
	end     int64    // of the records in it
	zeros   int64    // from end to here are zeros; in a reused segment old data follow
	reserve []string // old segments for reuse, under temporary names
}

// create begins a log.
func (a *appender) create() error {
	return a.begin(func() error {
		return a.snapshotRecord(&walpb.Snapshot{Index: new(uint64(0)),
			Term: new(uint64(0))})
	})
}

// open continues a log at its end.
func (a *appender) open(s segment, l *loaded) error {
	a.owner, a.index, a.crc, a.seq, a.end, a.zeros = l.owner, l.index, l.crc, s.seq, l.end, math.MaxInt64
	if l.hard.GetTerm() != 0 {
		a.hard = l.hard
	}
	a.dirty = true // a killed process may have left unsynced data
	var err error
	if a.file, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil {
		return err
	}
	if err = a.file.Truncate(a.end); err == nil { // old data would be mixed up with new records
		err = fileutil.Preallocate(a.file, segmentSize(), true)
	}
	if err == nil && a.fsync {
		err = a.file.Sync()
	}
	return err
}

// save appends, and syncs what must not be lost: entries, terms and votes. A commit index is synced with the next of
// those.
func (a *appender) save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	urgent := len(entries) > 0
	for _, e := range entries {
		a.record(wal.EntryType, entryHead(e), e.GetData())
		a.index = e.GetIndex()
		if len(a.buf) >= flushSize {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
	if !raft.IsEmptyHardState(hard) {
		urgent = urgent || raft.MustSync(hard, a.before(), 0)
		a.hard = hard
		if err := a.hardRecord(); err != nil {
			return err
		}
	}
	switch {
	case a.end+int64(len(a.buf)) >= segmentSize():
		return a.cut()
	case urgent:
		return a.sync()
	}
	return nil
}

func (a *appender) before() *raftpb.HardState {
	if a.hard == nil {
		return new(raftpb.HardState)
	}
	return a.hard
}

// snapshot notes that there is one.
func (a *appender) snapshot(s *walpb.Snapshot) error {
	if err := a.snapshotRecord(s); err != nil {
		return err
	}
	return a.sync()
}

func (a *appender) snapshotRecord(s *walpb.Snapshot) error {
	if err := walpb.ValidateSnapshotForWrite(s); err != nil {
		return err
	}
	b, err := proto.Marshal(s)
	if err != nil {
		return err
	}
	a.record(wal.SnapshotType, b, nil)
	a.index = max(a.index, s.GetIndex())
	return nil
}

func (a *appender) hardRecord() error {
	b, err := proto.Marshal(a.hard)
	if err == nil {
		a.record(wal.StateType, b, nil)
	}
	return err
}

// entryHead is an entry in protobuf encoding without the data at its end.
func entryHead(e *raftpb.Entry) []byte {
	b := make([]byte, 0, 40)
	if e.Type != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(*e.Type))
	}
	if e.Term != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), *e.Term)
	}
	if e.Index != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), *e.Index)
	}
	if e.Data != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.BytesType), uint64(len(e.Data)))
	}
	return b
}

// record appends a record to the buffer: the length of a walpb.Record, with that of the padding in the highest byte;
// the walpb.Record, whose data are head and data; and padding to a multiple of eight bytes, so that a length is never
// torn.
func (a *appender) record(typ int64, head, data []byte) {
	a.crc = crc32.Update(crc32.Update(a.crc, castagnoli, head), castagnoli, data)
	start := len(a.buf)
	b := append(a.buf, make([]byte, 8)...)
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(typ))
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(a.crc))
	if head != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.BytesType), uint64(len(head)+len(data)))
	}
	b = append(append(b, head...), data...)
	length := uint64(len(b) - start - 8)
	if padding := -length & 7; padding > 0 {
		b = append(b, make([]byte, padding)...)
		length |= (0x80 | padding) << 56
	}
	binary.LittleEndian.PutUint64(b[start:], length)
	a.buf = b
}

// flush writes the buffer.
func (a *appender) flush() error {
	to := a.end + int64(len(a.buf))
	if err := a.clear(to); err != nil {
		return err
	}
	if _, err := a.file.WriteAt(a.buf, a.end); err != nil {
		return err
	}
	a.end, a.dirty = to, true
	if a.buf = a.buf[:0]; cap(a.buf) > 4*flushSize {
		a.buf = nil
	}
	return nil
}

var blank [flushSize]byte

// clear zeros the content of a reused segment beyond the end of the next write. If that write is torn, zeros follow as
// in a new segment, and nothing that looks like a record.
func (a *appender) clear(to int64) error {
	for a.zeros < to+8 {
		info, err := a.file.Stat()
		if err != nil {
			return err
		}
		n := min(info.Size()-a.zeros, int64(len(blank)))
		if n <= 0 {
			a.zeros = math.MaxInt64
			break
		}
		if _, err := a.file.WriteAt(blank[:n], a.zeros); err != nil {
			return err
		}
		a.zeros += n
	}
	return nil
}

// sync makes all records durable.
func (a *appender) sync() error {
	if len(a.buf) > 0 {
		if err := a.flush(); err != nil {
			return err
		}
	}
	if !a.dirty || !a.fsync {
		return nil
	}
	err := fileutil.Fdatasync(a.file)
	a.dirty = err != nil
	return err
}

// cut ends the segment where its records end, and begins the next.
func (a *appender) cut() error {
	if err := a.flush(); err != nil {
		return err
	}
	if err := a.file.Truncate(a.end); err != nil {
		return err
	}
	err := errors.Join(a.sync(), a.file.Close())
	if a.file = nil; err != nil {
		return err
	}
	a.seq++
	return a.begin(func() error {
		if a.hard == nil {
			return nil
		}
		return a.hardRecord()
	})
}

// begin creates the next segment, atomically with its first records.
func (a *appender) begin(more func() error) error {
	path := filepath.Join(a.dir, "next"+temporary)
	a.zeros = math.MaxInt64
	if n := len(a.reserve); n > 0 {
		path, a.reserve, a.zeros = a.reserve[n-1], a.reserve[:n-1], 0
	}
	var err error
	if a.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := fileutil.Preallocate(a.file, segmentSize(), true); err != nil {
		return err
	}
	a.end = 0
	a.record(wal.CrcType, nil, nil)
	a.record(wal.MetadataType, a.owner, nil)
	if err := errors.Join(more(), a.sync()); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(a.dir, segment{seq: a.seq, first: a.first()}.name())); err != nil ||
		!a.fsync {
		return err
	}
	return syncDir(a.dir)
}

// first is the index of the first entry that a new segment will hold; the first segment has 0.
func (a *appender) first() uint64 {
	if a.seq == 0 {
		return 0
	}
	return a.index + 1
}

// release keeps a segment that is no longer needed for reuse. Not if the log is synced: after a power failure some of
// the old records might follow the new ones, where zeros had been written.
func (a *appender) release(s segment) error {
	if a.fsync || len(a.reserve) == maxReserve {
		return os.Remove(s.path)
	}
	spare := s.path + temporary
	if err := os.Rename(s.path, spare); err != nil {
		return err
	}
	a.reserve = append(a.reserve, spare)
	return nil
}

// close closes the file without a last sync.
func (a *appender) close() (err error) {
	for _, spare := range a.reserve {
		err = errors.Join(err, os.Remove(spare))
	}
	if a.file != nil {
		err = errors.Join(err, a.file.Close())
	}
	return err
}
