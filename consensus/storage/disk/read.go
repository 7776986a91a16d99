package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// segment is one file of the log.
type segment struct {
	seq   uint64 // 0, 1, 2, …
	first uint64 // index of the next entry of group 0; 0 in the first segment
	path  string
}

func (s segment) name() string { return fmt.Sprintf("%016x-%016x.wal", s.seq, s.first) }

// segments lists the files of the log, the oldest first.
func segments(dir string) ([]segment, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal")) // sorted
	if err != nil {
		return nil, fmt.Errorf("list the log in %s: %w", dir, err)
	}
	var list []segment
	for _, path := range paths {
		s := segment{path: path}
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x-%016x.wal", &s.seq, &s.first); err == nil &&
			s.name() == filepath.Base(path) {
			list = append(list, s)
		}
	}
	return list, nil
}

// loaded is the content of the log.
type loaded struct {
	starts  map[uint64]snapshotFile // the snapshots after which the groups are read
	owner   []byte
	groups  map[uint64]*replica
	current *replica // of the following records; nil: a group record comes first
	reading segment
	end     int64  // of the complete records in the last segment
	crc     uint32 // of all records
	torn    error  // not nil: the last record is torn
}

// read reads all segments.
func (l *loaded) read(list []segment) error {
	for i, s := range list {
		if s.seq != list[0].seq+uint64(i) {
			return fmt.Errorf("segment %016x is missing", list[0].seq+uint64(i))
		}
		switch err := l.segment(s); {
		case errors.Is(err, io.ErrUnexpectedEOF) && i+1 == len(list):
			l.torn = err
		case err != nil && l.current != nil:
			return fmt.Errorf("%s: at a record of group %d: %w", s.path, l.current.id, err)
		case err != nil:
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if l.owner == nil {
		return errors.New("its beginning is missing")
	}
	return nil
}

func (l *loaded) segment(s segment) error {
	l.reading = s
	l.use(0, max(s.first, 1)-1)
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	records := wal.NewDecoder(fileutil.NewFileReader(f))
	before, r := l.crc, new(walpb.Record)
	for err = records.Decode(r); err == nil; err = records.Decode(r) {
		if r.GetType() == wal.CrcType {
			if before != 0 && r.GetCrc() != before {
				return wal.ErrCRCMismatch
			}
			records.UpdateCRC(r.GetCrc())
		} else if err = l.take(r); err != nil {
			return err
		}
		before = records.LastCRC()
	}
	l.crc, l.end = before, records.LastOffset()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take handles a record.
func (l *loaded) take(r *walpb.Record) error {
	data := r.GetData()
	switch r.GetType() {
	case wal.MetadataType:
		if l.owner != nil && !bytes.Equal(l.owner, data) {
			return errors.New("segments belong to different controllers")
		}
		l.owner = data
		return nil
	case groupType:
		if len(data) != 16 {
			return fmt.Errorf("a group record of %d bytes", len(data))
		}
		l.use(binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:]))
		return nil
	}
	if l.current == nil {
		return fmt.Errorf("a record of type %d and of no group", r.GetType())
	}
	switch r.GetType() {
	case wal.EntryType:
		e := new(raftpb.Entry)
		if err := proto.Unmarshal(data, e); err != nil {
			return err
		}
		l.current.entry(e, l.reading.seq)
	case wal.StateType:
		h := new(raftpb.HardState)
		if err := proto.Unmarshal(data, h); err != nil {
			return err
		}
		l.current.state(h)
	case wal.SnapshotType:
		s := new(walpb.Snapshot)
		if err := proto.Unmarshal(data, s); err != nil {
			return err
		}
		if start := l.current.start; s.GetIndex() == start.index && s.GetTerm() != start.term {
			l.current.wrong("the snapshot at %d is of term %d, not %d", s.GetIndex(), s.GetTerm(), start.term)
		}
	case forgetType:
		delete(l.groups, l.current.id)
		l.current = nil
	default:
		return fmt.Errorf("a record of type %d", r.GetType())
	}
	return nil
}

// use makes the following records those of a group, whose log ends with the entry last.
func (l *loaded) use(group, last uint64) {
	r := l.groups[group]
	if r == nil {
		start := l.starts[group]
		r = &replica{id: group, start: start, before: max(start.index, last)}
		l.groups[group] = r
	}
	if max(r.start.index, last) != r.last() {
		r.wrong("its log ends at entry %d before %s, and not at %d", r.last(), l.reading.name(), last)
	}
	l.current = r
}

// replica is what was read of the replica of one group.
type replica struct {
	id     uint64
	start  snapshotFile
	hard   *raftpb.HardState // nil: none
	before uint64            // the log ended here before the oldest segment: what is needed of that was carried forward
	old    map[uint64]stored // entries up to there, by index
	new    []stored          // those that follow, without gaps
	err    error             // the first thing that is wrong. It does not matter if the replica is forgotten later
}

// stored is an entry, and the last segment that has it.
type stored struct {
	entry   *raftpb.Entry
	segment uint64
}

func (r *replica) wrong(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("group %d: %w", r.id, fmt.Errorf(format, args...))
	}
}

func (r *replica) last() uint64 { return r.before + uint64(len(r.new)) }

// entry handles an entry record: the next entry, one that was carried forward, or one that truncates the log.
func (r *replica) entry(e *raftpb.Entry, segment uint64) {
	s, i := stored{e, segment}, e.GetIndex()
	switch {
	case e.GetTerm() == 0:
		r.truncate(i - 1)
	case i <= r.start.index:
	case i == r.last()+1:
		r.new = append(r.new, s)
	case i > r.last():
		r.wrong("entry %d follows entry %d", i, r.last())
	case i > r.before:
		if have := r.new[i-r.before-1].entry.GetTerm(); have != e.GetTerm() {
			r.wrong("entry %d of term %d is repeated with term %d", i, have, e.GetTerm())
		}
		r.new[i-r.before-1] = s
	default:
		if r.old == nil {
			r.old = make(map[uint64]stored)
		}
		r.old[i] = s
	}
}

// state handles a state record. Only a snapshot from the leader commits more than the log has, and replaces it.
func (r *replica) state(h *raftpb.HardState) {
	r.hard = h
	if c := h.GetCommit(); c > r.last() {
		r.before, r.old, r.new = c, nil, nil
	}
}

// truncate removes the entries after index.
func (r *replica) truncate(index uint64) {
	switch {
	case index >= r.last():
	case index >= r.before:
		r.new = r.new[:index-r.before]
	default:
		maps.DeleteFunc(r.old, func(i uint64, _ stored) bool { return i > index })
		r.before, r.new = max(index, r.start.index), nil
	}
}

// empty reports whether there is no such replica: nothing was saved of it, or it was forgotten.
func (r *replica) empty() bool { return r.hard == nil && r.last() == r.start.index }

// group returns what was read, if it is complete.
func (r *replica) group() (*group, error) {
	if r.err != nil {
		return nil, r.err
	}
	g := &group{id: r.id, hard: r.hard, snapshot: r.start.index}
	for i := r.start.index + 1; i <= r.before; i++ {
		s, ok := r.old[i]
		if !ok {
			return nil, fmt.Errorf("entry %d of group %d is missing", i, r.id)
		}
		g.append(s.entry, s.segment)
	}
	for _, s := range r.new {
		g.append(s.entry, s.segment)
	}
	return g, nil
}
