package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
)

// process is one child. Its methods may be called from any goroutine.
type process struct {
	name, binary, log string
	args, env         []string

	mu       sync.Mutex // guards the fields below
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has ended
	expected bool          // we ended it
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log of %s: %w", p.name, err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.env...)
	ended := make(chan struct{})
	err = lifeline.Start(cmd, func() {
		_ = cmd.Wait()
		close(ended)
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.ended, p.expected = cmd, ended, false
	return nil
}

// Pid is the process's id; 0 if it was never started.
func (p *process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Restart starts the process again after it ended. env, if any, replaces what Config.Env gave.
func (p *process) Restart(env ...string) error {
	if p.Running() {
		return fmt.Errorf("restart %s: it runs", p.name)
	}
	p.env = env
	return p.start()
}

// Running reports whether the process runs.
func (p *process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits for it; nothing happens if it has ended.
func (p *process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	p.WaitEnd()
	return nil
}

// Signal sends a signal, if the process runs. After SIGKILL or SIGTERM its end is expected.
func (p *process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		p.expected = true
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to %s: %w", sig, p.name, err)
	}
	return nil
}

// ExpectEnd says that the process will end by itself, and that this is no failure.
func (p *process) ExpectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// Ended returns how the process ended, nil while it runs.
func (p *process) Ended() *os.ProcessState {
	if p.Running() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.ProcessState
}

// LogFile is where what the process prints goes.
func (p *process) LogFile() string { return p.log }

// WaitEnd waits until the process has ended.
func (p *process) WaitEnd() {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// failed returns an error if the process ended though nobody wanted it to.
func (p *process) failed() error {
	if p.Running() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.expected {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%v): %s", p.name, p.cmd.ProcessState, p.reason())
}

// reason is the line in which a command of holdfast says why it has failed.
func (p *process) reason() string {
	text, err := os.ReadFile(p.log)
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if why, ok := strings.CutPrefix(line, "holdfast: "); ok {
				return strings.TrimSpace(why)
			}
		}
	}
	return "its log says why"
}
