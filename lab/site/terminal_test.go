package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a command may take: one builds a program.
const patience = 5 * time.Minute

// terminals are two shells in one folder, without any rights beyond those of the user, and with a network of their own:
// the tutorial uses fixed ports.
type terminals struct {
	dir            string
	first, network *terminal
}

// openTerminals skips the test if the machine lets users have no network of their own.
func openTerminals(t *testing.T) *terminals {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "holdfast")); err != nil {
		t.Fatal(err)
	}
	all := &terminals{dir: t.TempDir(), first: newTerminal(t), network: newTerminal(t)}
	// Only the network interface needs a right, which the shells then do not have.
	const script = `ip link set lo up && exec setpriv --ambient-caps=-all --inh-caps=-all bash -c '
		bash <&3 >&4 2>&1 3<&- 4>&- & exec bash 3<&- 4>&-'`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = all.dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = all.first.in[0], all.first.out[1], all.first.out[1]
	cmd.ExtraFiles = []*os.File{all.network.in[0], all.network.out[1]}
	const user = 1000 // any but 0
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("users may not have a network of their own here: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and all that it has started
		_ = cmd.Wait()                                      // killed
		all.first.close()
		all.network.close()
	})
	for _, term := range []*terminal{all.first, all.network} {
		term.in[0].Close()
		term.out[1].Close()
		term.reading.Go(term.read)
	}
	return all
}

func (s *terminals) of(network bool) *terminal {
	if network {
		return s.network
	}
	return s.first
}

// logs are the ends of the logs that the commands have written.
func (s *terminals) logs() string {
	const end = 2000
	var all strings.Builder
	for _, pattern := range []string{"*.log", "*/*.log"} {
		names, _ := filepath.Glob(filepath.Join(s.dir, pattern)) // the pattern is good
		for _, name := range names {
			text, err := os.ReadFile(name)
			fmt.Fprintf(&all, "== %s %v\n%s", filepath.Base(name), err, text[max(0, len(text)-end):])
		}
	}
	return all.String()
}

// terminal is a shell that reads what a test types.
type terminal struct {
	in, out [2]*os.File // pipes
	typed   int         // commands
	reading sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	printed strings.Builder
	more    chan struct{} // closed, and made anew, when something was printed
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	term := &terminal{more: make(chan struct{})}
	for _, pipe := range []*[2]*os.File{&term.in, &term.out} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		*pipe = [2]*os.File{r, w}
	}
	return term
}

func (s *terminal) close() {
	for _, f := range []*os.File{s.in[0], s.in[1], s.out[0], s.out[1]} {
		f.Close()
	}
	s.reading.Wait()
}

func (s *terminal) read() {
	b := make([]byte, 1<<16)
	for {
		n, err := s.out[0].Read(b)
		s.mu.Lock()
		s.printed.Write(b[:n])
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// run types a command, and returns what it prints: until it ends, with its exit code, or until holdfast vnet wants a
// command.
func (s *terminal) run(t *testing.T, c typed) (prints, status string) {
	t.Helper()
	text, end := c.text+"\n", networkPrompt
	if c.prompt == shellPrompt {
		s.typed++
		end = s.endMark()
		separator := "; "
		if strings.HasSuffix(c.text, "&") || strings.Contains(c.text, "\n") { // a here-document ends with its line
			separator = "\n"
		}
		text = c.text + separator + fmt.Sprintf(`printf '\n%%s %%d\n' end-of-%d $?`, s.typed) + "\n"
	}
	if strings.HasPrefix(c.text, "holdfast vnet") {
		end = networkPrompt
	} else if c.prompt == networkPrompt && c.text == "exit" {
		end = s.endMark() // of holdfast vnet
	}
	if _, err := io.WriteString(s.in[1], text); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		printed, more := s.printed.String(), s.more
		before, after, ended := strings.Cut(printed, end)
		ended = ended && (end == networkPrompt || strings.Contains(after, "\n")) // the exit code is whole
		if ended {
			s.printed.Reset()
		}
		s.mu.Unlock()
		if ended {
			if end == networkPrompt {
				return before, "0"
			}
			status, _, _ := strings.Cut(after, "\n") // then the shell may tell of a process that was killed
			return before, status
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("line %d: %s does not end; it printed\n%s", c.line, c.text, printed)
		}
	}
}

// endMark is what is printed before the exit code of the command that was typed last. The line before it is that of the
// command, or empty.
func (s *terminal) endMark() string { return fmt.Sprintf("\nend-of-%d ", s.typed) }
