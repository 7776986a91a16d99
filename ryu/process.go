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

// process is the host's, with whatever it starts. Its methods may be called from any goroutine.
type process struct {
	cmd   *exec.Cmd
	out   *output
	ended chan struct{} // closed when it is gone, and all that it printed is here

	mu   sync.Mutex
	gone bool // its number may be another's
}

// startProcess starts a host that speaks on socket, which is closed in any case.
func startProcess(cfg Config, folder string, socket *os.File) (*process, error) {
	defer socket.Close() // the child has its own
	const descriptor = "3"
	cmd := exec.Command(cfg.Python, append([]string{"-m", "holdfast_ryu", "host", "--socket", descriptor},
		cfg.Applications...)...)
	cmd.Env = environment(cfg, folder)
	cmd.ExtraFiles = []*os.File{socket}
	p := &process{cmd: cmd, out: &output{logger: cfg.Logger}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.WaitDelay = lingerTime // whoever has left the group may hold the pipe for ever
	if err := lifeline.Start(cmd, p.wait); err != nil {
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

// environment is ours, without what would change Python. Nor are modules looked for where Holdfast happens to be
// started: neither Ryu nor this package would be what is configured.
func environment(cfg Config, folder string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PYTHON") })
	path := append([]string{folder}, cfg.Path...)
	if users := os.Getenv("PYTHONPATH"); users != "" {
		path = append(path, users)
	}
	return append(env, "PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)), "PYTHONSAFEPATH=1")
}

func (p *process) wait() {
	// What it has started goes with it. As long as it is not reaped, the number of the group is nobody else's.
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	p.signalGroup(syscall.SIGKILL)
	p.gone = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // ProcessState has it
	close(p.ended)
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroup(syscall.SIGKILL)
}

// askTraceback makes the host print where it is.
func (p *process) askTraceback() { _ = p.cmd.Process.Signal(syscall.SIGUSR1) }

func (p *process) signalGroup(sig syscall.Signal) {
	if !p.gone {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// residentBytes returns how much memory the process has, 0 if it is gone.
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
