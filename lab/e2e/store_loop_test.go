package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

// view is where two controllers keep the path of a flow.
type view interface {
	read(ctx context.Context) (path string, err error)
	write(ctx context.Context, path string) error
}

// consistent is the store.
type consistent struct{ *storeclient.Client }

func (v consistent) read(ctx context.Context) (string, error) {
	out, err := v.Do(ctx, store.Op{Kind: store.Get, Table: "paths", Key: "h1-h2"})
	if err != nil {
		return "", err
	}
	return string(out.Results[0].Row.Columns[0].Value), nil
}

func (v consistent) write(ctx context.Context, path string) error {
	_, err := v.Do(ctx, store.Op{Kind: store.Put, Table: "paths", Key: "h1-h2", Columns: store.Value([]byte(path))})
	return err
}

// eventual is one of two copies, which learn of each other's writes some time after these have returned.
type eventual struct {
	mu    sync.Mutex // guards path
	path  string
	other *eventual
}

const lag = 300 * time.Millisecond

func (v *eventual) read(context.Context) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.path, nil
}

func (v *eventual) set(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.path = path
}

func (v *eventual) write(_ context.Context, path string) error {
	v.set(path)
	time.AfterFunc(lag, func() { v.other.set(path) })
	return nil
}

// router is a controller that sends each packet of the flow to the next switch of its path.
type router struct {
	view
	ports map[string]of13.Port // from one switch to another one, or from the last one to the host: "34", "4"

	mu     sync.Mutex // guards visits
	visits map[openflow.DatapathID]int
}

// flowType is an EtherType for experiments (IEEE 802, 9.2.3).
const flowType = 0x88b5

func (*router) Setup(context.Context) error { return nil }

func (r *router) Handle(ctx context.Context, p *onstore.Packet) (onstore.Reaction, error) {
	if p.Type != flowType {
		return onstore.Reaction{}, nil
	}
	r.mu.Lock()
	r.visits[p.Switch]++
	r.mu.Unlock()
	path, err := r.read(ctx)
	if err != nil {
		return onstore.Reaction{}, err
	}
	at := fmt.Sprint(uint64(p.Switch))
	hop := at + "2" // a switch that is not on the path sends packets back to it
	if i := strings.Index(path, at); i >= 0 {
		hop = path[i:min(i+2, len(path))]
	}
	out := r.ports[hop]
	if out == p.InPort {
		out = of13.PortInPort
	}
	return onstore.Reaction{Out: out, Once: true}, nil
}

// TestConsistencyLoop: the network of figure 1 of Botelho et al. One controller has switches 1 and 2, the other one has
// 3 and 4, and diverts a flow from the path 1-2-3-4 to 1-2-4. If they share the path in an eventually consistent store,
// packets go back and forth between 2 and 3 until the first controller learns of it. With the store they do not.
func TestConsistencyLoop(t *testing.T) {
	notInShort(t)
	t.Parallel()
	lab := netlab.ForTest(t)
	s := startCluster(t, cluster.Config{Apps: []string{store.Name}, Listen: lab.Addr().String()})
	s.command("store", "create-table", "paths")
	switches, hosts, ports := loopNetwork(t, lab)
	from, err := hosts[0].Raw()
	s.check(err)
	defer from.Close()
	to, err := hosts[1].Raw()
	s.check(err)
	defer to.Close()
	var views [2]view
	for i, n := range s.Controllers()[:2] {
		cl, err := storeclient.New("default", n.REST)
		s.check(err)
		defer cl.Close()
		views[i] = consistent{cl}
	}
	copies := [2]*eventual{{}, {}}
	copies[0].other, copies[1].other = copies[1], copies[0]
	for _, c := range []struct {
		name  string
		views [2]view
		loops bool
	}{{"consistent", views, false}, {"eventual", [2]view{copies[0], copies[1]}, true}} {
		s.check(c.views[1].write(s.ctx, "1234"))
		await.Until(t, "the first path", func() bool { path, _ := c.views[0].read(s.ctx); return path == "1234" })
		r := []*router{{view: c.views[0], ports: ports, visits: map[openflow.DatapathID]int{}},
			{view: c.views[1], ports: ports, visits: map[openflow.DatapathID]int{}}}
		ctx, cancel := context.WithCancel(s.ctx)
		var serving sync.WaitGroup
		for i := range r {
			l, err := net.Listen("tcp", net.JoinHostPort(lab.Addr().String(), "0"))
			s.check(err)
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			serving.Go(func() { s.checkLater(onstore.Serve(ctx, l, r[i], log)) })
			for _, sw := range switches[2*i : 2*i+2] {
				s.check(sw.SetControllers(l.Addr().String()))
			}
		}
		send := func() { sendFrame(t, from, to, hosts) }
		send() // until it arrives: the switches are connected
		visits := func() int {
			r[0].mu.Lock()
			defer r[0].mu.Unlock()
			return r[0].visits[2]
		}
		s.check(c.views[1].write(s.ctx, "124"))
		before := visits()
		send()
		if n := visits() - before; (n > 2) != c.loops { // the frame is sent again if the machine is slow
			t.Errorf("%s: a packet passes switch 2 %d times", c.name, n)
		} else {
			t.Logf("%s: a packet passes switch 2 %d times", c.name, n)
		}
		cancel()
		serving.Wait()
	}
}

// checkLater is check for a goroutine of the test.
func (s *testCluster) checkLater(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// loopNetwork makes the network: switches 1 to 4, and a host at the first and one at the last one.
func loopNetwork(t *testing.T, lab *netlab.Lab) (switches []*netlab.Switch, hosts []*netlab.Host,
	ports map[string]of13.Port) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ports = map[string]of13.Port{}
	for i := range 4 {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		check(err)
		switches = append(switches, sw)
	}
	for _, l := range []string{"12", "23", "34", "24"} {
		a, b := l[0]-'1', l[1]-'1'
		k, err := lab.Connect(switches[a], switches[b])
		check(err)
		ports[l], ports[l[1:]+l[:1]] = of13.Port(k.PortA), of13.Port(k.PortB)
	}
	for i, at := range []int{0, 3} {
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, 0, byte(i + 1)}), 24))
		check(err)
		k, err := lab.Connect(switches[at], h)
		check(err)
		ports[fmt.Sprint(at+1)] = of13.Port(k.PortA)
		hosts = append(hosts, h)
	}
	return switches, hosts, ports
}

// sendFrame sends a frame from one host until the other one has received it.
func sendFrame(t *testing.T, from, to *os.File, hosts []*netlab.Host) {
	t.Helper()
	frame := slices.Concat(hosts[1].MAC, hosts[0].MAC, []byte{flowType >> 8, flowType & 0xff}, make([]byte, 46))
	await.Until(t, "the frame", func() bool {
		if _, err := from.Write(frame); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 2000)
		if err := to.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := to.Read(b)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				return false
			case err != nil:
				t.Fatal(err)
			case slices.Equal(b[:n], frame):
				return true
			}
		}
	})
}
