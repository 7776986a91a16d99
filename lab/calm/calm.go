// Package calm runs a torus of real Open vSwitches with the application recovery, in which nothing fails, and counts
// the frames that are lost and the links that are taken for dead all the same. It shows what a busy machine costs.
//
// Nothing is cut here: package outage does that. It needs root and Open vSwitch.
package calm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
)

const (
	side     = 3 // of the torus
	size     = side * side
	linksOf  = 2 * size
	every    = 20 * time.Millisecond // between two frames of a host
	lookGap  = 500 * time.Millisecond
	patience = 3 * time.Minute // until the network is protected
	getFast  = time.Minute     // until BFD is fast; a machine that is busy anyway begins without

	// What is lost this much before an alarm is seen, or after it, is counted as lost because of it. The databases
	// report late.
	before, after = 5 * time.Second, 3 * time.Second
	// drain is how long frames may be on their way.
	drain = 3 * time.Second
)

// Config says what to run.
type Config struct {
	Binary   string // the holdfast binary
	Duration time.Duration
	// Load is called when the network is protected; the function that it returns when all is counted.
	Load     func() (stop func(), err error)
	Progress func(what string)
}

// Result is what was counted beside the load.
type Result struct {
	Sent, Lost int // frames
	Alarms     int // times that a link was taken for dead
	Harmful    int // those about which frames were lost
	Detection  setup.Detection
	SlowestMs  float64 // the longest time in which BFD would have detected a dead link
}

// Run builds the network, counts, and removes it.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	dir, err := os.MkdirTemp("", "calm-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	n := &torus{}
	defer func() { err = errors.Join(err, n.close()) }()
	cfg.Progress("the torus is built")
	if err := n.build(ctx, cfg.Binary, dir); err != nil {
		return r, err
	}
	s := startStreams(n.hosts, n.sockets)
	defer s.close()
	cfg.Progress("BFD comes up and gets fast")
	if err := n.settle(ctx, s); err != nil {
		return r, n.controllers.WithLogs(err)
	}
	stop, err := cfg.Load()
	if err != nil {
		return r, err
	}
	defer stop()
	cfg.Progress("frames pass beside the load")
	return n.count(ctx, cfg.Duration, s, stop)
}

// torus is the network and its controllers.
type torus struct {
	lab         *netlab.Lab
	controllers *cluster.Cluster
	switches    []*netlab.Switch
	hosts       []*netlab.Host
	sockets     []*os.File
}

func (n *torus) build(ctx context.Context, binary, dir string) (err error) {
	if n.lab, err = netlab.New(filepath.Join(dir, "net")); err != nil {
		return err
	}
	for i := range size {
		if err := n.add(i); err != nil {
			return err
		}
	}
	for i := range size {
		x, y := i/side, i%side
		for _, j := range []int{(x+1)%side*side + y, x*side + (y+1)%side} {
			if _, err := n.lab.Connect(n.switches[i], n.switches[j]); err != nil {
				return err
			}
		}
	}
	logs := filepath.Join(dir, "cluster")
	if err := os.Mkdir(logs, 0o755); err != nil {
		return err
	}
	n.controllers, err = cluster.Start(ctx, cluster.Config{Binary: binary, Dir: logs, Apps: []string{"recovery"},
		Listen: n.lab.Addr().String()})
	if err != nil {
		return err
	}
	var addresses []string
	for _, c := range n.controllers.Controllers() {
		addresses = append(addresses, c.OpenFlow)
	}
	for _, s := range n.switches {
		if err := s.SetControllers(addresses...); err != nil {
			return err
		}
	}
	return nil
}

// add starts a switch with a host.
func (n *torus) add(i int) error {
	s, err := n.lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
	if err != nil {
		return err
	}
	h, err := n.lab.AddHost(fmt.Sprintf("h%d", i+1),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
	if err != nil {
		return err
	}
	n.switches, n.hosts = append(n.switches, s), append(n.hosts, h)
	if _, err := n.lab.Connect(s, h); err != nil {
		return err
	}
	socket, err := h.Raw()
	if err != nil {
		return err
	}
	n.sockets = append(n.sockets, socket)
	return s.SetManager("ptcp:6640")
}

func (n *torus) close() (err error) {
	for _, f := range n.sockets {
		f.Close()
	}
	if n.controllers != nil {
		err = n.controllers.Close()
	}
	if n.lab != nil {
		err = errors.Join(err, n.lab.Close())
	}
	return err
}

// settle waits until each frame of a second has arrived, and BFD is up on all links and as fast as it may be.
func (n *torus) settle(ctx context.Context, s *streams) error {
	for began := time.Now(); ; {
		if err := pause.For(ctx, lookGap); err != nil {
			return err
		}
		s.introduce()
		r, err := n.links(ctx)
		now := s.now()
		sent, lost := s.tally(now-2*time.Second, now-time.Second)
		d := r.Detection()
		works := err == nil && d.Links == linksOf && watched(&r) && sent > 0 && len(lost) == 0
		if waited := time.Since(began); works && (d.Slower == 0 || waited > getFast) {
			return nil
		} else if waited > patience {
			return errors.Join(err, fmt.Errorf("the network is not ready after %v: %d of %d frames of a second are "+
				"lost, and of %d links %d have slow BFD", patience, len(lost), sent, d.Links, d.Slower))
		}
	}
}

func watched(r *setup.Report) bool {
	for _, l := range r.Links {
		if !l.Watched() {
			return false
		}
	}
	return true
}

// count counts frames and alarms while the load runs.
func (n *torus) count(ctx context.Context, d time.Duration, s *streams, stop func()) (r Result, err error) {
	began, flaps := s.now(), map[string]int{}
	var alarms []time.Duration
	for s.now() < began+d {
		if err := pause.For(ctx, lookGap); err != nil {
			return r, err
		}
		links, err := n.links(ctx)
		if err != nil {
			continue // a busy controller may answer late
		}
		r.Detection = links.Detection()
		r.SlowestMs = max(r.SlowestMs, r.Detection.WithinMs)
		for _, l := range links.Links {
			key := fmt.Sprint(l.Ends[0].Switch, l.Ends[0].Port)
			now := l.Ends[0].Flaps + l.Ends[1].Flaps
			if was, known := flaps[key]; known && now > was {
				alarms = append(alarms, s.now())
			}
			flaps[key] = now
		}
	}
	ended := s.now()
	stop()
	if err := pause.For(ctx, drain); err != nil {
		return r, err
	}
	sent, lost := s.tally(began, ended)
	r.Sent, r.Lost, r.Alarms, r.Harmful = sent, len(lost), len(alarms), harmful(alarms, lost)
	return r, nil
}

// harmful counts the alarms about which something was lost.
func harmful(alarms, lost []time.Duration) (n int) {
	for _, a := range alarms {
		for _, l := range lost {
			if l > a-before && l < a+after {
				n++
				break
			}
		}
	}
	return n
}

// links returns the leader's report.
func (n *torus) links(ctx context.Context) (r setup.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, c := range n.controllers.Controllers() {
		if err = cluster.Ask(ctx, c, api.ClusterClient.ListLinks, &r); err == nil {
			return r, nil
		}
	}
	return r, err
}
