package ryu

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
	"go.uber.org/goleak"
)

// patience is the timeout for what must happen, even on a busy machine.
const patience = 2 * time.Minute

// usersCache is where the tests of python/ keep Ryu's sources. TestMain gives the tests of this package a cache of
// their own.
var usersCache string

func TestMain(m *testing.M) {
	if os.Getenv("RYUHOST_TEST_PARENT") != "" {
		beParent()
	}
	if os.Getenv("RYUHOST_TEST_FIRST") != "" {
		beFirst()
	}
	usersCache = os.Getenv("XDG_CACHE_HOME")
	cache, err := os.MkdirTemp("", "ryu-test-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", cache)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(cache)
		os.Exit(code)
	}))
}

// bed is a Host, the frames that it sends, and the numbers of its inputs.
type bed struct {
	t            *testing.T
	host         *Host
	ready        chan wire.Ready
	results      chan wire.Result
	checkpointed chan wire.Checkpointed
	stirred      chan struct{}
	ended        chan *EndError
	number       uint64
}

func (b *bed) Ready(_ *Host, r wire.Ready) { b.ready <- r }
func (b *bed) Stirred(*Host)               { b.stirred <- struct{}{} }
func (b *bed) Results(_ *Host, results []wire.Result) {
	for _, r := range results {
		b.results <- r
	}
}
func (b *bed) Checkpointed(_ *Host, number uint64, state []byte, reason string) {
	b.checkpointed <- wire.Checkpointed{Number: number, State: state, Reason: reason}
}
func (b *bed) Ended(_ *Host, err *EndError) { b.ended <- err } // a second call would block

const began = 1_700_000_000_000_000_000

func start(t *testing.T, cfg Config, hello wire.Hello) *bed {
	t.Helper()
	b := &bed{
		t: t, ready: make(chan wire.Ready, 1), results: make(chan wire.Result, 1000),
		checkpointed: make(chan wire.Checkpointed, 1), stirred: make(chan struct{}, 1000), ended: make(chan *EndError, 1), number: hello.Number,
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Cluster, cfg.LogLevel = "cluster", 20
	hello.Seed, hello.Time = 7, began
	var err error
	if b.host, err = Start(cfg, hello, b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.host.Stop)
	return b
}

func await[T any](b *bed, what string, from chan T) (value T) {
	b.t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		b.t.Fatalf("no %s came; the host printed:\n%s", what, b.host.process.out.since(0))
	}
	return value
}

// execute numbers inputs, and sends them at once.
func (b *bed) execute(inputs ...wire.Input) {
	b.t.Helper()
	buf := numbered(&b.number, inputs...)
	if err := b.host.Execute(buf, len(inputs)); err != nil {
		b.t.Fatal(err)
	}
	clear(buf) // the buffer belongs to the caller again
}

func numbered(number *uint64, inputs ...wire.Input) (buf []byte) {
	for _, in := range inputs {
		*number++
		in.Number, in.Time = *number, began+int64(*number)*int64(time.Millisecond)
		buf = in.Append(buf)
	}
	return buf
}

// do executes one input, and returns its result.
func (b *bed) do(in wire.Input) wire.Result {
	b.t.Helper()
	b.execute(in)
	return b.result()
}

// result returns the next result, or reports that the host has ended instead.
func (b *bed) result() wire.Result {
	b.t.Helper()
	select {
	case r := <-b.results:
		return r
	case err := <-b.ended:
		b.ended <- err
		b.t.Fatalf("no result: %v", err)
	case <-time.After(patience):
		b.t.Fatalf("no result came; the host printed:\n%s", b.host.process.out.since(0))
	}
	return wire.Result{}
}

// end returns how the host ended, which must be for this reason.
func (b *bed) end(reason Reason) *EndError {
	b.t.Helper()
	err := await(b, "end", b.ended)
	if err.Reason != reason {
		b.t.Fatalf("ended as %s, not as %s: %v", err.Reason, reason, err)
	}
	b.host.Stop() // has no effect any more
	return err
}

func up(id openflow.DatapathID) wire.Input {
	features := of13.FeaturesReply{DatapathID: id, NTables: 254}
	ports := of13.List[of13.PortDesc]{}
	for port := of13.Port(1); port <= 3; port++ {
		ports = ports.With(of13.PortDesc{Port: port, HwAddr: of13.MAC{2, 0, 0, 0, byte(id), byte(port)},
			Name: fmt.Sprintf("s%d-eth%d", id, port)})
	}
	reply := of13.MultipartReply{Part: of13.PartPortDesc, Body: ports}
	return wire.Input{Kind: wire.Up, Switch: id, Features: features.Append(nil, 0), Ports: reply.Append(nil, 0)}
}

// packet is a frame from one host to another, by number, that arrived at a port.
func packet(id openflow.DatapathID, port of13.Port, from, to byte) wire.Input {
	frame := append([]byte{0, 0, 0, 0, 0, to, 0, 0, 0, 0, 0, from, 0x88, 0xb5}, make([]byte, 46)...)
	m := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(frame)), Match: of13.Match(nil).WithInPort(port),
		Data: frame}
	return wire.Input{Kind: wire.Message, Switch: id, Message: m.Append(nil, 0)}
}

// realPython returns the Python of the tests, or skips the test.
func realPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" {
		absent(t, "HOLDFAST_PYTHON does not name a python that has os-ken")
	}
	if out, err := exec.Command(python, "-c", "import os_ken, greenlet, routes, webob").CombinedOutput(); err != nil {
		absent(t, "%s lacks what a host needs: %v\n%s", python, err, out)
	}
	return python
}

// absent skips the test, or fails it if nothing may be missing.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// ryu returns the folder of Ryu's own applications, which the tests of python/ download.
func ryu(t *testing.T, python string) string {
	t.Helper()
	cmd := exec.Command(python, "-c", "import conftest; print(conftest.fetched())")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../python/tests", "PYTHONDONTWRITEBYTECODE=1",
		"XDG_CACHE_HOME="+usersCache)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		absent(t, "there are no applications of Ryu: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// executable writes a script that replaces Python.
func executable(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
