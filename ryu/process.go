package ryu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
)

// process is the process of a host, with the processes that it starts. Its methods may be called from any goroutine.
type process struct {
	cmd   *exec.Cmd
	out   *output
	ended chan struct{} // closed when it has ended, and all its output was read

	mu   sync.Mutex
	gone bool // its process id may have been reused
}

// startProcess starts a host that communicates on socket, which it closes in any case.
func startProcess(cfg Config, folder string, socket *os.File) (*process, error) {
	defer socket.Close() // the child has its own
	const descriptor = "3"
	arguments := []string{"-m", "holdfast_ryu", "host", "--socket", descriptor}
	if cfg.Alone {
		arguments = append(arguments, "--alone")
	}
	for _, name := range cfg.Files {
		arguments = append(arguments, "--file", name)
	}
	p := &process{ended: make(chan struct{})}
	command := func() *exec.Cmd {
		p.cmd, p.out = exec.Command(cfg.Python, append(arguments, cfg.Applications...)...), &output{logger: cfg.Logger}
		p.cmd.Env = environment(cfg, folder)
		p.cmd.ExtraFiles = []*os.File{socket}
		p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
		p.cmd.WaitDelay = lingerTime // a process that has left the group may keep the pipe open for ever
		return p.cmd
	}
	if err := confined(cfg, command, func(cmd *exec.Cmd) error { return lifeline.Start(cmd, p.wait) }); err != nil {
		return nil, startError(cfg, err)
	}
	return p, nil
}

func startError(cfg Config, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ryu: there is no %s: install Python 3.10 or later, or say where it is: %w", cfg.Python,
			err)
	}
	return fmt.Errorf("ryu: start %s: %w", cfg.Python, err)
}

// environment returns the environment of this process, without the variables that change Python. Modules are not looked
// for in the current directory, where other copies of Ryu or of this package may be.
func environment(cfg Config, folder string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PYTHON") })
	path := append([]string{folder}, cfg.Path...)
	if users := os.Getenv("PYTHONPATH"); users != "" {
		path = append(path, users)
	}
	return append(env, "PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)), "PYTHONSAFEPATH=1")
}

func (p *process) wait() {
	// This also kills the processes that it has started. The id of the group cannot be reused before the process is
	// reaped.
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	p.signalGroup(syscall.SIGKILL)
	p.gone = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // ProcessState contains the result
	close(p.ended)
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroup(syscall.SIGKILL)
}

// askTraceback makes the host print a traceback of where it is.
func (p *process) askTraceback() { _ = p.cmd.Process.Signal(syscall.SIGUSR1) }

func (p *process) signalGroup(sig syscall.Signal) {
	if !p.gone {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// residentBytes returns the resident memory of the process, 0 if it has ended.
func (p *process) residentBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(b), &total, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
