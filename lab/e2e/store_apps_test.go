package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/share"
	"github.com/holdfast-sdn/holdfast/store"
)

// storeApp is a process of holdfast store app.
type storeApp struct {
	cmd *exec.Cmd
	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Write takes what the process logs.
func (a *storeApp) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(b)
}

// connected reports whether the switch has connected.
func (a *storeApp) connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Contains(a.log.String(), "switch connected")
}

// startApp starts an application on the store, which ends with the test.
func (s *testCluster) startApp(args ...string) *storeApp {
	s.t.Helper()
	a := &storeApp{cmd: exec.Command(plain, append([]string{"store", "app", "--config", s.ClusterFile()}, args...)...)}
	a.cmd.Stderr = a
	s.check(a.cmd.Start())
	s.t.Cleanup(func() { a.kill(syscall.SIGTERM) })
	return a
}

func (a *storeApp) kill(by syscall.Signal) {
	_ = a.cmd.Process.Signal(by) // it may have ended
	_ = a.cmd.Wait()
}

// ping pings until there is an answer.
func (s *testCluster) ping(from *netlab.Host, to netip.Addr) {
	s.t.Helper()
	await.Until(s.t, "an answer from "+to.String(), func() bool {
		echoes, err := from.Ping(s.ctx, to, 1, time.Millisecond, time.Second)
		s.check(err)
		return len(echoes) == 1 && echoes[0].Replies == 1
	})
}

// TestAppsInside: the applications of TestStoreApps as handlers, in several groups. The next leader knows what the
// killed one has learned.
func TestAppsInside(t *testing.T) {
	notInShort(t)
	t.Parallel()
	lab := netlab.ForTest(t)
	s := startCluster(t, cluster.Config{Apps: []string{"learning", "balancer", "devices"}, Listen: lab.Addr().String(),
		Sections: "groups: per-controller\n"})
	s.expectDeaths()
	sw, hosts := oneSwitch(t, lab, 4)
	var at, rest []string
	for _, n := range s.Controllers() {
		at, rest = append(at, n.OpenFlow), append(rest, n.REST)
	}
	s.check(sw.SetControllers(at...))
	s.waitUp(1)
	ask := func(method, path, body string) (status int, text string) {
		await.Until(t, method+" "+path, func() bool {
			for _, address := range rest { // one may be dead
				r, err := http.NewRequestWithContext(s.ctx, method, "http://"+address+"/apps/"+path,
					strings.NewReader(body))
				s.check(err)
				if answer, err := http.DefaultClient.Do(r); err == nil {
					b, _ := io.ReadAll(answer.Body)
					answer.Body.Close()
					if status, text = answer.StatusCode, string(b); status < 500 {
						return true
					}
				}
			}
			return false
		})
		return status, text
	}
	vip := netip.MustParseAddr("10.100.0.100")
	server := func(i int) string {
		return fmt.Sprintf(`{"address": %q, "mac": %q, "port": %d}`, hosts[i].Addr.Addr(), hosts[i].MAC, i+1)
	}
	status, text := ask("PUT", "balancer/"+vip.String(), fmt.Sprintf(`{"mac": "02:01:00:00:00:64", "servers": [%s, %s]}`,
		server(1), server(2)))
	if status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	s.ping(hosts[0], hosts[1].Addr.Addr())
	s.ping(hosts[0], vip)
	s.check(s.leader().Kill())
	s.ping(hosts[3], vip)
	s.ping(hosts[3], hosts[0].Addr.Addr())
	for _, h := range []*netlab.Host{hosts[0], hosts[3]} { // each application answers a packet when it comes to it
		await.Until(t, "the device with "+h.Addr.String(), func() bool {
			_, text := ask("GET", "devices/"+h.MAC.String(), "")
			return strings.Contains(text, h.Addr.Addr().String())
		})
	}
}

// TestStoreApps: a learning switch, a load balancer and a device manager, in processes of their own, serve one switch.
// All they know is in the store: one of them is killed and another one goes on, and so do all when the leader is.
func TestStoreApps(t *testing.T) {
	notInShort(t)
	t.Parallel()
	lab := netlab.ForTest(t)
	host := lab.Addr().String()
	s := startCluster(t, cluster.Config{Apps: []string{store.Name}, Listen: host})
	s.expectDeaths()
	sw, hosts := oneSwitch(t, lab, 4)
	at, err := cluster.FreeAddresses(host, 4)
	s.check(err)
	vip := netip.MustParseAddr("10.100.0.100")
	members := fmt.Sprintf("%v/020100000064=10.100.0.2/%s@2,10.100.0.3/%s@3", vip, hosts[1].MAC, hosts[2].MAC)
	learning := s.startApp("learning", "--variant", "cache", "--listen", at[0])
	balancer := s.startApp("balancer", "--variant", "micro", "--listen", at[1], "--vip", members)
	devicesApp := s.startApp("devices", "--variant", "cols", "--listen", at[2])
	s.check(sw.SetControllers(at[:3]...))
	await.Until(t, "the switch to connect", func() bool {
		return learning.connected() && balancer.connected() && devicesApp.connected()
	})
	ping := s.ping
	flows := func() string {
		list, err := sw.OFCtl("dump-flows")
		s.check(err)
		return list
	}
	ping(hosts[0], hosts[1].Addr.Addr())
	ping(hosts[0], vip)
	await.Until(t, "both directions in the switch", func() bool {
		return strings.Contains(flows(), "nw_dst="+vip.String()) && strings.Contains(flows(), "nw_src=10.100.0.2") ||
			strings.Contains(flows(), "nw_src=10.100.0.3")
	})
	devices := func() int { return strings.Count(s.command("store", "list", "devices"), "10.100.0.") }
	await.Until(t, "two devices or more", func() bool { return devices() >= 2 }) // a repeated ping has the next member
	// The next process knows what the killed one has learned.
	learning.kill(syscall.SIGKILL)
	learning = s.startApp("learning", "--variant", "cache", "--listen", at[3])
	s.check(sw.SetControllers(at[3], at[1], at[2]))
	await.Until(t, "the switch to connect to the next one", learning.connected)
	s.check(s.leader().Kill())
	ping(hosts[1], hosts[2].Addr.Addr())
	_, err = sw.OFCtl("del-flows")
	s.check(err)
	_, err = sw.OFCtl("add-flow", "priority=0,actions=CONTROLLER:65535")
	s.check(err)
	ping(hosts[3], hosts[0].Addr.Addr())
	if !strings.Contains(flows(), "dl_dst="+hosts[0].MAC.String()) {
		t.Errorf("the port of a host is not known any more: %s", flows())
	}
	ping(hosts[3], vip)
	await.Until(t, "four devices", func() bool { return devices() == 4 })
}

// TestStoreDemo: the demo of the store.
func TestStoreDemo(t *testing.T) {
	t.Parallel()
	r, err := share.Run(t.Context(), share.Config{Binary: plain, Dir: t.TempDir(), Kills: 1,
		Between: 300 * time.Millisecond}, func(line string) { t.Log(line) })
	if err = errors.Join(err, r.Err()); err != nil || len(r.Writers) != 3 || r.Rows == 0 {
		t.Errorf("%+v: %v", r, err)
	}
}
