package e2e

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// outcome is the result of a run. It must not depend on whether a leader died.
type outcome struct {
	flows, commands, answers, lines []string
	frames                          []string // frames that hosts received, and how often
}

// drill is a Ryu application under traffic.
type drill struct {
	app             string
	switches, hosts int
	links           [][2]int
	lines           string   // log lines that are compared
	timed           []string // types of commands that a timer sends
	portMods        bool     // an Open vSwitch reports these to all controllers except the one that sent them
	groups          bool     // the leader of the applications' group is also killed with groups: per-controller
	agents          bool     // the leader is killed with agents, otherwise without; if everything is run, in both ways
	play            func(r *ryuRun)
}

// ryuRun is one run of a drill.
type ryuRun struct {
	*ryuCluster
	kill    bool
	dead    *cluster.Controller
	answers []string
}

// strike kills the leader, if that is part of this run.
func (r *ryuRun) strike() {
	r.t.Helper()
	if r.kill {
		r.dead = r.ryuCluster.strike()
	}
}

// get compares the answers of all running controllers, and records the answer.
func (r *ryuRun) get(path string) { r.t.Helper(); r.askAll("GET", path, "") }

func (r *ryuRun) askAll(method, path, body string) {
	r.t.Helper()
	var answers []string
	for _, c := range r.Controllers() {
		if c.Running() {
			answers = append(answers, fmt.Sprintf("%s %s: %s", method, path, r.rest(c, method, path, body)))
		}
	}
	if slices.Sort(answers); answers[0] != answers[len(answers)-1] {
		r.t.Errorf("controllers answer differently: %q", answers)
	}
	r.answers = append(r.answers, answers[0])
}

// run runs the drill in some variants, or all, and compares the outcomes.
func (p drill) run(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	type way struct {
		name string
		mode
		kill, groups bool
	}
	ways := []way{{"undisturbed", stockOVS, false, false}}
	if everything || !p.agents {
		ways = append(ways, way{"killed", stockOVS, true, false})
	}
	if everything || p.agents {
		ways = append(ways, way{"killed with agents", withAgents, true, false})
	}
	if p.groups {
		ways = append(ways, way{"killed with groups", withAgents, true, true})
	}
	outcomes := make([]outcome, len(ways))
	t.Run("runs", func(t *testing.T) {
		for i, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				outcomes[i] = p.once(t, way.mode, way.kill, way.groups)
			})
		}
	})
	if t.Failed() {
		return
	}
	for i, way := range ways[1:] {
		want, got := outcomes[0], outcomes[i+1]
		same(t, way.name+": flows", got.flows, want.flows)
		same(t, way.name+": commands", got.commands, want.commands)
		same(t, way.name+": answers", got.answers, want.answers)
		same(t, way.name+": lines", got.lines, want.lines)
		same(t, way.name+": frames", got.frames, want.frames)
	}
	o := outcomes[0]
	t.Logf("%d flows, %d commands, %d answers, %d lines, frames to %d hosts", len(o.flows), len(o.commands),
		len(o.answers), len(o.lines), len(o.frames))
}

// same reports the first difference.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d, and %d in an undisturbed run; from number %d on:\n%q\nundisturbed:\n%q", what, len(got),
		len(want), i+1,
		got[i:min(i+5, len(got))], want[i:min(i+5, len(want))])
}

func (p drill) once(t *testing.T, m mode, kill, groups bool) outcome {
	cfg := cluster.Config{Apps: []string{"ryu.app." + p.app}}
	if groups {
		cfg.Sections = "groups: per-controller\n"
	}
	r := &ryuRun{ryuCluster: m.startRyu(t, p.switches, cfg), kill: kill}
	r.build(p.switches, p.hosts, p.links...)
	p.play(r)
	if r.dead != nil { // it returns, and agrees with the others
		r.check(r.dead.Restart())
	}
	r.ready()
	o := outcome{flows: r.flows(), commands: r.commands(p.timed...), answers: r.answers,
		lines: r.lines(regexp.MustCompile(p.lines))}
	for i, hosts := range r.at {
		for j, h := range hosts {
			o.frames = append(o.frames, fmt.Sprintf("h%dp%d: %s", i+1, j+1, h.all()))
		}
	}
	right := func(res oracle.Result) bool {
		if p.portMods && m.stock {
			res.EventsLost = 0
		}
		return res.Exact() && res.Failures == 0
	}
	if res := r.compared(right); !right(res) {
		t.Errorf("not exactly once, or applications failed: %+v", res)
	}
	for _, c := range r.Controllers() {
		if st, err := c.Status(r.ctx); err != nil || st.Replayed.Diverged != 0 || st.Replayed.Restarts != 0 {
			t.Errorf("%s: %+v, %v", c.Name, st.Replayed, err)
		}
	}
	return o
}

// all returns how often frames with labels of pass have arrived.
func (s *station) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	once, other := 0, []string{}
	for l, n := range s.got {
		switch {
		case l[0] != 'f':
		case n == 1:
			once++
		default:
			other = append(other, fmt.Sprintf("%s %d times", l, n))
		}
	}
	slices.Sort(other)
	return fmt.Sprintf("%d once, %q", once, other)
}

// stranger is an address that no host has.
func stranger(n int) of13.MAC { return of13.MAC{2, 9, 0, 0, byte(n >> 8), byte(n)} }

// burstFrames is the number of frames that are sent while the leader dies. Each differs from those before, so that
// no flow matches it. All come from one port, so that their order is known.
const burstFrames = 120

// burst sends frames, and kills the leader in the middle. All of them arrive.
func (r *ryuRun) burst(from, to *station, frame func(i int, label string) []byte) {
	r.t.Helper()
	labels := make([]string, burstFrames)
	for i := range labels {
		if i == burstFrames/3 {
			r.strike()
		}
		labels[i] = r.label()
		if err := from.send(frame(i, labels[i])); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	for i, l := range labels {
		await.Until(r.t, fmt.Sprintf("frame %d of the burst", i+1), func() bool { return to.count(l) > 0 })
	}
}

// learn is traffic for a learning switch with three hosts: before, during and after the death of the leader.
func learn(r *ryuRun, middle func()) {
	h1, h2, h3 := r.at[0][0], r.at[0][1], r.at[0][2]
	m1, m2, m3 := host(1, 1), host(1, 2), host(1, 3)
	r.pass(h1, m1, m2, h2, h3) // flooded
	r.pass(h2, m2, m1, h1)
	middle()
	r.burst(h1, h2, func(i int, l string) []byte { return between(stranger(i), m2, l) })
	middle()
	r.pass(h3, m3, m1, h1)
	r.pass(h1, m1, m3, h3)
	r.pass(h1, m1, m2, h2)
	r.pass(h2, m2, stranger(5), h1)
}

func nothing() {}

func TestRyuLearningSwitch(t *testing.T) {
	drill{app: "simple_switch_13", switches: 1, hosts: 3, groups: true, lines: "^packet in",
		play: func(r *ryuRun) { learn(r, nothing) }}.run(t)
}

func TestRyuMACTable(t *testing.T) {
	table := "/simpleswitch/mactable/" + dpid(1)
	drill{app: "simple_switch_rest_13", switches: 1, hosts: 3, agents: true, lines: "^packet in",
		play: func(r *ryuRun) {
			n := 0
			learn(r, func() {
				r.get(table)
				n++
				r.askAll("PUT", table, fmt.Sprintf(`{"mac": "%s", "port": %d}`,
					net.HardwareAddr{2, 8, 0, 0, 0, byte(n)},
					10+n))
				r.get("/simpleswitch/mactable/" + dpid(9)) // which does not exist
			})
			r.get(table)
		}}.run(t)
}

func TestRyuMonitor(t *testing.T) {
	const request = "MULTIPART_REQUEST"
	drill{app: "simple_monitor_13", switches: 1, hosts: 3, lines: "^packet in|^datapath", timed: []string{request},
		play: func(r *ryuRun) {
			rounds := func() int {
				n := 0
				for _, c := range r.commands() {
					if strings.Contains(c, request) {
						n++
					}
				}
				return n / 2 // flows and ports
			}
			await := func(n int) {
				await.Until(r.t, fmt.Sprintf("%d rounds of questions", n), func() bool {
					time.Sleep(500 * time.Millisecond) // reading the whole log is work
					return rounds() >= n
				})
			}
			await(1)
			learn(r, nothing)
			seen, began := rounds(), time.Now()
			await(seen + 1)
			await(seen + 2)
			if n := rounds() - seen; time.Since(began) < 8*time.Second || n > int(time.Since(began).Seconds()/10)+1 {
				r.t.Errorf("%d rounds in %v, and one in 10 s was to be", n, time.Since(began))
			}
		}}.run(t)
}

// lacpdu is an LACP PDU of one port of a bond: the port is up, with a timeout of 90 s.
func lacpdu(port byte, l string) []byte {
	f := append([]byte{1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 1, port, 0x88, 0x09, 1, 1},
		1, 20, 0xff, 0xff, 2, 0, 0, 0, 0, 0x99, 0, 9, 0, 0xff, 0, port, 0x3d, 0, 0, 0) // actor
	f = append(f, 2, 20)
	f = append(f, make([]byte, 18)...) // partner: not known
	f = append(f, 3, 16)
	f = append(f, make([]byte, 14+52-labelLen)...) // collector, terminator and padding
	return append(f, label(l)...)
}

// TestRyuLinkAggregation has a host with two cables that speaks LACP. Its PDUs are answered one by one.
func TestRyuLinkAggregation(t *testing.T) {
	drill{app: "simple_switch_lacp_13", switches: 1, hosts: 3, agents: true, lines: "packet in|LACP|slave|timeout",
		play: func(r *ryuRun) {
			bond, other, far := r.at[0][0], r.at[0][1], r.at[0][2]
			const answer = "\x00\x00\x00\x00\x00\x00\x00\x00" // the end of its padding
			say := func(st *station, port byte) {
				r.t.Helper()
				before := st.count(answer)
				if err := st.send(lacpdu(port, r.label())); err != nil {
					r.t.Fatal(err)
				}
				await.Until(r.t, "an LACPDU to be answered", func() bool { return st.count(answer) > before })
			}
			say(bond, 1)
			say(other, 2)
			for i := range burstFrames { // far has many addresses
				r.pass(far, stranger(i), host(1, 1), bond)
			}
			r.burst(bond, far, func(i int, l string) []byte { return between(host(1, 1), stranger(i), l) })
			say(bond, 1)
			say(other, 2)
			if one, two := bond.count(answer), other.count(answer); one != 2 || two != 2 {
				r.t.Errorf("%d and %d answers to 2 LACPDUs each", one, two)
			}
			r.pass(far, stranger(1), host(1, 1), bond)
		}}.run(t)
}

var portState = regexp.MustCompile(`dpid=0*(\d+): \[port=(\d+)\] \w+ +/ (\w+)`)

// states returns the states of the ports of a spanning tree, from the last log lines of the applications.
func (r *ryuRun) states() map[string]string {
	var all []string
	for _, c := range r.Controllers() {
		all = append(all, lines(r.t, c.LogFile(), "[STP]")...)
	}
	slices.Sort(all) // by time
	states := map[string]string{}
	for _, line := range all {
		if m := portState.FindStringSubmatch(line); m != nil {
			states[m[1]+"."+m[2]] = m[3]
		}
	}
	return states
}

// TestRyuSpanningTree has three switches in a ring, with one port blocked before and after the failover. While the
// tree is young the application deletes hosts and flows every other second, and what it sends differs from run to
// run.
func TestRyuSpanningTree(t *testing.T) {
	drill{app: "simple_switch_stp_13", switches: 3, hosts: 1, links: [][2]int{{1, 2}, {2, 3}, {3, 1}}, groups: everything,
		lines: "^packet in .* 02:09:",
		timed: []string{"PACKET_OUT", "FLOW_MOD", "PORT_MOD"}, portMods: true, play: func(r *ryuRun) {
			r.await("the tree to stand", func(cluster.Status) bool {
				time.Sleep(500 * time.Millisecond) // reading all logs is work
				states := slices.Sorted(maps.Values(r.states()))
				return len(states) == 9 && states[0] == "BLOCK" && states[1] == "FORWARD" && states[8] == "FORWARD"
			})
			r.ready()
			r.burst(r.at[0][0], r.at[1][0], func(i int, l string) []byte { return between(host(1, 1), stranger(i), l) })
			var before, after []string
			r.t.Cleanup(func() {
				if r.t.Failed() {
					r.t.Logf("flows, before a pause and after:\n%q\n%q", before, after)
				}
			})
			r.await("the tree to be old", func(cluster.Status) bool {
				r.round()
				before = r.flows()
				time.Sleep(5 * time.Second) // a young tree deletes flows in this time
				after = r.flows()
				return slices.Equal(before, after) && strings.Count(strings.Join(after, "\n"),
					"dl_dst=02:00:") == wayFlows
			})
			for _, port := range slices.Sorted(maps.Keys(r.states())) {
				r.answers = append(r.answers, port+" "+r.states()[port])
			}
		}}.run(t)
}

// wayFlows is the number of flows from each of three hosts to each other one: one at each switch on the path. The
// blocked link makes one path longer.
const wayFlows = 12

// round makes each host send to an unused address, so that all switches learn where it is, and twice to each other
// host, so that flows are installed. The unused address is not a stranger's: the number of rounds varies, and log
// lines about strangers are compared.
func (r *ryuRun) round() {
	r.t.Helper()
	for i := range r.at {
		var others []*station
		for j := range r.at {
			if j != i {
				others = append(others, r.at[j][0])
			}
		}
		r.carry("r"+r.label(), r.at[i][0], host(i+1, 1), of13.MAC{2, 10, 0, 0, 0, 1}, others...)
	}
	for range 2 {
		for i := range r.at {
			for j := range r.at {
				if i != j {
					r.carry("r"+r.label(), r.at[i][0], host(i+1, 1), host(j+1, 1), r.at[j][0])
				}
			}
		}
	}
}
