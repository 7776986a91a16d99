// Package auditlog appends to a file who asks a controller to change something, and what became of it: a record before
// the change, and one after it, as JSON lines. It decides nothing, and does not know what a request means. What the
// ledger does is recorded elsewhere, by package audit.
package auditlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/durable"
)

// Request is what somebody asks for.
type Request struct {
	Who     string `json:"who,omitempty"` // role and name; "" if nobody has to say who he is
	By      string `json:"by,omitempty"`  // how that is known: certificate or token
	Address string `json:"address"`
	What    string `json:"what"`              // method and path
	Body    string `json:"body,omitempty"`    // the beginning of what was sent
	CutOff  bool   `json:"cut_off,omitempty"` // it was longer
}

// record is a line of the file. It has either a Request or a Status.
type record struct {
	Time time.Time `json:"time"`
	ID   uint64    `json:"id"` // that of a request and of its result are the same
	*Request
	Status int    `json:"status,omitempty"` // of HTTP
	Error  string `json:"error,omitempty"`
}

// Bounds of the files: there are the present one and as many older ones, with .1 for the youngest.
const (
	maxFile  = 16 << 20
	maxOlder = 9
)

const (
	maxWaiting = 2048            // records that are not written yet; further ones fail
	maxBatch   = 256             // records that one fsync stores
	patience   = 5 * time.Second // for the disk
)

// Log is the file. Its methods are safe for concurrent use. One goroutine writes, so a disk that hangs holds up those
// who ask for changes, and nothing else.
type Log struct {
	path    string
	maxFile int64
	log     *slog.Logger
	in      chan waiting
	ended   chan error

	mu     sync.Mutex // guards the fields below
	last   uint64     // id
	closed bool       // in is

	// of the goroutine that writes
	f    *os.File
	size int64
}

type waiting struct {
	line   []byte
	stored chan<- error // nil: nobody waits. Capacity 1
}

// Open appends to the file at path, which it makes if need be. If it cannot, requests are refused until it can.
func Open(path string, log *slog.Logger) *Log { return open(path, maxFile, log) }

func open(path string, most int64, log *slog.Logger) *Log {
	l := &Log{path: path, maxFile: most, log: log, in: make(chan waiting, maxWaiting), ended: make(chan error, 1),
		last: uint64(time.Now().UnixMicro())} // so that no id is that of an earlier process
	if err := l.open(); err != nil {
		l.failed(err)
	}
	go l.run() // until Close
	return l
}

func (l *Log) failed(err error) {
	l.log.Error("the audit log cannot be written, so requests that change something are refused: make room on its "+
		"disk, and let this user write to it", "err", err)
}

// Begin records a request, and returns when that is stored. If it cannot be stored, the request must not be executed.
func (l *Log) Begin(ctx context.Context, r Request) (id uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the disk has not answered for %v", patience))
	defer cancel()
	stored := make(chan error, 1)
	if id, err = l.put(record{Request: &r}, stored); err == nil {
		select {
		case err = <-stored:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("nothing is changed, because that cannot be recorded in the audit log: %w", err)
	}
	return id, nil
}

// End records the result of a request. It does not wait.
func (l *Log) End(id uint64, status int, why string) {
	if _, err := l.put(record{ID: id, Status: status, Error: why}, nil); err != nil {
		l.log.Error("the result of a request is missing in the audit log", "id", id, "status", status, "err", err)
	}
}

func (l *Log) put(r record, stored chan<- error) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, errors.New("this controller is stopping")
	}
	r.Time = time.Now().UTC()
	if r.Request != nil {
		l.last++
		r.ID = l.last
	}
	line, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	select {
	case l.in <- waiting{append(line, '\n'), stored}:
		return r.ID, nil
	default:
		return 0, fmt.Errorf("%d records wait for the disk", maxWaiting)
	}
}

// Close stores what is recorded, and ends the file. It waits for the disk for some seconds at most.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	close(l.in)
	l.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-l.ended:
		return err
	case <-late.C:
		return fmt.Errorf("audit log %s: the disk has not answered for %v", l.path, patience)
	}
}

func (l *Log) run() {
	var batch []waiting
	for w := range l.in {
		batch = append(batch[:0], w)
		for more := true; more && len(batch) < maxBatch; {
			select {
			case w, open := <-l.in:
				if more = open; open {
					batch = append(batch, w)
				}
			default:
				more = false
			}
		}
		l.store(batch)
	}
	var err error
	if l.f != nil {
		err = l.f.Close()
	}
	l.ended <- err
}

// store writes and syncs records, and tells those who wait for them.
func (l *Log) store(batch []waiting) {
	var lines []byte
	for _, w := range batch {
		lines = append(lines, w.line...)
	}
	err := l.append(lines)
	if err != nil {
		l.failed(err)
	}
	for _, w := range batch {
		if w.stored != nil {
			w.stored <- err
		}
	}
}

func (l *Log) append(lines []byte) error {
	if l.f == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	_, err := l.f.Write(lines)
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil { // what was written of it is no record
		err = errors.Join(err, l.f.Truncate(l.size), l.f.Close())
		l.f = nil
		return err
	}
	if l.size += int64(len(lines)); l.size >= l.maxFile {
		return l.rotate()
	}
	return nil
}

// open opens the file. A process that was killed may have left half a line, which is ended.
func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	end := []byte{'\n'}
	if err == nil && size > 0 {
		_, err = f.ReadAt(end, size-1)
	}
	if err == nil && !bytes.Equal(end, []byte{'\n'}) {
		_, err = f.Write([]byte{'\n'})
		size++
	}
	if err == nil {
		err = durable.Names(filepath.Dir(l.path))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("audit log: %w", err), f.Close())
	}
	l.f, l.size = f, size
	return nil
}

// rotate gives the file a number, and begins a new one. The oldest is removed.
func (l *Log) rotate() error {
	err := l.f.Close()
	l.f = nil
	for i := maxOlder; i > 0; i-- {
		from := l.path
		if i > 1 {
			from = older(l.path, i-1)
		}
		if e := os.Rename(from, older(l.path, i)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, l.open())
}

func older(path string, n int) string { return fmt.Sprintf("%s.%d", path, n) }
