package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
)

// How long a daemon may take to end by itself, and to end once it is killed: the kernel then removes its network, which
// is slow for many at a time.
const (
	stopTimeout = 3 * time.Second
	killTimeout = 30 * time.Second
)

// process is a daemon that dies with this process.
type process struct {
	name   string
	cmd    *exec.Cmd
	output string        // file of its standard output and error
	ended  chan struct{} // closed when it has ended
}

// start runs a daemon in the foreground in a namespace, with its output in dir. `ip netns exec`, which becomes the
// daemon, gives it the /sys of its namespace as well.
func start(dir, namespace, name string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command("ip", append([]string{"netns", "exec", namespace, name}, args...)...),
		output: filepath.Join(dir, name+".out"), ended: make(chan struct{})}
	out, err := os.Create(p.output)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	// Ctrl-C reaches only this process, which stops the daemon in order.
	err = lifeline.Start(p.cmd, func() {
		p.cmd.Wait() // how it ended does not matter: users check ended
		close(p.ended)
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// waitFile waits until the daemon has made a file, which is usually its socket.
func (p *process) waitFile(path string) error {
	deadline := time.After(commandTimeout)
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.name, p.lastOutput())
		case <-deadline:
			return fmt.Errorf("%s made no %s in %v: %s", p.name, path, commandTimeout, p.lastOutput())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *process) lastOutput() string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// kill ends the daemon with SIGKILL and waits. A nil or ended one is no error.
func (p *process) kill() error { return p.end(syscall.SIGKILL) }

// stop ends the daemon in order, and kills it if it does not end.
func (p *process) stop() error { return p.end(syscall.SIGTERM) }

func (p *process) end(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	for _, timeout := range []time.Duration{stopTimeout, killTimeout} {
		p.cmd.Process.Signal(sig) // fails only if it has ended
		select {
		case <-p.ended:
			return nil
		case <-time.After(timeout):
			sig = syscall.SIGKILL
		}
	}
	return fmt.Errorf("%s (pid %d) does not end", p.name, p.cmd.Process.Pid)
}
