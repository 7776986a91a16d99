package rawconn

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// conn is a TCP connection. Its Read and Write are those of net.Conn. It implements Direct.
type conn struct {
	*net.TCPConn
	raw syscall.RawConn

	// Of the WriteDirect in progress.
	direct  func(fd uintptr) // made once, because it would be allocated each time
	offered []byte
	taken   int
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
	n.direct = func(fd uintptr) { n.taken, _ = call(syscall.SYS_WRITE, fd, n.offered) }
	return n
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, errno := 0, syscall.Errno(0)
	err := c.raw.Read(func(fd uintptr) bool {
		n, errno = call(syscall.SYS_READ, fd, b)
		return errno != syscall.EAGAIN
	})
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
	done, errno := 0, syscall.Errno(0)
	err := c.raw.Write(func(fd uintptr) bool {
		for done < len(b) {
			var n int
			if n, errno = call(syscall.SYS_WRITE, fd, b[done:]); errno != 0 {
				return errno != syscall.EAGAIN
			}
			done += n
		}
		return true
	})
	if err == nil && errno != 0 {
		err = c.failed("write", errno)
	}
	return done, err
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
