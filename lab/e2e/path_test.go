package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Ports of each switch of a pathLine.
const (
	hostSide of13.Port = iota + 1 // hosts
	ahead                         // the next switch
	behind                        // the one before
	alarm                         // frames with a tag for which there is no entry
)

// pathLine is embedded switches in a line, in the groups of three controllers.
type pathLine struct {
	*testCluster
	web     *web
	runners []*vswitch.Runner
	links   []*vswitch.Link
	alarms  []*station
	first   *station
	last    *station
}

func (m mode) startPaths(t *testing.T, switches int) *pathLine {
	t.Helper()
	cfg := cluster.Config{Apps: []string{path.Name}, Binary: plain, Sections: "groups: per-controller\n",
		Patience: 4 * patience}
	if !m.stock {
		cfg.Agents = 1
	}
	p := &pathLine{testCluster: startCluster(t, cfg), web: newWeb(t)}
	p.check(p.WaitHome(p.ctx))
	var addresses []string
	for _, c := range p.Controllers() {
		addresses = append(addresses, c.OpenFlow)
	}
	if !m.stock {
		addresses = []string{p.Agents()[0].Listen}
	}
	for i := range switches {
		r := vswitch.StartRunner(vswitch.RunnerConfig{Controllers: addresses,
			Switch: vswitch.Config{DatapathID: openflow.DatapathID(i + 1), Ports: vswitch.Ports(i+1, int(alarm))}})
		t.Cleanup(r.Close)
		p.runners = append(p.runners, r)
		r.Do(sendAlarms)
		st := &station{got: map[string]int{}}
		r.Transmit(alarm, st.receive)
		p.alarms = append(p.alarms, st)
		if i > 0 {
			p.links = append(p.links, vswitch.Connect(p.runners[i-1].Port(ahead), r.Port(behind)))
		}
	}
	p.first, p.last = p.host(0), p.host(switches-1)
	p.waitUp(switches)
	return p
}

// sendAlarms makes a switch send frames with a tag that no other entry matches to the port for alarms.
func sendAlarms(s *vswitch.Switch, now time.Duration) {
	const operator = 1 << 40 // the id of the connection
	s.Connect(operator)
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	s.Message(now, operator, hello.Append(nil, 1))
	s.Message(now, operator, (&of13.FlowMod{Priority: 2, BufferID: of13.NoBuffer,
		Match:        of13.Match(nil).WithUintMasked(of13.FieldVLANVID, uint64(of13.VLANPresent), uint64(of13.VLANPresent)),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(alarm, 0))}).Append(nil, 2))
	s.Disconnect(operator)
}

func (p *pathLine) host(i int) *station {
	st := &station{got: map[string]int{}, send: func(f []byte) error { p.runners[i].Receive(hostSide, f); return nil }}
	p.runners[i].Transmit(hostSide, st.receive)
	return st
}

// view asks any controller about a path. The state is "" if none answers.
func (p *pathLine) view(name string) (v path.View) {
	for _, c := range p.Controllers() {
		switch status, text := p.web.ask(c, "GET", "/apps/path/paths/"+name, ""); status {
		case http.StatusNotFound:
			v.State = model.Gone
			return v
		case http.StatusOK:
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				p.t.Errorf("%s: %v", text, err)
			}
			return v
		}
	}
	return v
}

// want repeats a request until the path has a state.
func (p *pathLine) want(method, name, body string, state model.State) {
	p.t.Helper()
	said := ""
	for start := time.Now(); p.view(name).State != state; {
		for _, c := range p.Controllers() {
			var status int
			if status, said = p.web.ask(c, method, "/apps/path/paths/"+name, body); status != 0 && status < 500 {
				break
			}
		}
		if time.Since(start) > 4*patience {
			p.t.Errorf("%s %s is answered with %q, and it is %q, not %q", method, name, said, p.view(name).State, state)
			return
		}
	}
}

// definition is a path from the first switch to the last one, for frames from an address.
func (p *pathLine) definition(from [4]byte) string {
	text, err := json.Marshal(path.Definition{From: path.End{Switch: "1", Port: hostSide},
		To:    path.End{Switch: openflow.DatapathID(len(p.runners)).String(), Port: hostSide},
		Match: packet.Class{Source: fmt.Sprintf("%d.%d.%d.%d", from[0], from[1], from[2], from[3])}})
	p.check(err)
	return string(text)
}

// entries returns how many flow entries a switch has.
func (p *pathLine) entries(i int) (n int) {
	const operator = 1 << 41
	p.runners[i].Do(func(s *vswitch.Switch, now time.Duration) {
		s.Connect(operator)
		hello := of13.NewHello(of13.VersionsOf(of13.Version))
		s.Message(now, operator, hello.Append(nil, 1))
		out, _ := s.Pending(operator)
		s.Sent(operator, len(out))
		s.Message(now, operator, (&of13.MultipartRequest{Part: of13.PartTable}).Append(nil, 2))
		out, _ = s.Pending(operator)
		var m of13.MultipartReply
		if err := m.Decode(out); err == nil {
			for table := range m.Tables().All() {
				n += int(table.ActiveCount)
			}
		}
		s.Disconnect(operator)
	})
	return n
}

// Paths over 20 switches in three groups are installed and removed while leaders die. Each frame that enters one
// arrives, whatever the switches have of it at the time, none goes round in circles, and no entry is left over.
func TestPathsUnderKills(t *testing.T) {
	const switches, clients = 20, 4
	installs, kills := 40, 3
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_PATHS")); err == nil {
		installs, kills = n, n/30
	}
	inModes(t, []mode{withAgents, stock}, func(t *testing.T, m mode) {
		p := m.startPaths(t, switches)
		p.want("PUT", "trial", p.definition([4]byte{10, 0, 1, 1}), model.Up) // the links are known now
		p.want("DELETE", "trial", "", model.Gone)
		before := make([]int, switches)
		await.Until(t, "the entries of the trial to be gone", func() bool {
			for i := range before {
				if before[i] = p.entries(i); before[i] != before[0] {
					return false
				}
			}
			return true
		})
		var done atomic.Int64
		var working sync.WaitGroup
		for c := range clients {
			from := [4]byte{10, 0, 0, byte(c + 1)}
			name, body := fmt.Sprintf("p%d", c), p.definition(from)
			stop := p.first.stream(t, ipFrame(from, name))
			working.Go(func() {
				defer stop()
				for range installs / clients {
					seen := p.last.count(name)
					p.want("PUT", name, body, model.Up)
					for start := time.Now(); p.last.count(name) == seen; time.Sleep(time.Millisecond) {
						if time.Since(start) > patience {
							t.Errorf("no frame of path %s arrives, which is up", name)
							break
						}
					}
					p.want("DELETE", name, "", model.Gone)
					done.Add(1)
				}
			})
		}
		go func() { working.Wait(); done.Add(1 << 30) }()
		p.killInTurn(kills, &done, 2)
		working.Wait()
		await.Until(t, "the entries of all paths to be gone", func() bool {
			for i := range before {
				if p.entries(i) != before[i] {
					return false
				}
			}
			return true
		})
		for i, st := range p.alarms {
			for c := range clients {
				if n := st.count(fmt.Sprintf("p%d", c)); n > 0 {
					t.Errorf("%d frames of path %d came to switch %d, which had no entry for them", n, c, i+1)
				}
			}
		}
		for _, l := range p.links {
			if n := l.Looped(); n > 0 {
				t.Errorf("%d frames went round in circles", n)
			}
		}
	})
}

// startPathRing is startPaths for three Open vSwitches in a ring, with a host each. It returns these, and the link
// between the first and the last switch.
func (m mode) startPathRing(t *testing.T) (p *pathLine, nodes []*netlab.Switch, direct *netlab.Link) {
	t.Helper()
	groups := "groups: 1\n"
	if m.stock {
		groups = "groups: per-controller\n"
	}
	const switches = 3
	p = &pathLine{testCluster: m.start(t, switches, cluster.Config{Apps: []string{path.Name}, Binary: plain,
		Patience: 4 * patience, Sections: groups}), web: newWeb(t)}
	lab := p.lab()
	for i := range switches {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		p.check(err)
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, 0, byte(i + 1)}), 24))
		p.check(err)
		nodes, p.last = append(nodes, sw), p.plug(lab, sw, h)
		if i == 0 {
			p.first = p.last
		}
	}
	for _, l := range [][2]int{{0, 1}, {1, 2}, {0, 2}} {
		link, err := lab.Connect(nodes[l[0]], nodes[l[1]])
		p.check(err)
		direct = link
	}
	p.control(lab, nodes)
	return p, nodes, direct
}

// A path on Open vSwitches takes its backup around a link that is cut while no controller works. Then it has another
// route, and is there again after a switch has restarted. It leaves nothing behind.
func TestPathOnOpenVSwitch(t *testing.T) {
	inModes(t, []mode{withAgents, stockOVS}, func(t *testing.T, m mode) {
		needOVS(t)
		p, nodes, direct := m.startPathRing(t)
		body, err := json.Marshal(path.Definition{From: path.End{Switch: "1", Port: 1}, To: path.End{Switch: "3", Port: 1},
			Match: packet.Class{Protocol: "udp", Destination: "10.200.0.1", DestinationPorts: "1-9"}, Backup: true})
		p.check(err)
		p.want("PUT", "p", string(body), model.Up)
		stop := p.first.stream(t, ipFrame([4]byte{10, 100, 0, 1}, "yes"))
		arrive := func(when string) {
			t.Helper()
			seen := p.last.count("yes")
			await.Until(t, "frames to arrive "+when, func() bool { return p.last.count("yes") > seen+10 })
		}
		arrive("at first")
		for _, c := range p.Controllers() {
			p.check(c.Signal(syscall.SIGSTOP))
		}
		p.check(direct.Cut())
		arrive("by the backup")
		for _, c := range p.Controllers() {
			p.check(c.Signal(syscall.SIGCONT))
		}
		await.Until(t, "the way around", func() bool { return len(p.view("p").Route) == len(nodes) })
		arrive("on the way around")
		p.check(nodes[1].Kill())
		p.check(nodes[1].Start())
		arrive("after the restart of a switch")
		p.check(p.leader().Kill())
		arrive("after the death of a leader")
		p.want("DELETE", "p", "", model.Gone)
		stop()
		await.Until(t, "all entries of the path to be gone", func() bool {
			for _, sw := range nodes {
				flows, err := sw.Flows()
				p.check(err)
				groups, err := sw.OFCtl("dump-groups")
				p.check(err)
				if strings.Contains(strings.Join(flows, ""), "cookie=0x686e") || strings.Contains(groups, "group_id=") {
					return false
				}
			}
			return true
		})
	})
}
