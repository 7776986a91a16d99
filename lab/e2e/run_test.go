package e2e

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// TestRun takes the place of ryu-manager, with a learning switch of Ryu and two Open vSwitches between three hosts:
// pings pass, and soon by flow entries. The application is for OpenFlow 1.3, or 1.0 as that of Ryu's tutorial.
func TestRun(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for _, name := range []string{"simple_switch_13", "simple_switch"} {
		t.Run(name, func(t *testing.T) { runsAlone(t, "ryu.app."+name) })
	}
}

func runsAlone(t *testing.T, app string) {
	r := needRyu(t)
	lab := netlab.ForTest(t)
	address := freeAddress(t, lab.Addr().String())
	end := startRun(t, r, address, app)
	var hosts []*netlab.Host
	var between []*netlab.Switch
	for i := range 2 {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		check(t, err)
		check(t, sw.SetControllers(address))
		between = append(between, sw)
	}
	_, err := lab.Connect(between[0], between[1])
	check(t, err)
	for i := range 3 {
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), 24))
		check(t, err)
		_, err = lab.Connect(between[i%2], h)
		check(t, err)
		hosts = append(hosts, h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, to := range []byte{2, 3, 1} {
		await.Until(t, fmt.Sprintf("an answer to a ping of host %d", i+1), func() bool {
			echoes, err := hosts[i].Ping(ctx, netip.AddrFrom4([4]byte{10, 77, 0, to}), 3, 100*time.Millisecond,
				time.Second)
			check(t, err)
			for _, e := range echoes {
				if e.Replies != 1 {
					return false
				}
			}
			return true
		})
	}
	for _, sw := range between {
		flows, err := sw.Flows()
		check(t, err)
		if text := strings.Join(flows, "\n"); !strings.Contains(text, "dl_dst") {
			t.Errorf("no flow entry was learned:\n%s", text)
		}
	}
	end()
}

// TestRunReachesOut: sockets and programs of applications work in holdfast run. When the host dies, the application
// begins again, and what it did is not repeated.
func TestRunReachesOut(t *testing.T) {
	t.Parallel()
	r := needRyu(t)
	answers := freeAddress(t, "127.0.0.1")
	notes := filepath.Join(t.TempDir(), "notes")
	end := startRun(t, r, freeAddress(t, "127.0.0.1"), "testdata/answering.py", "ANSWERS="+answers, "NOTES="+notes)
	say := func(words ...string) (said []string, err error) {
		conn, err := net.Dial("tcp", answers)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		lines := bufio.NewReader(conn)
		for _, word := range words {
			_, err := io.WriteString(conn, word+"\n")
			line, readErr := lines.ReadString('\n')
			if err := cmp.Or(err, readErr); err != nil {
				return said, err
			}
			said = append(said, strings.TrimSpace(line))
		}
		return said, nil
	}
	await.Until(t, "the application listens", func() bool { _, err := say(); return err == nil })
	if got, err := say("one", "two", "die"); err == nil || !slices.Equal(got, []string{"ONE", "TWO"}) {
		t.Errorf("the program that the application starts says %q, and then the error is %v", got, err)
	}
	await.Until(t, "an answer of the application that has begun again", func() bool {
		got, err := say("three")
		return err == nil && slices.Equal(got, []string{"THREE"})
	})
	if noted, err := os.ReadFile(notes); string(noted) != "one\ntwo\nthree\n" {
		t.Errorf("the application did %q, %v", noted, err)
	}
	end()
}

// startRun starts holdfast run with an application, where switches find it at an address. The returned function
// interrupts it.
func startRun(t *testing.T, r cluster.Ryu, address, app string, env ...string) (end func()) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	check(t, err)
	restHost, restPort, err := net.SplitHostPort(freeAddress(t, "127.0.0.1"))
	check(t, err)
	cmd := exec.Command(plain, "run", "--python", r.Python, "--ofp-listen-host", host, "--ofp-tcp-listen-port", port,
		"--wsapi-host", restHost, "--wsapi-port", restPort, app)
	cmd.Env = append(append(os.Environ(), "PYTHONPATH="+strings.Join(r.Path, ":")), env...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, cmd.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return func() {
		t.Helper()
		check(t, cmd.Process.Signal(syscall.SIGINT))
		ended = true
		if err := cmd.Wait(); err != nil {
			t.Errorf("run ended with %v", err)
		}
	}
}

// freeAddress returns one that nobody listens at.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	addresses, err := cluster.FreeAddresses(host, 1)
	check(t, err)
	return addresses[0]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
