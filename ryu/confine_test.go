package ryu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// reaching is an application that makes each call that reaches out of its process.
const reaching = "../python/tests/apps/reaching.py"

// The controller is process 1, as in a container. An application makes each call that reaches out of its process, and
// another one sends signals past Python: neither the controller nor another process ends.
func TestControllerIsFirstProcess(t *testing.T) {
	python := realPython(t)
	if _, err := exec.LookPath("unshare"); err != nil || os.Geteuid() != 0 {
		absent(t, "needs root and unshare")
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", os.Args[0])
	cmd.Env = append(os.Environ(), "RYUHOST_TEST_FIRST="+python)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	calls := regexp.MustCompile(`(?m)^    "`).FindAllString(readAll(t, reaching), -1)
	want := fmt.Sprintf("%d calls refused, 4 signals without effect, all alive\n", len(calls))
	if err != nil || string(out) != want {
		t.Errorf("it said %q, want %q: %v", out, want, err)
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// beFirst is the controller of TestControllerIsFirstProcess.
func beFirst() {
	if os.Getpid() != 1 {
		panic("not the first process")
	}
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		panic(err)
	}
	// The first host is in the namespace of this process, as where the system allows no further one.
	refused, _ := provoke(reaching, true)
	_, survived := provoke("testdata/signalling.py", false)
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		panic(err)
	}
	fmt.Printf("%d calls refused, %d signals without effect, all alive\n", refused, survived)
	os.Exit(0) // and with it all processes of the namespace
}

// provoke has an application make its calls, one for a packet from each port, until it knows no further one. It counts
// the calls that were refused, and those that were not.
func provoke(app string, plain bool) (refused, done int) {
	to := make(chan any, 1)
	h, err := Start(Config{Python: os.Getenv("RYUHOST_TEST_FIRST"), Applications: []string{app}, plain: plain},
		wire.Hello{Time: began}, teller(to))
	if err != nil {
		panic(err)
	}
	defer h.Stop()
	<-to // READY
	var number uint64
	execute := func(in wire.Input) wire.Result {
		if err := h.Execute(numbered(&number, in), 1); err != nil {
			panic(err)
		}
		r, ok := (<-to).([]wire.Result)
		if !ok {
			panic("the host has ended")
		}
		return r[0]
	}
	execute(up(1))
	for port := of13.Port(1); ; port++ {
		switch r := execute(packet(1, port, 1, 2)); {
		case len(r.Failures) == 0:
			done++
		case strings.Contains(r.Failures[0].Traceback, "Refused: "):
			refused++
		default: // an index out of range
			return refused, done
		}
	}
}

// teller passes on what a Host says.
type teller chan<- any

func (t teller) Ready(_ *Host, r wire.Ready)              { t <- r }
func (t teller) Results(_ *Host, r []wire.Result)         { t <- r }
func (teller) Checkpointed(*Host, uint64, []byte, string) {}
func (teller) Stirred(*Host)                              {}
func (t teller) Ended(_ *Host, err *EndError) {
	if err.Reason != Stopped {
		t <- err
	}
}

func TestAccount(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", me.Username} {
		if a, err := findAccount(name); a != nil || err != nil {
			t.Errorf("%q: %+v, %v", name, a, err)
		}
	}
	if _, err := findAccount("no-such-user"); err == nil ||
		!strings.Contains(err.Error(), "useradd --system no-such-user") {
		t.Errorf("no such user: %v", err)
	}
	other := "nobody"
	if me.Username == other {
		other = "root"
	}
	a, err := findAccount(other)
	if me.Uid != "0" {
		if err == nil || !strings.Contains(err.Error(), "only root can") {
			t.Errorf("as %s: %v", me.Username, err)
		}
		return
	}
	if err != nil || a.id == 0 || a.group == 0 {
		t.Errorf("as root: %+v, %v", a, err)
	}
}

// A host of another user has the rights of that user and its home, and can read the code of the host.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	python := executable(t, `echo "$(id -u) $(id -g) $HOME $USER" >&2
cat "$PYTHONPATH/holdfast_ryu/host.py" >/dev/null || exit 2
if [ "$3" = probe ]; then exit 1; fi
exit 3`)
	for dir := python; dir != os.TempDir() && dir != "/"; dir = dir[:strings.LastIndexByte(dir, '/')] {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PYTHONPATH", "")
	want := fmt.Sprintf("%s %s %s nobody", u.Uid, u.Gid, u.HomeDir)
	cfg := Config{Python: python, Applications: []string{"any"}, User: "nobody"}
	if err := start(t, cfg, wire.Hello{}).end(Crashed); err.Detail != "exit status 3\n"+want {
		t.Errorf("a host ends with %q; want %q", err.Detail, want)
	}
	if _, err := Probe(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a probe ends with %v; want %q", err, want)
	}
	cfg.User = "no-such-user"
	if _, err := Probe(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "no-such-user") {
		t.Errorf("a probe of an unknown user: %v", err)
	}
}
