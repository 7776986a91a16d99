package exitorder

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
)

// held is the memory of the process that the tests kill, in bytes.
const held = 64 << 20

// TestMain is also that process: it connects to an address, and says there which process is its guard.
func TestMain(m *testing.M) {
	address := os.Getenv("EXITORDER_TEST_ADDRESS")
	if address == "" {
		os.Exit(m.Run())
	}
	guard, err := start()
	if err != nil {
		panic(err)
	}
	memory := make([]byte, held)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(conn, guard)
	for { // the guard shares memory that changes
		debug.FreeOSMemory()
		time.Sleep(time.Millisecond)
		runtime.KeepAlive(memory)
		runtime.KeepAlive(conn)
	}
}

// victim is a process with a guard.
type victim struct {
	process, guard int
	conn           net.Conn
}

func startVictim(t *testing.T) victim {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXITORDER_TEST_ADDRESS="+l.Addr().String())
	cmd.Stderr = os.Stderr
	ended := make(chan struct{})
	if err := lifeline.Start(cmd, func() { _ = cmd.Wait(); close(ended) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	v := victim{process: cmd.Process.Pid}
	if v.conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.conn.Close() })
	if _, err := fmt.Fscanln(v.conn, &v.guard); err != nil {
		t.Fatal(err)
	}
	return v
}

// resident returns the bytes of memory that a process holds; 0 if there is no such process, or it has ended.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize()
}

// When a process with a guard is killed, its connections end while its memory is still there. The memory is freed soon
// afterwards.
func TestConnectionsEndFirst(t *testing.T) {
	const attempts = 10 // a busy machine may not run this test for as long as the guard stays
	for attempt := range attempts {
		v := startVictim(t)
		if err := unix.Kill(v.process, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(v.conn); err != nil {
			t.Fatal(err)
		}
		got := resident(v.guard)
		for began := time.Now(); resident(v.guard) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("the guard does not end")
			}
		}
		if got >= held {
			return
		}
		t.Logf("attempt %d: %d bytes were held when the connection ended", attempt+1, got)
	}
	t.Error("the memory was freed before the connections were closed")
}

// The guard holds no descriptor of the process, and no signal but SIGKILL has an effect on it. If it is killed, the
// process does not notice.
func TestGuardHarmless(t *testing.T) {
	v := startVictim(t)
	for n := unix.Signal(1); n <= 64; n++ {
		if n == unix.SIGKILL || n == unix.SIGSTOP {
			continue
		}
		if err := unix.Kill(v.guard, n); err != nil {
			t.Fatal(err)
		}
	}
	var open []string
	for began := time.Now(); ; time.Sleep(time.Millisecond) { // it may just begin
		if open, _ = filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", v.guard)); len(open) == 1 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the guard has the descriptors %v", open)
		}
	}
	if to, err := os.Readlink(open[0]); err != nil || !strings.HasPrefix(to, "pipe:") {
		t.Errorf("the guard reads %s: %v", to, err)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", v.guard)); string(name) != "holdfast-guard\n" {
		t.Errorf("the guard is named %q: %v", name, err)
	}
	if err := unix.Kill(v.guard, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = v.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := io.ReadAll(v.conn); err == nil {
		t.Error("the process ended with its guard")
	}
}
