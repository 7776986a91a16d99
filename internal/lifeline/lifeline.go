// Package lifeline starts child processes that do not outlive this one. It neither monitors nor stops them.
package lifeline

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd in a process group of its own, so that Ctrl-C reaches this process only, and has the kernel kill it
// when this process dies. If that succeeds, wait is called in a goroutine, and returns when the child has ended, as
// after cmd.Wait.
func Start(cmd *exec.Cmd, wait func()) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	started := make(chan error)
	go func() { // ends with the child
		// Pdeathsig is about the thread that forked, not about the process: it must live as long as the
		// child. Others may end theirs, as those do that have entered a network namespace.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			wait()
		}
	}()
	return <-started
}
