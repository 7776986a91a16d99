package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// recoveryCluster is a cluster with application recovery, and Open vSwitches with a host each, at port 1.
type recoveryCluster struct {
	*testCluster
	nodes []*netlab.Switch
	hosts []*netlab.Host
	at    []*station
	links map[[2]int]*netlab.Link // by the numbers of switches, counted from 1
}

// startRecovery builds a network with links between some of the switches. protection and bfd are the contents of
// sections recovery and bfd of the configuration. Other applications than recovery are those of cfg.
func (m mode) startRecovery(t *testing.T, switches int, cfg cluster.Config, protection, bfd string,
	links ...[2]int) *recoveryCluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf-db-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if cfg.Binary, cfg.Patience = plain, 4*patience; cfg.Apps == nil {
		cfg.Apps = []string{recovery.Name}
	}
	// otherwise the log does not contain what edge sent
	cfg.Levels = map[string]map[string]string{"edge": {"packet_in": "exactly_once"}}
	cfg.Sections += fmt.Sprintf("recovery: {%s}\nbfd: {database: \"unix:%s/{dpid}\", %s}\n", protection, dir, bfd)
	r := &recoveryCluster{testCluster: m.start(t, switches, cfg), links: map[[2]int]*netlab.Link{}}
	lab := r.lab()
	for i := range switches {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		r.check(err)
		r.check(os.Symlink(strings.TrimPrefix(sw.Database(), "unix:"),
			filepath.Join(dir, openflow.DatapathID(i+1).String())))
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, 0, byte(i + 1)}), 24))
		r.check(err)
		r.nodes, r.hosts, r.at = append(r.nodes, sw), append(r.hosts, h), append(r.at, r.plug(lab, sw, h))
	}
	for _, l := range links {
		r.links[l], err = lab.Connect(r.nodes[l[0]-1], r.nodes[l[1]-1])
		r.check(err)
	}
	r.control(lab, r.nodes)
	return r
}

// meet waits until the hosts at two switches answer each other's pings, in both directions.
func (r *recoveryCluster) meet(a, b int) {
	r.t.Helper()
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		from, to := r.hosts[pair[0]-1], r.hosts[pair[1]-1]
		await.Until(r.t, fmt.Sprintf("%s to reach %s", from.Name, to.Name), func() bool {
			echoes, err := from.Ping(r.ctx, to.Addr.Addr(), 1, time.Second, time.Second)
			r.check(err)
			return echoes[0].Replies > 0
		})
	}
}

// stable reports whether the switches have the plan for everything that is known.
func (r *recoveryCluster) stable() bool {
	r.t.Helper()
	said, err := r.leader().Client().GetProtection(r.ctx, &emptypb.Empty{})
	return err == nil && said.Stable // else it does not lead any more
}

// hops checks how many links are on the way between the hosts at two switches, as the API has it, and whether packets
// arrive whichever link of it fails.
func (r *recoveryCluster) hops(a, b, want int, survives bool) {
	r.t.Helper()
	p, err := r.leader().Client().GetPaths(r.ctx, &api.GetPathsRequest{From: r.hosts[a-1].Addr.Addr().String(),
		To: r.hosts[b-1].MAC.String()})
	r.check(err)
	lost := slices.ContainsFunc(p.Failures, func(f *api.PathFailure) bool { return f.Outcome != "delivered" })
	if int(p.GetPrimary().GetHops()) != want || lost == survives || !p.Installed || len(p.Backups) != want {
		r.t.Errorf("from host %d to %d are %v, want %d hops; packets survive a failure: %v", a, b, p, want, survives)
	}
}

// uses reports whether flow entries or groups of a switch send packets by a port.
func (r *recoveryCluster) uses(i, port int) bool {
	r.t.Helper()
	flows, err := r.nodes[i-1].Flows()
	r.check(err)
	groups, err := r.nodes[i-1].OFCtl("dump-groups")
	r.check(err)
	return regexp.MustCompile(fmt.Sprintf(`output:"?p?%d\b`, port)).MatchString(strings.Join(flows, "\n") + groups)
}

// used reports at which ends of a link packets are sent into it.
func (r *recoveryCluster) used(l [2]int) (ends [2]bool) {
	k := r.links[l]
	return [2]bool{r.uses(l[0], k.PortA), r.uses(l[1], k.PortB)}
}

// bfd reads what the switches at both ends of a link say of it.
func (r *recoveryCluster) bfd(l [2]int, key string) (ends [2]string) {
	r.t.Helper()
	k := r.links[l]
	for i, port := range []int{k.PortA, k.PortB} {
		out, err := exec.Command("ovs-vsctl", "--db="+r.nodes[l[i]-1].Database(), "--if-exists", "get", "interface",
			fmt.Sprintf("p%d", port), "bfd_status:"+key).Output()
		r.check(err)
		ends[i] = strings.Trim(strings.TrimSpace(string(out)), `"`)
	}
	return ends
}

// flaps returns how often BFD reports that links have come up or failed.
func (r *recoveryCluster) flaps(links [][2]int) (list [][2]string) {
	for _, l := range links {
		list = append(list, r.bfd(l, "flap_count"))
	}
	return list
}

// stream sends numbered frames from one host to another, one every 10 ms. So no socket on the way overflows while
// its reader waits for a processor.
type stream struct {
	t    *testing.T
	to   *station
	sent atomic.Int64
	stop func()
}

func (r *recoveryCluster) stream(from, to int) *stream {
	s := &stream{t: r.t, to: r.at[to-1]}
	s.stop = streamEach(r.t, 10*time.Millisecond, func() error {
		if err := r.at[from-1].send(between(of13.MAC(r.hosts[from-1].MAC), of13.MAC(r.hosts[to-1].MAC),
			fmt.Sprint(s.sent.Load()))); err != nil {
			return err
		}
		s.sent.Add(1)
		return nil
	})
	return s
}

// next returns the number of the next frame.
func (s *stream) next() int { return int(s.sent.Load()) }

// flows waits until frames that are sent from now on arrive, and returns the number of one that has.
func (s *stream) flows(when string) int {
	s.t.Helper()
	first, found := s.next()+1, 0 // the current frame may be in flight
	await.Until(s.t, when+", a frame to arrive", func() bool {
		for found = s.next(); found > first; found-- {
			if s.to.count(fmt.Sprint(found-1)) > 0 {
				return true
			}
		}
		return false
	})
	return found
}

// lost returns the frames from first up to, but not including, end that do not arrive, even late.
func (s *stream) lost(first, end int) (list []int) {
	for deadline := time.Now().Add(patience / 3); ; time.Sleep(5 * time.Millisecond) {
		list = nil
		for n := first; n < end; n++ {
			if s.to.count(fmt.Sprint(n)) == 0 {
				list = append(list, n)
			}
		}
		if len(list) == 0 || time.Now().After(deadline) {
			return list
		}
	}
}

// repeated returns the frames that have arrived more than once.
func (s *stream) repeated() (list []int) {
	for n := range s.next() {
		if s.to.count(fmt.Sprint(n)) > 1 {
			list = append(list, n)
		}
	}
	return list
}

// protected waits until the plan that all switches have uses a link, at both ends, or at neither.
func (r *recoveryCluster) protected(when string, l [2]int, uses bool) {
	r.t.Helper()
	// A link that fails again, because other tests keep the machine busy, is held for up to a minute.
	const limit = 3 * await.Limit
	for began := time.Now(); time.Since(began) < limit; await.Pause(began) {
		if r.used(l) == [2]bool{uses, uses} && r.stable() {
			return
		}
	}
	r.t.Fatalf("waited %v for %s, a plan that uses link %v: %v", limit, when, l, uses)
}

// mend repairs a link, and checks that the stream loses no frame until it uses the link again.
func (r *recoveryCluster) mend(s *stream, l [2]int, others ...[2]int) {
	r.t.Helper()
	flaps := r.flaps(others)
	first := s.flows("before the link is mended")
	r.check(r.links[l].Restore())
	r.protected("with the link mended", l, true)
	end := s.flows("with the link mended")
	lost := s.lost(first, end)
	switch {
	case len(lost) > 0 && !slices.Equal(r.flaps(others), flaps):
		r.t.Logf("BFD took other links for dead meanwhile, so frames %v say nothing", lost)
	case len(lost) > 0:
		r.t.Errorf("of frames %d to %d %v are lost", first, end, lost)
	}
}

// holds returns the content of a switch without markers.
func (r *recoveryCluster) holds(i int) (list []string) {
	r.t.Helper()
	flows, err := r.nodes[i-1].Flows()
	r.check(err)
	for _, f := range flows {
		if !strings.Contains(f, "table=253") {
			list = append(list, f)
		}
	}
	groups, err := r.nodes[i-1].OFCtl("dump-groups")
	r.check(err)
	for line := range strings.Lines(groups) {
		if strings.Contains(line, "group_id=") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	slices.Sort(list)
	return list
}
