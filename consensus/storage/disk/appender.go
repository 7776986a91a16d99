package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/internal/durable"
)

const (
	flushSize  = 256 << 10 // bytes of records that are written at once; a larger record is written alone
	maxReserve = 4         // old segments that are kept for reuse
	lengthSize = 8         // of the field with which a record begins; 0 is the end of the log
)

// segmentSize is the length at which the next segment begins. The setting of etcd's own log is used only if it is less,
// as in tests.
func segmentSize() int64 { return min(16<<20, wal.SegmentSizeBytes) }

// Record types of our own. etcd's decoder checks the checksums of any type, and leaves the rest to its caller.
//
// A group record says that the following records are of another group. It has the id of the group and the index of its
// last entry, u64 each, big endian. A segment begins with group 0, whose next index is in the name of the segment. So a
// log of one group has no such records, and etcd can read it. A forget record says that the current group has ended.
const (
	groupType  int64 = 16
	forgetType int64 = 17
)

// noGroup is the current group where every record needs a group record before it.
const noGroup = math.MaxUint64

// appender writes the log in etcd's format, so that etcd's decoder can read it. An entry is copied once on its way to
// the file. Without fsync it overwrites old segments, whose pages are still in memory: allocating pages for new ones
// costs several times as much as writing. See docs/decisions/0016.
type appender struct {
	dir     string
	fsync   bool
	owner   []byte
	groups  *groups // what the log holds; their states begin the next segment
	current uint64  // the group of the last record
	crc     uint32  // of all records
	buf     []byte  // records that are not yet in the file
	dirty   bool    // the file may hold data that is not synced
	prompt  bool    // the Save in progress is a SavePrompt

	segments []segment // all of the log, the oldest first
	file     *os.File  // the newest
	datasync datasync  // of the file, if fsync
	seq      uint64
	end      int64    // of the records in it
	reused   bool     // old data follow the records, behind zeros of lengthSize; else only zeros follow
	reserve  []string // old segments for reuse, under temporary names
}

// create begins a log.
func (a *appender) create() error {
	if err := a.prepare(); err != nil {
		return err
	}
	return a.begin(func() error {
		return a.snapshotRecord(&walpb.Snapshot{Index: new(uint64(0)), Term: new(uint64(0))})
	})
}

func (a *appender) prepare() error {
	if !a.fsync {
		return nil
	}
	return a.datasync.open()
}

// open continues a log at its end.
func (a *appender) open(list []segment, l *loaded) error {
	if err := a.prepare(); err != nil {
		return err
	}
	s := list[len(list)-1]
	a.segments, a.owner, a.crc, a.seq, a.end = list, l.owner, l.crc, s.seq, l.end
	if a.current = noGroup; l.current != nil {
		a.current = l.current.id
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

// size is the length of the newest segment, with what is not yet in the file.
func (a *appender) size() int64 { return a.end + int64(len(a.buf)) }

// use makes the following records those of a group.
func (a *appender) use(g *group) {
	if a.current == g.id {
		return
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], g.id)
	binary.BigEndian.PutUint64(b[8:], g.last())
	a.record(groupType, b[:], nil)
	a.current = g.id
}

// entry appends an entry of a group.
func (a *appender) entry(g *group, e *raftpb.Entry) error {
	a.use(g)
	a.record(wal.EntryType, entryHead(e), e.GetData())
	if len(a.buf) < flushSize {
		return nil
	}
	return a.flush()
}

// state appends the state of a group, if it has no record yet.
func (a *appender) state(g *group) error {
	if g == nil || !g.pending {
		return nil
	}
	g.pending = false
	a.use(g)
	return a.hardRecord(g.hard)
}

// forget says that a group has ended.
func (a *appender) forget(g *group) {
	a.use(g)
	a.record(forgetType, nil, nil)
	a.current = noGroup
}

// snapshot notes that a group has one.
func (a *appender) snapshot(g *group, s *walpb.Snapshot) error {
	a.use(g)
	return a.snapshotRecord(s)
}

func (a *appender) snapshotRecord(s *walpb.Snapshot) error {
	if err := walpb.ValidateSnapshotForWrite(s); err != nil {
		return err
	}
	b, err := proto.Marshal(s)
	if err == nil {
		a.record(wal.SnapshotType, b, nil)
	}
	return err
}

func (a *appender) hardRecord(hard *raftpb.HardState) error {
	b, err := proto.Marshal(hard)
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
	b := append(a.buf, make([]byte, lengthSize)...)
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(typ))
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(a.crc))
	if head != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.BytesType), uint64(len(head)+len(data)))
	}
	b = append(append(b, head...), data...)
	length := uint64(len(b) - start - lengthSize)
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
	for _, w := range a.writes() {
		if err := a.write(w.data, w.at); err != nil {
			return err
		}
	}
	a.end, a.dirty = to, true
	if a.buf = a.buf[:0]; cap(a.buf) > 4*flushSize {
		a.buf = nil
	}
	return nil
}

// write is one of the writes of a flush.
type write struct {
	data []byte
	at   int64
}

// writes returns the writes of a flush, in their order. In a reused segment the length of the first record is the last,
// over zeros, and zeros are written where the next one will be. So wherever they are cut off, the log ends with a whole
// record, and nothing of the old content seems to follow.
func (a *appender) writes() [2]write {
	if !a.reused {
		return [2]write{{a.buf, a.end}}
	}
	all := append(a.buf, make([]byte, lengthSize)...)
	a.buf = all[:len(a.buf)] // it may have grown
	return [2]write{{all[lengthSize:], a.end + lengthSize}, {all[:lengthSize], a.end}}
}

func (a *appender) write(b []byte, at int64) error {
	if a.prompt {
		n := writePrompt(a.file, b, at)
		b, at = b[n:], at+int64(n)
	}
	if len(b) == 0 {
		return nil
	}
	_, err := a.file.WriteAt(b, at)
	return err
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
	err := a.datasync.sync(a.file)
	a.dirty = err != nil
	return err
}

// finish ends a Save. What must not be lost is synced; other records wait for the next ones.
func (a *appender) finish(urgent bool) error {
	switch {
	case a.size() >= segmentSize():
		return a.cut()
	case urgent:
		return a.sync()
	}
	return nil
}

// cut ends the segment where its records end, and begins the next with the state of each group, because earlier
// segments may be released.
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
		for _, g := range *a.groups {
			a.use(g)
			if g.hard == nil {
				continue
			}
			if err := a.hardRecord(g.hard); err != nil {
				return err
			}
		}
		return nil
	})
}

// begin creates the next segment, atomically with its first records.
func (a *appender) begin(more func() error) error {
	path := filepath.Join(a.dir, "next"+temporary)
	n := len(a.reserve)
	if a.reused = n > 0; a.reused {
		path, a.reserve = a.reserve[n-1], a.reserve[:n-1]
	}
	var err error
	if a.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := fileutil.Preallocate(a.file, segmentSize(), true); err != nil {
		return err
	}
	a.end, a.current = 0, 0
	a.record(wal.CrcType, nil, nil)
	a.record(wal.MetadataType, a.owner, nil)
	if err := errors.Join(more(), a.sync()); err != nil {
		return err
	}
	next := segment{seq: a.seq, first: a.first()}
	next.path = filepath.Join(a.dir, next.name())
	a.segments = append(a.segments, next)
	if err := os.Rename(path, next.path); err != nil || !a.fsync {
		return err
	}
	return durable.Names(a.dir)
}

// first is the index of the next entry of group 0; the first segment has 0.
func (a *appender) first() uint64 {
	if a.seq == 0 {
		return 0
	}
	if i, ok := a.groups.search(0); ok {
		return (*a.groups)[i].last() + 1
	}
	return 1
}

// releaseBefore releases the segments before one with this number. The newest is kept. What makes the segments
// unnecessary must be durable.
func (a *appender) releaseBefore(seq uint64) error {
	if len(a.buf) > 0 || a.dirty && a.fsync {
		return errors.New("segments would be released before the log is synced")
	}
	for len(a.segments) > 1 && a.segments[0].seq < seq {
		if err := a.release(a.segments[0]); err != nil {
			return fmt.Errorf("remove an old segment of the log: %w", err)
		}
		a.segments = slices.Delete(a.segments, 0, 1)
	}
	return nil
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
	return errors.Join(err, a.datasync.close())
}
