package rawconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// conn is a TCP connection. Its Read and Write are those of net.Conn. It implements Direct.
type conn struct {
	*net.TCPConn
	raw    syscall.RawConn
	reads  transfer
	writes transfer

	// Of the WriteDirect in progress; direct is made once, as transfer.ready.
	direct  func(fd uintptr)
	offered []byte
	taken   int
}

// transfer is the Read or the Write in progress. It is kept, because it would be allocated each time.
type transfer struct {
	mu    sync.Mutex // held during a Read or Write: the next one waits, as it does with package net
	b     []byte
	n     int
	errno syscall.Errno
	ready func(fd uintptr) (done bool)
}

// Of returns the connection with reads and writes of this package, or c itself if it is not one of TCP. Close,
// deadlines, and everything else are those of c.
func Of(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c // closed: its reads and writes say so
	}
	n := &conn{TCPConn: t, raw: raw}
	n.reads.ready, n.writes.ready = n.reads.read, n.writes.write
	n.direct = func(fd uintptr) { n.taken, _ = call(syscall.SYS_WRITE, fd, n.offered) }
	return n
}

// read reads once.
func (t *transfer) read(fd uintptr) bool {
	t.n, t.errno = call(syscall.SYS_READ, fd, t.b)
	return t.errno != syscall.EAGAIN
}

// write writes all, as far as there is room.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.b) {
		n, errno := call(syscall.SYS_WRITE, fd, t.b[t.n:])
		if t.errno = errno; errno != 0 {
			return errno != syscall.EAGAIN
		}
		t.n += n
	}
	return true
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	t := &c.reads
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.errno = b, 0, 0
	err := c.raw.Read(t.ready)
	t.b = nil
	switch {
	case err != nil:
		return 0, err
	case t.errno != 0:
		return 0, c.failed("read", t.errno)
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

func (c *conn) Write(b []byte) (int, error) {
	t := &c.writes
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.errno = b, 0, 0
	err := c.raw.Write(t.ready)
	t.b = nil
	if err == nil && t.errno != 0 {
		err = c.failed("write", t.errno)
	}
	return t.n, err
}

func (c *conn) WriteDirect(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	c.offered, c.taken = b, 0
	// Not raw.Write, which waits for other writers and fails after a deadline. The only error is that the connection is
	// closed.
	_ = c.raw.Control(c.direct)
	c.offered = nil
	return c.taken
}

// failed is the error that package net returns.
func (c *conn) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(),
		Err: os.NewSyscallError(op, errno)}
}

// call is a read or write of a socket that does not block. b is not empty.
func call(which, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(which, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno == 0 {
			return int(n), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}
