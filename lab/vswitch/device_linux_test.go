package vswitch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// inNamespace moves the test's thread, which ends with the test, into a network namespace of its own.
func inNamespace(t *testing.T) func(args ...string) {
	if os.Geteuid() != 0 {
		t.Skip("devices need root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace here: %v", err)
	}
	return func(args ...string) {
		t.Helper()
		// A child starts in the namespace of the thread that starts it, which is this one.
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
}

// Frames pass a veth pair in both directions with their VLAN tags, and the carrier state follows the peer.
func TestVethDevice(t *testing.T) {
	ip := inNamespace(t)
	for i := range 2 {
		ip("link", "add", fmt.Sprintf("sw%d", i), "type", "veth", "peer", "name", fmt.Sprintf("host%d", i))
		ip("link", "set", fmt.Sprintf("sw%d", i), "up")
		ip("link", "set", fmt.Sprintf("host%d", i), "up")
	}
	r := startRunner(t, RunnerConfig{Switch: Config{Ports: Ports(1, 2)}})
	flood(t, r)
	served := make(chan error, 2)
	var hosts [2]*Device
	for i := range hosts {
		d, err := OpenDevice(fmt.Sprintf("sw%d", i))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		go func() { served <- d.Serve(r, of13.Port(i+1)) }()
		if hosts[i], err = OpenDevice(fmt.Sprintf("host%d", i)); err != nil {
			t.Fatal(err)
		}
		defer hosts[i].Close()
	}
	live := func(no of13.Port) (up bool) {
		r.Do(func(s *Switch, _ time.Duration) { up = s.ports[no].live() })
		return up
	}
	await.Until(t, "both ports live", func() bool { return live(1) && live(2) })
	tagged := append(append(append([]byte(nil), ping(1)[:12]...), 0x81, 0, 0x60, 42), ping(1)[12:]...)
	for _, want := range [][]byte{ping(7), tagged} {
		for from := range hosts {
			to := hosts[1-from]
			got := make(chan []byte, 1)
			go func() {
				b := make([]byte, MaxFrame)
				for {
					n, err := to.Read(b)
					if err != nil || n > ethLen && of13.MAC(b[6:12]) == macA {
						got <- b[:n]
						return
					}
				}
			}()
			await.Until(t, "the frame is through", func() bool {
				if _, err := hosts[from].Write(want); err != nil {
					t.Fatal(err)
				}
				select {
				case b := <-got:
					if !bytes.Equal(b, want) {
						t.Fatalf("got %x, want %x", b, want)
					}
					return true
				case <-time.After(50 * time.Millisecond):
					return false
				}
			})
		}
	}
	ip("link", "set", "host0", "down")
	await.Until(t, "port 1 is down", func() bool { return !live(1) })
	r.Close()
	for range 2 {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestTAPDevice(t *testing.T) {
	ip := inNamespace(t)
	d, err := OpenTAP("tap0")
	if err != nil {
		t.Skipf("no TAP interfaces here: %v", err)
	}
	defer d.Close()
	if d.Up() {
		t.Error("a TAP interface is up before anybody brought it up")
	}
	ip("link", "set", "tap0", "up")
	await.Until(t, "the TAP interface is up", d.Up)
	raw, err := OpenDevice("tap0") // the host's side
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := d.Write(ping(3)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, MaxFrame)
	for {
		n, err := raw.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(b[:n], ping(3)) {
			return
		}
	}
}
