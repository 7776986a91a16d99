package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// TestRun takes the place of ryu-manager, with a learning switch of Ryu and two Open vSwitches between three hosts:
// pings pass, and soon by flow entries.
func TestRun(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := needRyu(t)
	lab := netlab.ForTest(t)
	address := freeAddress(t, lab.Addr().String())
	host, port, err := net.SplitHostPort(address)
	check(t, err)
	restHost, restPort, err := net.SplitHostPort(freeAddress(t, "127.0.0.1"))
	check(t, err)
	cmd := exec.Command(plain, "run", "--python", r.Python, "--ofp-listen-host", host, "--ofp-tcp-listen-port", port,
		"--wsapi-host", restHost, "--wsapi-port", restPort, "ryu.app.simple_switch_13")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+strings.Join(r.Path, ":"))
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
	var hosts []*netlab.Host
	var between []*netlab.Switch
	for i := range 2 {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		check(t, err)
		check(t, sw.SetControllers(address))
		between = append(between, sw)
	}
	_, err = lab.Connect(between[0], between[1])
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
	check(t, cmd.Process.Signal(syscall.SIGINT))
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("run ended with %v", err)
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
