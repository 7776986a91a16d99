package ryu

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
	"golang.org/x/sys/unix"
)

// types returns the types of a result's commands.
func types(r wire.Result) (list []uint8) {
	for _, c := range r.Commands {
		list = append(list, c.Message[1])
	}
	return list
}

// Ryu's own learning switch learns addresses, installs a flow, and forwards.
func TestSimpleSwitch(t *testing.T) {
	python := realPython(t)
	b := start(t, Config{Python: python, Applications: []string{"ryu.app.simple_switch_13"},
		Path: []string{ryu(t, python)}}, wire.Hello{})
	ready := await(b, "READY", b.ready)
	if !slices.Contains(ready.Classes, "SimpleSwitch13") || ready.OSKen == "" || ready.Wake != wire.NoWake {
		t.Errorf("ready: %+v", ready)
	}
	b.execute(up(1), packet(1, 1, 0xa, 0xb), packet(1, 2, 0xb, 0xa))
	b.execute(packet(1, 1, 0xa, 0xb))
	for i, want := range [][]uint8{
		{of13.TypeFlowMod},                     // the table-miss entry
		{of13.TypePacketOut},                   // b is unknown, so the packet is flooded
		{of13.TypeFlowMod, of13.TypePacketOut}, // a is known now
		{of13.TypeFlowMod, of13.TypePacketOut},
	} {
		r := b.result()
		if r.Number != uint64(i+1) || !slices.Equal(types(r), want) || len(r.Failures) > 0 {
			t.Errorf("result %d: number %d, commands %v, want %v; failures %v", i+1, r.Number, types(r), want,
				r.Failures)
		}
		for _, c := range r.Commands {
			if c.Switch != 1 {
				t.Errorf("result %d: a command for switch %v", i+1, c.Switch)
			}
		}
	}
	b.host.Stop()
	if err := b.end(Stopped); err.Input != 0 {
		t.Errorf("all had results, but the end is %v", err)
	}
}

func ending(t *testing.T, cfg Config) *bed {
	t.Helper()
	cfg.Python, cfg.Applications = realPython(t), []string{"testdata/ending.py"}
	b := start(t, cfg, wire.Hello{})
	await(b, "READY", b.ready)
	if r := b.do(up(1)); len(r.Failures) > 0 {
		t.Fatalf("up: %v", r.Failures)
	}
	return b
}

func TestFailureIsNoEnd(t *testing.T) {
	b := ending(t, Config{})
	r := b.do(packet(1, 5, 1, 2))
	if len(r.Commands) > 0 || len(r.Failures) != 1 || r.Failures[0].App != "Ending" ||
		!strings.Contains(r.Failures[0].Traceback, "no packets from port 5") {
		t.Errorf("an application that raises: %+v", r)
	}
	if r := b.do(packet(1, 9, 1, 2)); !slices.Equal(types(r), []uint8{of13.TypeBarrierRequest}) || len(r.Failures) > 0 {
		t.Errorf("and goes on: %+v", r)
	}
}

func TestHung(t *testing.T) {
	b := ending(t, Config{Hang: 3 * time.Second})
	b.execute(packet(1, 9, 1, 2))
	b.execute(packet(1, 1, 1, 2), packet(1, 9, 1, 2))
	if r := b.result(); r.Number != 2 {
		t.Errorf("result %d is the last before it hangs", r.Number)
	}
	err := b.end(Hung)
	source, readErr := os.ReadFile("testdata/ending.py")
	if readErr != nil {
		t.Fatal(readErr)
	}
	before, _, _ := strings.Cut(string(source), "# here it is")
	line := 1 + strings.Count(before, "\n")
	for _, want := range []string{"no result for 3s", "in loop", "in packet_in", "ending.py"} {
		if !strings.Contains(err.Detail, want) {
			t.Errorf("the traceback lacks %q:\n%s", want, err.Detail)
		}
	}
	if !strings.Contains(err.Detail, fmt.Sprintf("line %d in loop", line)) && !strings.Contains(err.Detail,
		fmt.Sprintf("line %d in loop", line-1)) {
		t.Errorf("the traceback names another line than %d:\n%s", line, err.Detail)
	}
	if err.Input != 3 || err.Checkpoint {
		t.Errorf("it hung at input 3: %v", err)
	}
}

func TestCrashed(t *testing.T) {
	for _, tt := range []struct {
		port of13.Port
		want []string
	}{
		{2, []string{"exit status 3", "last words"}},
		{3, []string{"segmentation fault", "Fatal Python error", "in packet_in"}},
	} {
		b := ending(t, Config{})
		b.execute(packet(1, tt.port, 1, 2))
		err := b.end(Crashed)
		for _, want := range tt.want {
			if !strings.Contains(err.Detail, want) {
				t.Errorf("port %d: %q is not told:\n%s", tt.port, want, err.Detail)
			}
		}
		if err.Input != 2 {
			t.Errorf("port %d: it crashed at input 2: %v", tt.port, err)
		}
	}
}

func TestLeaked(t *testing.T) {
	b := ending(t, Config{MemoryBytes: 200 << 20})
	b.execute(packet(1, 4, 1, 2))
	if err := b.end(Leaked); !strings.Contains(err.Detail, "where at most 200 are allowed") || err.Input != 2 {
		t.Errorf("it leaked at input 2: %v", err)
	}
}

func TestFatal(t *testing.T) {
	b := start(t, Config{Python: realPython(t), Applications: []string{"../python/tests/apps/broken.py"}}, wire.Hello{})
	if err := b.end(Fatal); !strings.Contains(err.Detail, "not today") || err.Input != 0 {
		t.Errorf("an application that cannot be loaded: %v", err)
	}
}

// Stop ends a host that does not react.
func TestStopLoop(t *testing.T) {
	b := ending(t, Config{})
	b.execute(packet(1, 1, 1, 2))
	b.host.Stop()
	if err := b.end(Stopped); err.Input != 2 {
		t.Errorf("input 2 had no result: %v", err)
	}
	if err := b.host.Execute((&wire.Input{Number: 3, Kind: wire.Timer}).Append(nil), 1); err != ErrEnded {
		t.Errorf("Execute after the end: %v", err)
	}
	b.host.Checkpoint() // is ignored
}

// A host that starts from a checkpoint behaves as the one that wrote it.
func TestCheckpoint(t *testing.T) {
	python := realPython(t)
	cfg := Config{Python: python, Applications: []string{"ryu.app.simple_switch_13"}, Path: []string{ryu(t, python)}}
	one := start(t, cfg, wire.Hello{})
	one.execute(up(1), packet(1, 1, 0xa, 0xb))
	one.host.Checkpoint()
	one.host.Checkpoint() // has the same content
	one.execute(packet(1, 2, 0xb, 0xa))
	c := await(one, "checkpoint", one.checkpointed)
	if c.Number != 2 || len(c.State) == 0 || c.Reason != "" {
		t.Fatalf("checkpoint after %d, %d bytes, %q", c.Number, len(c.State), c.Reason)
	}
	other := start(t, cfg, wire.Hello{Number: c.Number, State: c.State})
	for range 2 {
		one.result()
	}
	want, got := one.result(), other.do(packet(1, 2, 0xb, 0xa))
	if got.Number != 3 || got.Digest != want.Digest || len(got.Commands) != 2 {
		t.Errorf("restored: %+v\nstraight: %+v", got, want)
	}
}

// A host ends when its controller is killed.
func TestParentKilled(t *testing.T) {
	python := realPython(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RYUHOST_TEST_PARENT="+python)
	cmd.Stderr = t.Output()
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid == 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the parent said %q: %v", line, err)
	}
	child, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Error(err)
	}
	defer unix.Close(child)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	// The descriptor becomes readable when the process has ended, whichever process is its parent by then.
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			_ = unix.PidfdSendSignal(child, syscall.SIGKILL, nil, 0)
			t.Errorf("the host outlives its parent: %v", err)
		}
		return
	}
}

// beParent starts a host that loops, prints its process id, and waits to be killed.
func beParent() {
	ready, results := make(chan struct{}), make(chan struct{}, 1)
	h, err := Start(Config{Python: os.Getenv("RYUHOST_TEST_PARENT"), Applications: []string{"testdata/ending.py"}},
		wire.Hello{Time: began}, signals{ready, results})
	if err != nil {
		panic(err)
	}
	<-ready
	var number uint64
	for _, in := range []wire.Input{up(1), packet(1, 1, 1, 2)} {
		if err := h.Execute(numbered(&number, in), 1); err != nil {
			panic(err)
		}
	}
	<-results // it loops now, and does not notice that the socket is closed
	fmt.Println(h.process.cmd.Process.Pid)
	select {}
}

type signals struct{ ready, results chan struct{} }

func (s signals) Ready(*Host, wire.Ready)                  { close(s.ready) }
func (s signals) Results(*Host, []wire.Result)             { s.results <- struct{}{} }
func (signals) Checkpointed(*Host, uint64, []byte, string) {}
func (signals) Stirred(*Host)                              {}
func (signals) Ended(_ *Host, err *EndError)               { panic(err) }
