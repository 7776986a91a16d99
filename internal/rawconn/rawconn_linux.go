package rawconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// conn is a connection of package net. It implements Direct.
type conn struct {
	net.Conn
	raw    syscall.RawConn
	reads  transfer
	writes transfer

	// Of the WriteDirect in progress; direct is made once, as transfer.try.
	direct  func(fd uintptr)
	offered []byte
	taken   int
}

// transfer is the Read or the Write in progress. It is kept, because it would be allocated each time.
type transfer struct {
	wait func(try func(fd uintptr) (done bool)) error // RawConn.Read or RawConn.Write
	try  func(fd uintptr) (done bool)

	mu    sync.Mutex // held during a Read or Write: the next one waits, as it does with package net
	b     []byte
	n     int
	errno syscall.Errno
}

// Of returns the connection with reads and writes of this package, or c itself if it is not one of TCP or of a Unix
// socket. Close, deadlines, and everything else are those of c.
func Of(c net.Conn) net.Conn {
	var socket syscall.Conn
	switch c := c.(type) {
	case *net.TCPConn:
		socket = c
	case *net.UnixConn:
		socket = c
	default:
		return c
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c // closed: its reads and writes say so
	}
	n := &conn{Conn: c, raw: raw}
	n.reads.wait, n.reads.try = raw.Read, n.reads.read
	n.writes.wait, n.writes.try = raw.Write, n.writes.write
	n.direct = func(fd uintptr) { n.taken, _ = call(syscall.SYS_WRITE, fd, n.offered) }
	return n
}

// do tries until it is done with b, and returns how many bytes were transferred.
func (t *transfer) do(b []byte) (n int, errno syscall.Errno, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.errno = b, 0, 0
	err = t.wait(t.try)
	t.b = nil
	return t.n, t.errno, err
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
	n, errno, err := c.reads.do(b)
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, c.failed("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *conn) Write(b []byte) (int, error) {
	n, errno, err := c.writes.do(b)
	if err == nil && errno != 0 {
		err = c.failed("write", errno)
	}
	return n, err
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
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
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
