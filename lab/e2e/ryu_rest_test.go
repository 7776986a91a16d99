package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestRyuRESTInFlight: requests wait for an application when the leader dies, one sent to the leader and one to a
// follower. No client waits for ever, a client without an answer gets an error with the reason, and the application
// has received each request once.
func TestRyuRESTInFlight(t *testing.T) {
	notInShort(t)
	t.Parallel()
	r := withAgents.startRyu(t, 0, cluster.Config{Apps: []string{ownApp(t, "sleepy")}})
	leader, followers := r.leader(), r.followers()
	type reply struct {
		status int
		text   string
		err    error
	}
	ask := func(c *cluster.Controller, seconds int) chan reply {
		to := make(chan reply, 1)
		go func() { // ends with the client's timeout
			var a reply
			a.status, a.text, a.err = r.ask(c, "PUT", fmt.Sprintf("/sleepy/%d", seconds), "")
			to <- a
		}()
		return to
	}
	asked := func(c *cluster.Controller, want string) {
		t.Helper()
		await.Until(t, want+" at "+c.Name, func() bool { return r.rest(c, "GET", "/sleepy", "") == "200 "+want })
	}
	if a := <-ask(followers[0], 0); a.status != http.StatusOK || a.text != "slept" {
		t.Fatalf("a request at a follower: %+v", a)
	}
	direct, passed := ask(leader, 10), ask(followers[0], 10)
	asked(followers[1], "3 asked, 1 answered")
	r.check(leader.Kill())
	if a := <-direct; a.err == nil {
		t.Errorf("the leader answered when it was dead: %+v", a)
	}
	if a := <-passed; a.err != nil || a.status != http.StatusBadGateway || !strings.Contains(a.text, "the leader at") {
		t.Errorf("a follower whose leader died: %+v", a)
	}
	for _, c := range followers {
		asked(c, "3 asked, 3 answered") // the others have continued
	}
	r.check(leader.Restart())
	r.running()
	asked(leader, "3 asked, 3 answered")

	// Without a majority no client waits for ever either.
	leader, followers = r.leader(), r.followers()
	direct, passed = ask(leader, 20), ask(followers[0], 20)
	asked(followers[1], "5 asked, 3 answered")
	r.check(followers[1].Kill())
	r.check(followers[0].Kill())
	if a := <-direct; a.err != nil || a.status != http.StatusServiceUnavailable ||
		!strings.Contains(a.text, "leadership has changed") {
		t.Errorf("the leader of nobody: %+v", a)
	}
	if a := <-passed; a.err == nil {
		t.Errorf("a follower answered when it was dead: %+v", a)
	}
	if a := <-ask(leader, 0); a.err != nil || a.status != http.StatusServiceUnavailable || a.text == "" {
		t.Errorf("a controller alone: %+v", a)
	}
}

// each asks every running controller, until all answers satisfy ok.
func (r *ryuCluster) each(method, path, body string, ok func(answer string) bool) {
	r.t.Helper()
	for _, c := range r.Controllers() {
		if !c.Running() {
			continue
		}
		last := ""
		for deadline := time.Now().Add(2 * patience); ; time.Sleep(50 * time.Millisecond) {
			if last = r.rest(c, method, path, body); ok(last) {
				break
			}
			if time.Now().After(deadline) {
				r.t.Fatalf("%s %s at %s: %s", method, path, c.Name, last)
			}
		}
	}
}

func contains(parts ...string) func(string) bool {
	return func(answer string) bool {
		for _, p := range parts {
			if !strings.Contains(answer, p) {
				return false
			}
		}
		return strings.HasPrefix(answer, "200 ")
	}
}

// awaitFlow waits until some switch has a flow entry that matches, or until none has.
func (r *ryuCluster) awaitFlow(pattern string, there bool) {
	r.t.Helper()
	re := regexp.MustCompile(pattern)
	await.Until(r.t, fmt.Sprintf("flow %s: %v", pattern, there),
		func() bool { return re.MatchString(strings.Join(r.flows(), "\n")) == there })
}

// TestRyuTopologyAndOFCtl has three switches in a ring. The switches answer the requests of ofctl_rest later. Links
// are discovered by LLDP.
func TestRyuTopologyAndOFCtl(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	r := stockOVS.startRyu(t, 3, cluster.Config{Apps: []string{"ryu.app.ofctl_rest", "ryu.app.rest_topology"}},
		"--observe-links")
	r.build(3, 1, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})
	linked := func(n int) {
		t.Helper()
		r.each("GET", "/v1.0/topology/links", "", func(answer string) bool {
			var links []any
			return json.Unmarshal([]byte(strings.TrimPrefix(answer, "200 ")), &links) == nil && len(links) == n
		})
	}
	add := func(c *cluster.Controller, priority int) {
		t.Helper()
		flow := fmt.Sprintf(
			`{"dpid": 2, "priority": %d, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]}`,
			priority)
		if got := r.rest(c, "POST", "/stats/flowentry/add", flow); got != "200" {
			t.Errorf("a flow is to be added: %s", got)
		}
		r.awaitFlow(fmt.Sprintf("s2 .*priority=%d,in_port=.*actions=output", priority), true)
		r.each("GET", "/stats/flow/2", "", contains(fmt.Sprintf(`"priority": %d`, priority), `"OUTPUT:2"`))
	}
	linked(6)
	add(r.followers()[0], 7)
	r.strike()
	r.each("GET", "/stats/switches", "", contains("[1, 2, 3]"))
	linked(6)
	add(r.followers()[0], 8)
	r.check(r.links[0].Cut())
	linked(4)
	r.check(r.links[0].Restore())
	linked(6)
	r.ready()
	if res := r.exact(); res.Failures > 0 {
		t.Errorf("%d failures", res.Failures)
	}
}

// reaches pings until a reply comes, or until none comes any more.
func (r *ryuCluster) reaches(from, to int, addr string, want bool) {
	r.t.Helper()
	await.Until(r.t, fmt.Sprintf("pings from host %d to %d: %v", from, to, want), func() bool {
		echoes, err := r.hosts[0][from-1].Ping(r.ctx, netip.MustParseAddr(addr), 3, 100*time.Millisecond,
			500*time.Millisecond)
		r.check(err)
		replies := 0
		for _, e := range echoes {
			replies += e.Replies
		}
		return replies > 0 == want
	})
}

// TestRyuFirewall: only what rules allow passes, and the rules are the same after a failover.
func TestRyuFirewall(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	r := stockOVS.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.rest_firewall"}})
	r.build(1, 2)
	one, two := r.hosts[0][0].Addr.Addr().String(), r.hosts[0][1].Addr.Addr().String()
	rules := "/firewall/rules/" + dpid(1)
	done := func(c *cluster.Controller, method, path, body string) {
		t.Helper()
		if got := r.rest(c, method, path, body); !contains("success")(got) {
			t.Fatalf("%s %s %s: %s", method, path, body, got)
		}
	}
	done(r.followers()[0], "PUT", "/firewall/module/enable/"+dpid(1), "")
	r.reaches(1, 2, two, false)
	for _, way := range [][2]string{{one, two}, {two, one}} {
		done(r.followers()[1], "POST", rules, fmt.Sprintf(`{"nw_src": "%s/32", "nw_dst": "%s/32", "nw_proto": "ICMP"}`,
			way[0], way[1]))
	}
	r.reaches(1, 2, two, true)
	r.settled()
	before := r.rest(r.leader(), "GET", rules, "")
	r.strike()
	r.each("GET", rules, "", func(answer string) bool { return answer == before })
	r.reaches(1, 2, two, true)
	done(r.followers()[0], "DELETE", rules, `{"rule_id": "1"}`)
	r.reaches(1, 2, two, false)
	r.ready()
	if res := r.exact(); res.Failures > 0 {
		t.Errorf("%d failures", res.Failures)
	}
}

// TestRyuRouter: hosts of two networks reach each other through a router that was configured at one leader and
// routes at the next.
func TestRyuRouter(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	r := stockOVS.startRyu(t, 1, cluster.Config{Apps: []string{"ryu.app.rest_router"}})
	r.build(1, 2)
	router := "/router/" + dpid(1)
	for i, h := range r.hosts[0] {
		network := fmt.Sprintf("172.16.%d0.", i+1)
		for _, args := range [][]string{{"addr", "add", network + "10/24", "dev", "eth0"},
			{"route", "add", "default", "via", network + "1"}} {
			if out, err := exec.Command("ip", append([]string{"-n", h.Namespace},
				args...)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %v: %v\n%s", args, err, out)
			}
		}
		got := r.rest(r.followers()[0], "POST", router, fmt.Sprintf(`{"address": "%s1/24"}`, network))
		if !contains("success")(got) {
			t.Fatal(got)
		}
	}
	r.settled()
	before := r.rest(r.leader(), "GET", router, "")
	r.strike()
	r.each("GET", router, "", func(answer string) bool { return answer == before })
	r.reaches(1, 2, "172.16.20.10", true)
	r.ready()
	// The application also tries to select the events of each switch, which is not forwarded.
	if res := r.exact(); res.Failures > 0 {
		t.Errorf("%d failures", res.Failures)
	}
}
