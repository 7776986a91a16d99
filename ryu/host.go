package ryu

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Errors of Execute.
var (
	ErrBusy  = fmt.Errorf("ryu: %d calls of Execute wait for results: that is the bound", Outstanding)
	ErrEnded = errors.New("ryu: the host has ended")
)

// checkpoint represents a CHECKPOINT frame among the pending frames; the others contain inputs.
const checkpoint = 0

// Host is a process that hosts applications. Its methods may be called from any goroutine.
type Host struct {
	cfg     Config
	handler Handler
	process *process
	conn    *net.UnixConn
	remove  func()        // of the code's folder
	wake    chan struct{} // capacity 1: something is to be written
	quit    chan struct{} // closed when the end of the host is decided
	done    chan struct{} // closed after Ended

	mu      sync.Mutex
	out     []byte // not yet written: HELLO, Outstanding frames with inputs and one CHECKPOINT at most
	pending []int  // for each unanswered frame: the number of missing results, or checkpoint
	sent    uint64 // number of the last input
	got     uint64 // number of the last result
	ready   bool
	busy    bool      // the handler is running
	idle    int       // ticks in which the host owed an answer
	suspect bool      // it is assumed to hang, unless it sends something very soon
	end     *EndError // once it is decided
}

// Start starts a host of cfg's applications. The caller sets Seed, Time, Number and State of hello; Start sets the rest
// from cfg. The handler may be called before Start returns.
func Start(cfg Config, hello wire.Hello, handler Handler) (*Host, error) {
	if len(cfg.Applications) == 0 {
		return nil, errNoApplication
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	hello.Cluster, hello.LogLevel, hello.Applications, hello.Options = cfg.Cluster, cfg.LogLevel, cfg.Applications,
		cfg.Options
	out, err := wire.AppendHello(nil, &hello)
	if err != nil {
		return nil, err
	}
	folder, remove, err := unpack(cfg.account != nil)
	if err != nil {
		return nil, err
	}
	conn, theirs, err := socketPair()
	if err != nil {
		remove()
		return nil, fmt.Errorf("ryu: make a socket: %w", err)
	}
	p, err := startProcess(cfg, folder, theirs)
	if err != nil {
		conn.Close()
		remove()
		return nil, err
	}
	h := &Host{
		cfg: cfg, handler: handler, process: p, conn: conn, remove: remove,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		out: out, sent: hello.Number, got: hello.Number,
	}
	go h.run() // ends with the process
	return h, nil
}

// socketPair returns this process's end and the child's.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "host")
	defer ours.Close() // conn is a copy
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// Execute passes count inputs, encoded by wire.Input.Append, to the host. It never blocks, and inputs may be reused at
// once. It returns ErrBusy while Outstanding earlier calls lack results, and ErrEnded once the end of the host is
// decided. Inputs that cannot be sent (a number that is not the next, more bytes than a frame holds) give another
// error, and the host continues. It may be called before Ready.
func (h *Host) Execute(inputs []byte, count int) error {
	first, _, err := wire.ParseInput(inputs)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := len(h.pending)
	if slices.Contains(h.pending, checkpoint) {
		waiting--
	}
	switch {
	case h.end != nil:
		return ErrEnded
	case waiting >= Outstanding:
		return ErrBusy
	case first.Number != h.sent+1:
		return fmt.Errorf("ryu: input %d cannot follow %d", first.Number, h.sent)
	}
	out, err := wire.AppendInputs(h.out, inputs, count)
	if err != nil {
		return err
	}
	h.sent += uint64(count)
	h.send(out, count)
	return nil
}

// Checkpoint requests a checkpoint after the inputs that were passed so far. A call while another checkpoint is pending
// requests no second one.
func (h *Host) Checkpoint() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end == nil && !slices.Contains(h.pending, checkpoint) {
		h.send(wire.AppendCheckpoint(h.out), checkpoint)
	}
}

// send has out written; what has been appended to it lacks so many results.
func (h *Host) send(out []byte, results int) {
	if len(h.pending) == 0 {
		h.idle = 0
	}
	h.out, h.pending = out, append(h.pending, results)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Stop kills the host and waits until the Handler was told of its end. It may be called at any time and repeatedly, but
// not by the Handler.
func (h *Host) Stop() {
	h.finish(Stopped, "")
	<-h.done
}

func (h *Host) finish(reason Reason, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide(reason, detail)
}

// decide decides the end of the host, and why. Only the first call has an effect.
func (h *Host) decide(reason Reason, detail string) {
	if h.end != nil {
		return
	}
	if reason == Crashed && h.suspect { // killed by the signal that requests a traceback, if it could not handle it
		reason, detail = Hung, h.late(h.process.out.since(0))
	}
	h.end = &EndError{Reason: reason, Detail: detail}
	if h.ready && len(h.pending) > 0 {
		if h.end.Checkpoint = h.pending[0] == checkpoint; !h.end.Checkpoint {
			h.end.Input = h.got + 1
		}
	}
	close(h.quit)
	h.process.kill()
	h.conn.Close()
}

func (h *Host) run() {
	var others sync.WaitGroup
	others.Go(h.write)
	others.Go(h.watch)
	h.read()
	others.Wait()
	<-h.process.ended
	h.remove()
	if h.end.Detail == "" {
		h.end.Detail = strings.TrimSpace(fmt.Sprintf("%v\n%s", h.process.cmd.ProcessState, h.process.out.since(0)))
	}
	h.handler.Ended(h, h.end)
	close(h.done)
}

func (h *Host) write() {
	var buf []byte
	for {
		h.mu.Lock()
		buf, h.out = h.out, buf[:0]
		h.mu.Unlock()
		if len(buf) > 0 {
			if _, err := h.conn.Write(buf); err != nil {
				return // read gets the same error, and reports it
			}
			if cap(buf) > keptBytes {
				buf = nil
			}
			continue
		}
		select {
		case <-h.quit:
			return
		case <-h.wake:
		}
	}
}

// read passes all frames to the handler. It returns when the end of the host is decided.
func (h *Host) read() {
	r := bufio.NewReaderSize(h.conn, readBytes)
	for {
		t, body, err := readFrame(r)
		if err == nil {
			err = h.frame(t, body)
		}
		var said fatalError
		switch {
		case err == nil:
			continue
		case errors.Is(err, errGone):
			h.linger()
			h.finish(Crashed, "")
		case errors.As(err, &said):
			h.linger()
			h.finish(Fatal, string(said))
		default:
			h.finish(Protocol, err.Error())
		}
		return
	}
}

// linger gives a process that is about to end the time to do so.
func (h *Host) linger() {
	late := time.NewTimer(lingerTime)
	defer late.Stop()
	select {
	case <-h.process.ended:
	case <-h.quit:
	case <-late.C:
	}
}
