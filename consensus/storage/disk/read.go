package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	first uint64 // index of its first entry
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

// loaded is the content of the log after a snapshot.
type loaded struct {
	start   *walpb.Snapshot
	owner   []byte
	hard    *raftpb.HardState
	entries []*raftpb.Entry
	index   uint64 // of the last entry or snapshot
	end     int64  // of the complete records in the last segment
	crc     uint32 // of all records
	torn    error  // not nil: the last record is torn
}

// read reads the segments from l.start on.
func (l *loaded) read(list []segment) error {
	l.hard = new(raftpb.HardState)
	for len(list) > 1 && list[1].first <= l.start.GetIndex() {
		list = list[1:]
	}
	if len(list) == 0 || list[0].first > l.start.GetIndex() {
		return fmt.Errorf("no segment reaches back to entry %d", l.start.GetIndex())
	}
	for i, s := range list {
		if s.seq != list[0].seq+uint64(i) {
			return fmt.Errorf("segment %016x is missing", list[0].seq+uint64(i))
		}
		switch err := l.segment(s); {
		case errors.Is(err, io.ErrUnexpectedEOF) && i+1 == len(list):
			l.torn = err
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
	switch r.GetType() {
	case wal.EntryType:
		return l.entry(r.GetData())
	case wal.StateType:
		l.hard = new(raftpb.HardState)
		return proto.Unmarshal(r.GetData(), l.hard)
	case wal.MetadataType:
		if l.owner != nil && !bytes.Equal(l.owner, r.GetData()) {
			return errors.New("segments belong to different members")
		}
		l.owner = r.GetData()
	case wal.SnapshotType:
		s := new(walpb.Snapshot)
		if err := proto.Unmarshal(r.GetData(), s); err != nil {
			return err
		}
		l.index = max(l.index, s.GetIndex())
		if s.GetIndex() == l.start.GetIndex() && s.GetTerm() != l.start.GetTerm() {
			return fmt.Errorf("the snapshot at %d is of term %d, not %d", s.GetIndex(), s.GetTerm(), l.start.GetTerm())
		}
	default:
		return fmt.Errorf("a record of type %d", r.GetType())
	}
	return nil
}

// entry handles an entry, which replaces those from its index on.
func (l *loaded) entry(b []byte) error {
	e := new(raftpb.Entry)
	if err := proto.Unmarshal(b, e); err != nil {
		return err
	}
	l.index = e.GetIndex()
	if l.index <= l.start.GetIndex() {
		return nil
	}
	keep := l.index - l.start.GetIndex() - 1
	if keep > uint64(len(l.entries)) {
		return fmt.Errorf("entry %d follows entry %d", l.index, l.start.GetIndex()+uint64(len(l.entries)))
	}
	l.entries = append(l.entries[:keep], e)
	return nil
}
