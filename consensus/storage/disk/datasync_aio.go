//go:build linux && (amd64 || arm64)

package disk

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"golang.org/x/sys/unix"
)

// datasync executes fdatasync by the kernel's asynchronous I/O (io_submit(2)), which tells the end by an eventfd. So
// only the goroutine waits. In the system call fdatasync a thread would wait, and keep its processor of Go's
// scheduler from other goroutines until the scheduler notices. The zero datasync does use that call, and so does one
// that the kernel refuses. It is for one goroutine at a time. See decision 0151.
type datasync struct {
	context uintptr  // of io_setup; 0: there is none
	ended   *os.File // the eventfd. Go's poller is told of each time that it is signalled, although nobody reads it
	waiter  syscall.RawConn
	request ioRequest
	list    [1]*ioRequest
	event   ioEvent
}

// ioRequest is the kernel's struct iocb on little-endian machines, and ioEvent its struct io_event (linux/aio_abi.h).
type ioRequest struct {
	id        uint64 // that the event has too
	_         uint64
	opcode    uint16
	_         int16
	file      uint32
	_         [4]uint64
	flags     uint32
	signalled uint32 // the eventfd
}

type ioEvent struct {
	id     uint64
	_      uint64
	result int64 // 0, or minus an errno
	_      int64
}

const (
	ioDataSync    = 3 // IOCB_CMD_FDSYNC
	ioSignalsFile = 1 // IOCB_FLAG_RESFD
)

// open makes sync use asynchronous I/O, if the kernel lets it.
func (d *datasync) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make an eventfd, which tells that the log is synced: %w", err)
	}
	d.ended = os.NewFile(uintptr(fd), "eventfd")
	if d.waiter, err = d.ended.SyscallConn(); err != nil {
		return err
	}
	d.request = ioRequest{opcode: ioDataSync, flags: ioSignalsFile, signalled: uint32(fd)}
	d.list[0] = &d.request
	if d.ended.SetReadDeadline(time.Time{}) != nil { // Go's poller does not have it
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&d.context)), 0); errno != 0 {
		d.context = 0
	}
	return nil
}

// sync makes what was written to a file durable, and waits for that. After an error nobody knows whether it is.
func (d *datasync) sync(f *os.File) error {
	if d.context == 0 {
		return fileutil.Fdatasync(f)
	}
	submitted, refused := false, false
	err := d.waiter.Read(func(uintptr) bool {
		if submitted {
			return d.take()
		}
		submitted = true // and not before Read, which begins by forgetting what the poller has told
		refused = !d.submit(f)
		return refused
	})
	runtime.KeepAlive(f)
	switch {
	case refused: // a kernel or file system without that, or a file that is not open
		return fileutil.Fdatasync(f)
	case err != nil:
		return err
	case d.event.id != d.request.id:
		return errors.New("the kernel told the end of another sync")
	case d.event.result < 0:
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syscall.Errno(-d.event.result)}
	}
	return nil
}

// submit and take do not block, so the scheduler need not know of the calls. The kernel reads the request before
// io_submit returns, and writes the event before io_getevents returns, so it uses our memory during these calls only.
// That does not move: d.list points into d, so d is on the heap.
func (d *datasync) submit(f *os.File) bool {
	d.request.id++
	d.request.file = uint32(f.Fd())
	_, _, errno := unix.RawSyscall(unix.SYS_IO_SUBMIT, d.context, 1, uintptr(unsafe.Pointer(&d.list)))
	return errno == 0
}

// take reports whether the request has ended; not if the poller woke for nothing.
func (d *datasync) take() bool {
	n, _, errno := unix.RawSyscall6(unix.SYS_IO_GETEVENTS, d.context, 0, 1, uintptr(unsafe.Pointer(&d.event)), 0, 0)
	if errno != 0 && errno != unix.EINTR { // nobody can learn the end
		d.event = ioEvent{id: d.request.id, result: -int64(errno)}
		return true
	}
	return errno == 0 && n == 1
}

func (d *datasync) close() error {
	if d.context != 0 {
		_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, d.context, 0, 0)
		d.context = 0
	}
	if d.ended == nil {
		return nil
	}
	return d.ended.Close()
}
