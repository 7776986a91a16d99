package ryu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// stay is what most stubs do after their frames.
const stay = "exec sleep 1000"

// stub starts a script in place of a host. SPEAK in the script sends frames.
func stub(t *testing.T, cfg Config, frames []byte, script string) *bed {
	t.Helper()
	path := filepath.Join(t.TempDir(), "frames")
	if err := os.WriteFile(path, frames, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Python, cfg.Applications = executable(t, strings.Replace(script, "SPEAK", "cat '"+path+"' >&3", 1)),
		[]string{"any"}
	return start(t, cfg, wire.Hello{})
}

func frame(t wire.FrameType, body ...byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(1+len(body))), byte(t)), body...)
}

func ready(version byte) []byte {
	return frame(wire.TypeReady, append([]byte{0, version}, make([]byte, 8+4*4)...)...)
}

func results(numbers ...uint64) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(numbers)))
	for _, n := range numbers {
		body = append(binary.BigEndian.AppendUint64(body, n), make([]byte, 8+4*4)...)
	}
	return frame(wire.TypeResults, body...)
}

func checkpointed(number uint64) []byte {
	return frame(wire.TypeCheckpointed, append(binary.BigEndian.AppendUint64(nil, number), make([]byte, 8)...)...)
}

func fatal(text string) []byte {
	return frame(wire.TypeFatal, append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)...)
}

func join(frames ...[]byte) (all []byte) {
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}

func TestProtocol(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []byte
		asked  string // requests before the end: i is an input, c a checkpoint
		want   string
		input  uint64
	}{
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n"), "", "a frame says that it has 1213486160 bytes",
			0},
		{"another version", ready(2), "", "the host speaks version 2 of the protocol", 0},
		{"ready twice", join(ready(1), ready(1)), "", "a second READY frame", 0},
		{"results before ready", results(1), "i", "which nothing asked for now", 0},
		{"results of nothing", join(ready(1), results(1)), "", "1 results from 1 on, which nothing asked for now", 0},
		{"no results", join(ready(1), results()), "i", "RESULTS frame: it is empty", 1},
		{"results of two frames", join(ready(1), results(1, 2)), "ii",
			"2 results from 1 on, which nothing asked for now", 1},
		{"a result is missing", join(ready(1), results(1), results(3)), "iii", "result 3 after 1", 2},
		{"a result twice", join(ready(1), results(1), results(1)), "ii", "result 1 after 1", 2},
		{"results where a checkpoint was asked for", join(ready(1), results(1)), "ci", "which nothing asked for now",
			0},
		{"a checkpoint of nothing", join(ready(1), checkpointed(0)), "i",
			"a CHECKPOINTED frame, which nothing asked for now", 1},
		{"a checkpoint before ready", checkpointed(0), "c", "a CHECKPOINTED frame, which nothing asked for now", 0},
		{"a checkpoint of something else", join(ready(1), results(1), checkpointed(2)), "ic",
			"a checkpoint after input 2, where the last result was 1", 0},
		{"what Holdfast says", join(ready(1), frame(wire.TypeCheckpoint)), "", "a CHECKPOINT frame from a host", 0},
		{"stirred before ready", frame(wire.TypeStirred), "", "a STIRRED frame with 0 bytes, or before READY", 0},
		{"stirred by something", join(ready(1), frame(wire.TypeStirred, 1)), "", "a STIRRED frame with 1 bytes", 0},
		{"a result that is cut", join(ready(1), frame(wire.TypeResults, results(1)[wire.HeaderLen:30]...)), "i",
			"ends within a field", 1},
		{"a fatal that is cut", frame(wire.TypeFatal, 0, 0, 0, 7), "", "FATAL frame: ends within a field", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			b := stub(t, Config{}, tt.frames, "while [ ! -e '"+gate+"' ]; do sleep 0.02; done; SPEAK; "+stay)
			for _, what := range tt.asked {
				if what == 'c' {
					b.host.Checkpoint()
				} else if err := b.host.Execute(numbered(&b.number, wire.Input{Kind: wire.Timer}), 1); err != nil &&
					!errors.Is(err, ErrBusy) {
					t.Fatal(err)
				}
			}
			open(t, gate)
			err := b.end(Protocol)
			if !strings.Contains(err.Detail, tt.want) || err.Input != tt.input {
				t.Errorf("ended at input %d with %q; want %d, %q", err.Input, err.Detail, tt.input, tt.want)
			}
		})
	}
}

func open(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frames []byte
		then   string
		reason Reason
		want   string
	}{
		{"says why", join(ready(1), fatal("no such option")), "exit 1", Fatal, "no such option"},
		{"says why, and stays", fatal("no such option"), stay, Fatal, "no such option"},
		{"exits", ready(1), "echo last words >&2; exit 3", Crashed, "exit status 3\nlast words"},
		{"exits at once", nil, "exit 0", Crashed, "exit status 0"},
		{"exits within a frame", results(1)[:20], "exit 4", Crashed, "exit status 4"},
		{"closes", ready(1), "exec 3>&-; exec sleep 1000", Crashed, "signal: killed"},
		{"is killed", ready(1), "kill -KILL $$", Crashed, "signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := stub(t, Config{plain: true}, tt.frames, "SPEAK; "+tt.then).end(tt.reason); !strings.Contains(err.Detail,
				tt.want) || err.Input != 0 {
				t.Errorf("ended at input %d with %q; want %q", err.Input, err.Detail, tt.want)
			}
		})
	}
}

// Processes that a host has started end with it, without a process namespace those of its group.
func TestGroup(t *testing.T) {
	for _, tt := range []struct {
		leave string
		plain bool
	}{{"", true}, {"", false}, {"setsid", false}} {
		if !tt.plain && !namespaces() {
			continue
		}
		file := filepath.Join(t.TempDir(), "pid") // as this process sees it
		b := stub(t, Config{plain: tt.plain}, ready(1), "SPEAK; "+tt.leave+" sh -c 'read pid rest </proc/self/stat; "+
			"echo $pid >"+file+"; exec sleep 1000' & while [ ! -s "+file+" ]; do sleep 0.02; done; exit 5")
		b.end(Crashed)
		ended(t, file)
	}
}

// namespaces reports whether this process can make some.
func namespaces() bool {
	cmd := exec.Command("true")
	cmd.SysProcAttr = namespace()
	return cmd.Run() == nil
}

// ended waits until the process whose id is in the file has ended.
func ended(t *testing.T, file string) {
	t.Helper()
	text, _ := os.ReadFile(file)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it outlives the host: %s", stat)
		}
	}
}

// A process that has left the group continues and keeps the socket open. The end of the host is detected all the
// same.
func TestLeftGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	b := stub(t, Config{plain: true}, ready(1), "SPEAK; setsid sh -c 'echo $$ >"+file+
		"; exec sleep 1000' & while [ ! -s "+file+" ]; do sleep 0.02; done; exit 5")
	detail := b.end(Crashed).Detail
	text, _ := os.ReadFile(file)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the one that left: %v", err)
	}
	if !strings.Contains(detail, "exit status 5") {
		t.Errorf("ended with %q", detail)
	}
}

func TestNotLoaded(t *testing.T) {
	b := stub(t, Config{loading: 100 * time.Millisecond, Hang: 100 * time.Millisecond}, nil, stay)
	if err := b.end(Hung); !strings.Contains(err.Detail, "the applications were not loaded in 100ms") {
		t.Errorf("ended with %v", err)
	}
}

// A checkpoint may hang, too. Then no input is blamed.
func TestCheckpointHangs(t *testing.T) {
	b := stub(t, Config{Hang: 100 * time.Millisecond}, ready(1),
		"trap 'echo here it is >&2' USR1; SPEAK; sleep 1000 & while :; do wait; done")
	await(b, "READY", b.ready)
	b.host.Checkpoint()
	if err := b.end(Hung); !err.Checkpoint || err.Input != 0 ||
		!strings.Contains(err.Error(), "hung at a checkpoint: no result for 100ms\nhere it is") {
		t.Errorf("ended with %v", err)
	}
}

// A result that arrives after the host was asked what it does is still in time.
func TestSlow(t *testing.T) {
	var octal strings.Builder
	for _, c := range results(1) {
		fmt.Fprintf(&octal, "\\%03o", c)
	}
	b := stub(t, Config{Hang: 100 * time.Millisecond}, ready(1),
		"trap \"printf '"+octal.String()+"' >&3\" USR1; SPEAK; sleep 1000 & while :; do wait; done")
	await(b, "READY", b.ready)
	if r := b.do(wire.Input{Kind: wire.Timer}); r.Number != 1 {
		t.Errorf("result %d", r.Number)
	}
	time.Sleep(lingerTime + time.Second/2) // until it is decided
	b.host.Stop()
	b.end(Stopped)
}

func TestBusy(t *testing.T) {
	b := stub(t, Config{}, ready(1), "SPEAK; "+stay)
	await(b, "READY", b.ready)
	for range Outstanding {
		b.execute(wire.Input{Kind: wire.Timer}, wire.Input{Kind: wire.Timer})
	}
	b.host.Checkpoint() // does not count
	next := numbered(&b.number, wire.Input{Kind: wire.Timer})
	if err := b.host.Execute(next, 1); err != ErrBusy {
		t.Errorf("one too many: %v", err)
	}
	b.host.Stop()
	b.host.Stop()
	if err := b.end(Stopped); err.Input != 1 || err.Checkpoint {
		t.Errorf("no input had a result: %v", err)
	}
	if err := b.host.Execute(next, 1); err != ErrEnded {
		t.Errorf("after the end: %v", err)
	}
}

func TestExecuteRefuses(t *testing.T) {
	b := stub(t, Config{}, ready(1), "SPEAK; "+stay)
	timer := (&wire.Input{Number: 1, Kind: wire.Timer}).Append(nil)
	for _, tt := range []struct {
		name   string
		inputs []byte
		count  int
		want   string
	}{
		{"nothing", nil, 0, "ends within a field"},
		{"none", timer, 0, "0 inputs of 17 bytes do not make a frame"},
		{"a gap", (&wire.Input{Number: 2, Kind: wire.Timer}).Append(nil), 1, "input 2 cannot follow 0"},
		{"too much", append(timer, make([]byte, wire.FrameBytes)...), 2, "do not make a frame"},
	} {
		if err := b.host.Execute(tt.inputs, tt.count); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	b.execute(wire.Input{Kind: wire.Timer}) // the host is not affected
	b.host.Stop()
}

// A host hangs if it has owed an answer for hangTicks and its handler was not busy.
func TestOwes(t *testing.T) {
	for _, tt := range []struct {
		name string
		host *Host
		want bool
	}{
		{"owes a result", &Host{ready: true, pending: []int{1}, idle: hangTicks - 1}, true},
		{"owes a checkpoint", &Host{ready: true, pending: []int{checkpoint}, idle: hangTicks - 1}, true},
		{"not yet", &Host{ready: true, pending: []int{1}, idle: hangTicks - 2}, false},
		{"owes nothing", &Host{ready: true, idle: 100}, false},
		{"has a busy handler", &Host{ready: true, pending: []int{1}, busy: true, idle: 100}, false},
		{"owes READY", &Host{idle: 49}, true},
		{"does not owe READY yet", &Host{pending: []int{1}, idle: 48}, false},
	} {
		if got := tt.host.owes(50); got != tt.want {
			t.Errorf("a host that %s hangs: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestOutput(t *testing.T) {
	b := stub(t, Config{}, nil, "i=0; while [ $i -lt 3000 ]; do echo 'a line of some fifty bytes, more or less, "+
		"not longer'; i=$((i+1)); done; printf 'the end'; exit 1")
	detail := b.end(Crashed).Detail
	if !strings.HasSuffix(detail, "\nthe end") || len(detail) > outputBytes+100 || len(detail) < outputBytes/2 {
		t.Errorf("%d bytes, %q", len(detail), detail[max(0, len(detail)-50):])
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PYTHONPATH", "/users:/more")
	t.Setenv("PYTHONHASHSEED", "7")
	t.Setenv("PYTHONOPTIMIZE", "2")
	var got []string
	for _, v := range environment(Config{Path: []string{"/one", "/two"}}, "/code") {
		if strings.HasPrefix(v, "PYTHON") {
			got = append(got, v)
		}
	}
	if want := []string{"PYTHONPATH=/code:/one:/two:/users:/more", "PYTHONSAFEPATH=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
