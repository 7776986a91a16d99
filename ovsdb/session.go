package ovsdb

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// maxSilence is how long the server may be silent before an echo is requested, and then again until the connection
	// is closed. Open vSwitch itself requests one after 5 s.
	maxSilence   = 5 * time.Second
	writeTimeout = 10 * time.Second
	// maxPending bounds the requests without an answer.
	maxPending = 256
)

var errClosed = errors.New("the connection was lost before the answer")

// session is one connection. run reads it; requests come from any goroutine.
type session struct {
	conn    net.Conn
	silence time.Duration
	once    sync.Once

	writing sync.Mutex // guards writes to conn

	mu      sync.Mutex // guards the fields below
	lastID  uint64
	pending map[uint64]chan<- message // each with room for its one answer; nil when closed
}

func newSession(conn net.Conn, silence time.Duration) *session {
	return &session{conn: conn, silence: silence, pending: map[uint64]chan<- message{}}
}

// close ends run, and with it all calls.
func (s *session) close() { s.once.Do(func() { s.conn.Close() }) }

// run requests the tables, keeps a copy, and calls tell with it at first and after each update. It returns when the
// connection is closed, always with an error.
func (s *session) run(tell func(*tables)) error {
	defer s.abandon()
	first := make(chan message, 1)
	if err := s.request(first, "monitor", []any{database, nil, monitored}); err != nil {
		return err
	}
	var copied *tables // nil before the first answer
	scanner := bufio.NewScanner(&patient{s: s})
	scanner.Buffer(nil, maxMessage)
	scanner.Split(new(splitter).split)
	for scanner.Scan() {
		m, err := decodeMessage(scanner.Bytes())
		if err != nil {
			return err
		}
		update, err := s.handle(m)
		if err != nil {
			return err
		}
		select {
		case answer := <-first:
			if update, err = answer.result(); err != nil {
				return fmt.Errorf("watch the tables: %w", err)
			}
			copied = new(tables)
		default:
		}
		if update == nil || copied == nil {
			continue
		}
		if err := copied.apply(update); err != nil {
			return err
		}
		tell(copied)
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a message of more than %d MiB: more ports than are copied", maxMessage>>20)
	case err != nil:
		return err
	}
	return errors.New("the server closed the connection")
}

// handle takes a message, and returns the table updates that it brings, if any. Other notifications are ignored.
func (s *session) handle(m message) (update json.RawMessage, err error) {
	switch m.Method {
	case "":
		s.answer(m)
	case "echo":
		reply, err := encodeEcho(m)
		if err != nil {
			return nil, fmt.Errorf("answer an echo request: %w", err)
		}
		return nil, s.write(reply)
	case "update":
		var params []json.RawMessage
		if json.Unmarshal(m.Params, &params) != nil || len(params) != 2 {
			return nil, fmt.Errorf("read an update: parameters %.40s", m.Params)
		}
		return params[1], nil
	}
	return nil, nil
}

// answer gives a response to whoever waits for it. Nobody does for an echo, and after a call whose context has ended.
func (s *session) answer(m message) {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	waiting := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	if waiting != nil {
		waiting <- m
	}
}

// abandon ends all calls.
func (s *session) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waiting := range s.pending {
		close(waiting)
	}
	s.pending = nil
}

// request sends a request whose answer goes to waiting, which is closed if there will be none.
func (s *session) request(waiting chan<- message, method string, params []any) error {
	s.mu.Lock()
	if s.pending == nil {
		s.mu.Unlock()
		return errClosed
	}
	if len(s.pending) >= maxPending {
		s.mu.Unlock()
		return fmt.Errorf("%d requests wait for an answer already", maxPending)
	}
	s.lastID++
	id := s.lastID
	s.pending[id] = waiting
	s.mu.Unlock()
	b, err := encodeRequest(id, method, params)
	if err == nil {
		err = s.write(b)
	}
	if err != nil {
		s.forget(id)
	}
	return err
}

func (s *session) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// call sends a request and waits for its result. Whether the server has done a request whose answer did not come is not
// known.
func (s *session) call(ctx context.Context, method string, params []any) (json.RawMessage, error) {
	waiting := make(chan message, 1)
	if err := s.request(waiting, method, params); err != nil {
		return nil, err
	}
	select {
	case answer, ok := <-waiting:
		if !ok {
			return nil, errClosed
		}
		return answer.result()
	case <-ctx.Done():
		return nil, ctx.Err() // the answer, when it comes, frees the place
	}
}

func (s *session) write(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.conn.Write(b); err != nil {
		s.close() // half a message may have gone
		return err
	}
	return nil
}

// patient reads from a session's connection. If the server is silent it is asked for an echo, and if it is silent
// then too, that is an error.
type patient struct{ s *session }

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	for asked := false; ; asked = true {
		if err := p.s.conn.SetReadDeadline(time.Now().Add(p.s.silence)); err != nil {
			return 0, err
		}
		n, err := p.s.conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if asked {
			return 0, fmt.Errorf("the server has been silent for %v", 2*p.s.silence)
		}
		if err := p.s.write([]byte(`{"method":"echo","params":[],"id":"echo"}`)); err != nil {
			return 0, err
		}
	}
}
