//go:build linux && (amd64 || arm64)

package disk

import (
	"os"
	"syscall"
	"unsafe"
)

// writePrompt writes b, which goes to the cache of the file system, and returns how much of it was written: the caller
// writes the rest. It does not tell the scheduler of Go that a system call begins, because the first one after a pause
// wakes its monitor; see package rawconn. That costs more than such a write, which comes with each entry. If the file
// system does wait for the disk, no other goroutine gets the processor meanwhile; the saver sees to it that this is
// rare.
func writePrompt(f *os.File, b []byte, at int64) int {
	if len(b) == 0 {
		return 0
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PWRITE64, f.Fd(), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(at), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}
