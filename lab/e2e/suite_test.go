package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/promises"
)

const (
	routerConfig = `{"interfaces":[{"name":"a","mac":"02:01:00:00:00:01","ports":[1],"addresses":["10.0.1.1/24",` +
		`"2001:db8:1::1/64"]},{"name":"b","mac":"02:01:00:00:00:02","ports":[2],"addresses":["10.0.2.1/24",` +
		`"2001:db8:2::1/64"]}],"routes":[{"prefix":"10.9.0.0/16","via":"10.0.2.99"}]}`
	accessList = `{"default":"deny","rules":[{"action":"allow","protocol":"arp"},` +
		`{"action":"allow","protocol":"icmpv6"},{"action":"allow","protocol":"icmp"},` +
		`{"action":"deny","protocol":"udp","destination_ports":"1-%d"},{"action":"allow","protocol":"udp"}]}`
)

// routed is a switch that is a router with a firewall, and a host in each of two subnets, at ports 1 and 2.
type routed struct {
	*testCluster
	web   *web
	sw    *netlab.Switch
	hosts [2]*netlab.Host
	at    [2]*station
}

func startRouted(t *testing.T, m mode) *routed {
	t.Helper()
	groups := "groups: 1\n"
	if m.stock {
		groups = "groups: per-controller\n"
	}
	r := &routed{testCluster: m.start(t, 1, cluster.Config{Apps: []string{"firewall", "router"}, Binary: plain,
		Patience: 4 * patience, Sections: groups}), web: newWeb(t)}
	lab := r.lab()
	var err error
	r.sw, err = lab.AddSwitch("s1", 1)
	r.check(err)
	for i := range r.hosts {
		n := byte(i + 1)
		r.hosts[i], err = lab.AddHost(fmt.Sprintf("h%d", n), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, n, 10}), 24))
		r.check(err)
		r.at[i] = r.plug(lab, r.sw, r.hosts[i])
		r.check(r.hosts[i].Do(func() error { // labs do without IPv6, which sends frames by itself
			return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte("0"), 0o644)
		}))
		for _, args := range []string{fmt.Sprintf("route add default via 10.0.%d.1", n),
			fmt.Sprintf("-6 addr add 2001:db8:%d::10/64 dev eth0 nodad", n),
			fmt.Sprintf("-6 route add default via 2001:db8:%d::1", n)} {
			if out := r.inside(i, "ip "+args); out != "" {
				t.Fatalf("ip %s: %s", args, out)
			}
		}
	}
	r.control(lab, []*netlab.Switch{r.sw})
	return r
}

// inside runs a command at a host, and returns what it prints.
func (r *routed) inside(host int, command string) string {
	args := append([]string{"netns", "exec", r.hosts[host].Namespace}, strings.Fields(command)...)
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	return string(out)
}

// put configures an application, by whichever controller answers.
func (r *routed) put(path, body string) {
	r.t.Helper()
	await.Until(r.t, path+" to be configured", func() bool {
		for _, c := range r.Controllers() {
			if status, _ := r.web.ask(c, "PUT", path, body); status == http.StatusOK || status == http.StatusNoContent {
				return true
			}
		}
		return false
	})
}

// decides waits until the switch decides by a version of the list, and what it says of the list has a text.
func (r *routed) decides(version int, says string) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("version %d of the list, %s", version, says), func() bool {
		for _, c := range r.Controllers() {
			_, text := r.web.ask(c, "GET", "/apps/firewall/switches/1", "")
			if strings.Contains(text, fmt.Sprintf(`"version":%d,`, version)) && strings.Contains(text, says) {
				return true
			}
		}
		return false
	})
}

// reach waits until the first host has an answer to a ping that contains a text.
func (r *routed) reach(ping, says string) {
	r.t.Helper()
	await.Until(r.t, ping+" to say "+says, func() bool {
		return strings.Contains(r.inside(0, "ping -c 1 -W 1 "+ping), says)
	})
}

// datagram is a frame of UDP from the first host to the second, by the router, to a port.
func datagram(port uint16, l string) []byte {
	f := []byte{2, 1, 0, 0, 0, 1, 2, 0, 10, 0, 1, 10, 0x08, 0x00}
	ip := []byte{0x45, 0, 0, 20 + 8 + labelLen, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 10, 10, 0, 2, 10}
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum&0xffff))
	f = append(append(f, ip...), 0x30, 0x39, byte(port>>8), byte(port), 0, 8+labelLen, 0, 0)
	return append(f, label(l)...)
}

// Hosts in two subnets reach each other through an Open vSwitch that routes and filters. What the access list forbids
// never passes: not before the list is there, nor when it changes, nor when the leader dies or the switch restarts.
func TestRouterBehindFirewall(t *testing.T) {
	inModes(t, []mode{withAgents, stockOVS}, func(t *testing.T, m mode) {
		needOVS(t)
		r := startRouted(t, m)
		forbidden := r.at[0].stream(t, datagram(53, "no"))
		r.put("/apps/router/1", routerConfig)
		if out := r.inside(0, "ping -c 1 -W 1 10.0.1.1"); strings.Contains(out, "1 received") {
			t.Errorf("without a list, a ping is answered: %s", out)
		}
		r.put("/apps/firewall/list", fmt.Sprintf(accessList, 100))
		r.decides(1, "")
		r.reach("10.0.1.1", "1 received")
		r.reach("10.0.2.10", "1 received")
		r.reach("2001:db8:2::10", "1 received")
		r.reach("10.0.2.10", "1 received") // by a flow entry, as the next ones
		r.reach("2001:db8:2::10", "1 received")
		r.reach("-t 1 10.0.2.10", "Time to live exceeded")
		r.reach("-t 1 2001:db8:2::10", "Time exceeded")
		r.reach("10.9.9.9", "Destination Host Unreachable")
		r.reach("192.0.2.1", "Destination Net Unreachable")
		r.reach("2001:db8:ffff::1", "No route")

		allowed := r.at[0].stream(t, datagram(8080, "yes"))
		flows := func() bool { return r.at[1].count("yes") > 0 }
		await.Until(t, "a datagram that the list allows", flows)
		leader := r.leader()
		r.put("/apps/firewall/list", fmt.Sprintf(accessList, 1023))
		r.check(leader.Kill()) // while the list changes
		r.decides(2, "")
		seen := r.at[1].count("yes")
		await.Until(t, "datagrams after the death of the leader", func() bool { return r.at[1].count("yes") > seen })
		r.reach("10.0.2.10", "1 received")
		r.check(r.sw.Kill())
		r.check(r.sw.Start())
		r.waitUp(1)
		r.decides(2, "")
		seen = r.at[1].count("yes")
		await.Until(t, "datagrams after the restart of the switch", func() bool { return r.at[1].count("yes") > seen })
		allowed()
		forbidden()
		if n := r.at[1].count("no"); n > 0 {
			t.Errorf("%d datagrams passed that the list forbids", n)
		}
	})
}

// A switch that has no room for a new list keeps the old one, and says so.
func TestFirewallWithoutRoom(t *testing.T) {
	inModes(t, []mode{withAgents, stockOVS}, func(t *testing.T, m mode) {
		needOVS(t)
		r := startRouted(t, m)
		r.put("/apps/router/1", routerConfig)
		r.put("/apps/firewall/list", fmt.Sprintf(accessList, 1023))
		r.decides(1, `"table":1`)
		r.reach("10.0.2.10", "1 received")
		r.check(r.sw.LimitFlows(2, 8))
		forbidden := r.at[0].stream(t, datagram(53, "no"))
		r.put("/apps/firewall/list", `{"default":"allow","rules":[{"action":"allow","protocol":"udp",`+
			`"destination_ports":"1-65534"},{"action":"deny"}]}`)
		r.decides(1, `"refused":"`)
		r.reach("10.0.2.10", "1 received")
		forbidden()
		if n := r.at[1].count("no"); n > 0 {
			t.Errorf("%d datagrams passed that the list forbids", n)
		}
	})
}

// TestSuiteDemo: the demo of the suite.
func TestSuiteDemo(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"per-controller", "1"} {
		if groups == "1" && !everything {
			continue
		}
		t.Run("groups "+groups, func(t *testing.T) {
			start := time.Now()
			r, err := promises.Run(t.Context(), promises.Config{Binary: plain, Dir: t.TempDir(), Groups: groups,
				Between: 100 * time.Millisecond}, func(line string) { t.Log(time.Since(start), line) })
			if err = errors.Join(err, r.Err()); err != nil || len(r.Promises) != 5 {
				t.Errorf("%+v: %v", r.Promises, err)
			}
		})
	}
}

// Open vSwitches have the tables of a firewall, traffic engineering, routers and recovery together: what the list
// forbids does not pass, the rest is routed, also past a link that is dead.
func TestPipeline(t *testing.T) {
	notInShort(t)
	needOVS(t)
	if !everything {
		t.Skip("HOLDFAST_MATRIX=all is not set")
	}
	r := stockOVS.startRecovery(t, 3, cluster.Config{Apps: []string{"firewall", "kandoo", "router", "recovery"}},
		"hold_down_ms: 3000", "floor_ms: 200, multiplier: 5", [2]int{1, 2}, [2]int{1, 3}, [2]int{2, 3})
	forbidden := r.at[0].stream(t, datagram(53, "no"))
	apps := &routed{testCluster: r.testCluster, web: newWeb(t)}
	apps.put("/apps/firewall/list", strings.Replace(fmt.Sprintf(accessList, 100), `{"action":"allow","protocol":"arp"}`,
		`{"action":"allow","protocol":"arp"},{"action":"allow","protocol":"lldp"},{"action":"allow","protocol":"0x88b5"}`, 1))
	for i := range r.nodes {
		apps.put(fmt.Sprintf("/apps/router/%d", i+1), `{"interfaces":[{"name":"a","mac":"02:01:00:00:00:01","ports":[1],`+
			`"addresses":["10.100.0.254/24"]}],"routes":[{"prefix":"10.0.2.0/24","via":"10.100.0.2"}]}`)
	}
	r.meet(1, 2)
	await.Until(t, "the router to answer", func() bool {
		echoes, err := r.hosts[0].Ping(r.ctx, netip.MustParseAddr("10.100.0.254"), 1, time.Second, time.Second)
		r.check(err)
		return echoes[0].Replies > 0
	})
	direct := [2]int{1, 2}
	r.protected("at first", direct, true)
	await.Until(t, "BFD on the link", func() bool { return r.bfd(direct, "state") == [2]string{"up", "up"} })
	allowed := r.at[0].stream(t, datagram(8080, "yes"))
	await.Until(t, "a flow entry of the router", func() bool {
		return slices.ContainsFunc(r.holds(1), func(f string) bool { return strings.Contains(f, "dec_ttl") })
	})
	for _, c := range r.Controllers() {
		r.check(c.Kill())
	}
	r.check(r.links[direct].CutSilently())
	await.Until(t, "BFD to notice", func() bool { return r.bfd(direct, "state") == [2]string{"down", "down"} })
	seen := r.at[1].count("yes")
	await.Until(t, "a datagram past the link", func() bool { return r.at[1].count("yes") > seen })
	allowed()
	forbidden()
	if n := r.at[1].count("no"); n > 0 {
		t.Errorf("%d datagrams passed that the list forbids", n)
	}
}
