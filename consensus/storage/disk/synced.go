package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/durable"
)

// DIR/synced records for each segment how many bytes of it are synced, and their checksum. If some of these are
// missing, that is damage; only what follows them may be a torn write. The checksum covers what those of the records
// leave out: lengths and types.
//
// The file is one sector, written in place, so that after a power failure it has either the old or the new content. It
// is written after the log, and may be older; what it says about a segment stays true. It is: magic | CRC-32C of
// everything after it, u32 | number of segments, u32 | for each, the oldest first: its sequence, u64; size, u64;
// CRC-32C, u32 | zeros. Numbers are big endian.
const (
	syncedFile   = "synced"
	syncedMagic  = "HFSYNC01"
	syncedSize   = 512
	syncedHeader = len(syncedMagic) + 8
	partSize     = 20
	maxParts     = (syncedSize - syncedHeader) / partSize // the newest ones are recorded
)

// part is the synced beginning of a segment.
type part struct {
	segment uint64
	size    int64
	sum     uint32
}

// synced writes that file. It finds the ends of the records in the segments by itself.
type synced struct {
	dir   string
	fsync bool
	parts []part
	tail  *os.File // the segment of the last part, to read; nil: not open
	file  *os.File // nil: not open
	buf   []byte
}

// path is the path of a segment among those of the log; "" if it is not there.
func path(log []segment, seq uint64) string {
	if i := slices.IndexFunc(log, func(s segment) bool { return s.seq == seq }); i >= 0 {
		return log[i].path
	}
	return ""
}

// load reads the file, if there is one.
func (s *synced) load() error {
	path := filepath.Join(s.dir, syncedFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // of a log without a Mark
	}
	if err != nil {
		return fmt.Errorf("read how much of the log is synced: %w", err)
	}
	if len(bytes.TrimLeft(b, "\x00")) == 0 {
		return nil // the machine failed when the file was created
	}
	if len(b) != syncedSize || string(b[:len(syncedMagic)]) != syncedMagic ||
		crc32.Checksum(b[len(syncedMagic)+4:], castagnoli) != binary.BigEndian.Uint32(b[len(syncedMagic):]) {
		return fmt.Errorf("%s is damaged, and so the log may be; %s", path, remedy)
	}
	n := min(int(binary.BigEndian.Uint32(b[len(syncedMagic)+4:])), maxParts)
	for b = b[syncedHeader:]; len(s.parts) < n; b = b[partSize:] {
		s.parts = append(s.parts, part{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:])),
			binary.BigEndian.Uint32(b[16:])})
	}
	return nil
}

// verify compares the log with what was synced.
func (s *synced) verify(log []segment) error {
	if len(log) == 0 {
		return errors.New("it has no segment")
	}
	s.purge(log[0].seq)
	for _, p := range s.parts {
		path := path(log, p.segment)
		if path == "" {
			return fmt.Errorf("segment %016x is missing", p.segment)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		sum := crc32.New(castagnoli)
		n, err := io.CopyN(sum, f, p.size)
		f.Close()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s has %d bytes, and %d were synced", path, n, p.size)
		case err != nil:
			return err
		case sum.Sum32() != p.sum:
			return fmt.Errorf("the first %d bytes of %s are not those that were synced: checksum %08x instead of %08x",
				p.size, path, sum.Sum32(), p.sum)
		}
	}
	return nil
}

// mark records that all records of the log are synced.
func (s *synced) mark(log []segment) error {
	if err := s.advance(log); err != nil {
		return fmt.Errorf("read the log of %s again: %w", s.dir, err)
	}
	if err := s.write(); err != nil {
		return fmt.Errorf("note in %s how much of the log is synced: %w", s.dir, err)
	}
	return nil
}

// advance adds what was written since the last call.
func (s *synced) advance(log []segment) error {
	first := log[0].seq
	if s.purge(first); len(s.parts) == 0 {
		s.parts = []part{{segment: first}}
		if err := s.closeTail(); err != nil {
			return err
		}
	}
	for {
		last := &s.parts[len(s.parts)-1]
		if s.tail == nil {
			var err error
			if s.tail, err = os.Open(path(log, last.segment)); err != nil {
				return err
			}
		}
		ended, err := s.read(last)
		if err != nil || !ended {
			return err
		}
		if path(log, last.segment+1) == "" {
			return nil
		}
		s.parts = append(s.parts[max(0, len(s.parts)+1-maxParts):], part{segment: last.segment + 1})
		if err := s.closeTail(); err != nil {
			return err
		}
	}
}

// purge removes the parts of segments before the first.
func (s *synced) purge(first uint64) {
	for len(s.parts) > 0 && s.parts[0].segment < first {
		s.parts = s.parts[1:]
	}
}

func (s *synced) closeTail() error {
	if s.tail == nil {
		return nil
	}
	f := s.tail
	s.tail = nil
	return f.Close()
}

// read adds the records after p. A file that ends with them is full, or was truncated; otherwise zeros follow.
func (s *synced) read(p *part) (ended bool, err error) {
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	for {
		n, err := s.tail.ReadAt(s.buf, p.size)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		whole, next := records(s.buf[:n])
		if whole == 0 && next > len(s.buf) && err == nil { // the record exceeds the buffer
			s.buf = make([]byte, next)
			continue
		}
		if whole == 0 {
			return n == 0, nil
		}
		p.sum = crc32.Update(p.sum, castagnoli, s.buf[:whole])
		p.size += int64(whole)
	}
}

// records returns the length of the complete records at the beginning of b, and the length of the next record; 0: there
// is none. A record is its length (eight bytes, of which the highest holds the length of the padding), followed by that
// many bytes.
func records(b []byte) (whole, next int) {
	for len(b) >= 8 {
		field := binary.LittleEndian.Uint64(b)
		if field == 0 {
			return whole, 0
		}
		size := 8 + field&(1<<56-1)
		if field>>63 == 1 {
			size += field >> 56 & 7
		}
		if size > maxRecord {
			return whole, 0
		}
		if size > uint64(len(b)) {
			return whole, int(size)
		}
		whole += int(size)
		b = b[size:]
	}
	return whole, 0
}

// maxRecord is more than the largest entry takes.
const maxRecord = 64 << 20

// write replaces the file, without waiting until it is synced.
func (s *synced) write() error {
	var b [syncedSize]byte
	copy(b[:], syncedMagic)
	at := b[:len(syncedMagic)+4]
	at = binary.BigEndian.AppendUint32(at, uint32(len(s.parts)))
	for _, p := range s.parts {
		at = binary.BigEndian.AppendUint64(at, p.segment)
		at = binary.BigEndian.AppendUint64(at, uint64(p.size))
		at = binary.BigEndian.AppendUint32(at, p.sum)
	}
	binary.BigEndian.PutUint32(b[len(syncedMagic):], crc32.Checksum(b[len(syncedMagic)+4:], castagnoli))
	created := s.file == nil
	if created {
		var err error
		if s.file, err = os.OpenFile(filepath.Join(s.dir, syncedFile), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(b[:], 0); err != nil || !s.fsync {
		return err
	}
	if created {
		return errors.Join(s.file.Sync(), durable.Names(s.dir))
	}
	return unix.SyncFileRange(int(s.file.Fd()), 0, syncedSize, unix.SYNC_FILE_RANGE_WRITE)
}

// close syncs the file.
func (s *synced) close() (err error) {
	if s.file != nil {
		if s.fsync {
			err = s.file.Sync()
		}
		err = errors.Join(err, s.file.Close())
	}
	s.file = nil
	return errors.Join(err, s.closeTail())
}
