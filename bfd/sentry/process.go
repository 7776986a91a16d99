package sentry

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// process waits for the end of a process of somebody else: a switch that has died must not seem alive to its
// neighbours.
type process struct {
	over    chan struct{} // closed when it has ended, or close is called
	file    *os.File
	waiting sync.WaitGroup
}

func watchProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch process %d, the switch (Linux 5.10 or later is needed): %w", pid, err)
	}
	p := &process{over: make(chan struct{}), file: os.NewFile(uintptr(fd), "pidfd")}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, fmt.Errorf("watch process %d, the switch: %w", pid, err)
	}
	p.waiting.Go(func() {
		defer close(p.over)
		_ = raw.Read(func(fd uintptr) bool { // until close at the latest
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	})
	return p, nil
}

func (p *process) close() {
	p.file.Close()
	p.waiting.Wait()
}

// lockSwitch keeps other sentries in this network namespace from the same switch until it is closed: two sentries on
// one link would end each other's sessions. The lock is an abstract socket, which ends with its process.
func lockSwitch(pid int) (io.Closer, error) {
	if pid == 0 {
		return nil, errors.New("the switch is in another PID namespace: run the sentry in that")
	}
	lock, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("@holdfast-sentry-%d", pid), Net: "unix"})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("another sentry watches the links of process %d, the switch: end one of them", pid)
	}
	return lock, err
}
