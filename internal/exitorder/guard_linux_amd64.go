package exitorder

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// stackSize is the memory of the guard. It makes a few system calls and calls no function.
const stackSize = 4096

// ConnectionsFirst makes the kernel close all descriptors of this process before it frees its memory, however it ends.
// Call it once, early.
//
// A second process, the guard, is seen from then on. It is named holdfast-guard, reports the same memory as this one,
// which counts once, and takes no processor time. It ends 0.1 s after this process, and the memory is freed then.
// Nothing happens if it is killed alone, and it has no effect if both are killed at once. Before Linux 5.9, and on
// processors other than amd64, it has no effect either.
func ConnectionsFirst() error {
	_, err := start()
	return err
}

// start returns the process id of the guard.
func start() (pid int, err error) {
	var pipe [2]int // the guard reads it until its end. Only this process writes it, which never does
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("pipe to the guard of the memory: %w", err)
	}
	stack, err := unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("stack of the guard of the memory: %w", err), closeBoth(pipe))
	}
	// The guard inherits the handlers of signals, which would run in memory that is not its own. So it also inherits
	// that they are blocked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return 0, errors.Join(fmt.Errorf("signals of the guard of the memory: %w", err), unix.Munmap(stack),
			closeBoth(pipe))
	}
	pid = guard(&stack[0], uintptr(pipe[0]))
	err = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	if pid < 0 {
		return 0, errors.Join(os.NewSyscallError("clone of the guard of the memory", unix.Errno(-pid)), err,
			unix.Munmap(stack), closeBoth(pipe))
	}
	return pid, errors.Join(err, unix.Close(pipe[0])) // the other end is closed by the end of this process
}

func closeBoth(pipe [2]int) error { return errors.Join(unix.Close(pipe[0]), unix.Close(pipe[1])) }

// guard starts the process. Its stack has stackSize bytes. The result is its id, or a negative error number.
//
//go:noescape
func guard(stack *byte, pipe uintptr) int
