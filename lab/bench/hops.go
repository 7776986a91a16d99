package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Hops measures how long it takes from a packet-in of one switch to the command for another, one at a time, when an
// actor elsewhere handles it. Three controllers lead a group each. In one hop both switches are in the group of the
// actor, so one entry is committed. In two hops the first switch is in another group, and in three hops all three are
// in different groups.
type Hops struct {
	Binary     string   // the holdfast binary
	Durability []string // memory, disk or both; figures of disk end in _disk
	Packets    int      // of a measurement
	Rounds     int      // measurements of each number of hops; they take turns, every second round backwards
}

const mostHops = 3

// Validate returns a *FieldError for a value that cannot be.
func (h Hops) Validate() error {
	for _, d := range h.Durability {
		if err := isDurability(d); err != nil {
			return err
		}
	}
	return cmp.Or(inRange("packets", h.Packets, 1, 1_000_000), inRange("rounds", h.Rounds, 1, 1000))
}

// Run runs the benchmark.
func (h Hops) Run(ctx context.Context, progress Progress) (Report, error) {
	f := map[string]float64{}
	for i, d := range h.Durability {
		p := func(done float64) {
			progress.show((float64(i)+done)/float64(len(h.Durability)), "durability "+d)
		}
		if err := h.measure(ctx, p, d, f); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "hops", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, each of which leads a group; all have replicas of every group",
		"agents":      "1 process for all switches", "app": exchange.Name,
		"switches": "6 fake OpenFlow 1.3 switches in this process, two in each group",
		"hops": "1: switches and actor in one group; 2: the switch that sends the packet-in in another; " +
			"3: the switches and the actor in three groups",
		"latency": "from writing a packet-in to the packet-out at another switch, one at a time; median of the " +
			"rounds' medians; ratios to one hop are medians of the rounds' ratios",
		"packets": h.Packets, "rounds": h.Rounds, "durability": h.Durability,
	}}, nil
}

// measure adds the figures of one kind of log.
func (h Hops) measure(ctx context.Context, progress func(float64), durability string, f map[string]float64) error {
	c, end, err := startCluster(ctx, cluster.Config{Binary: h.Binary, Apps: []string{exchange.Name},
		Durability: durability, Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return err
	}
	defer end()
	if err := c.WaitHome(ctx); err != nil {
		return err
	}
	v, err := newVoyage(ctx, c)
	if err != nil {
		return c.WithLogs(err)
	}
	defer v.close()
	var medians [mostHops + 1][]float64 // by hops
	for round := range h.Rounds {
		for i := range mostHops {
			hops := i + 1
			if round%2 == 1 {
				hops = mostHops - i
			}
			progress((float64(round) + float64(i)/mostHops) / float64(h.Rounds))
			took, err := v.measure(ctx, hops, h.Packets)
			if err != nil {
				return c.WithLogs(fmt.Errorf("%d hops: %w", hops, err))
			}
			medians[hops] = append(medians[hops], quantile(took, 0.5))
		}
	}
	suffix := ""
	if durability == "disk" {
		suffix = "_disk"
	}
	for hops := 2; hops <= mostHops; hops++ {
		var ratios []float64
		for round, one := range medians[1] {
			ratios = append(ratios, medians[hops][round]/one)
		}
		f[fmt.Sprintf("ratio_hop%d%s", hops, suffix)] = quantile(ratios, 0.5)
	}
	for hops := 1; hops <= mostHops; hops++ {
		f[fmt.Sprintf("hop%d_us_p50%s", hops, suffix)] = quantile(medians[hops], 0.5)
	}
	return nil
}

// voyage is a network of six switches, two in each group, with a host each.
type voyage struct {
	ends   []*load.Endpoint
	groups []uint64 // of each
	actor  uint64   // the group of the application
	trip   atomic.Pointer[trip]
}

// trip is one measurement. Once it has begun, only the goroutine that reads the connection of the target uses it.
type trip struct {
	from   *load.Endpoint
	target int
	packet []byte
	left   int
	sent   time.Time
	took   []float64 // µs
	done   chan error
}

const (
	voyageSwitches = 6
	hostPort       = of13.Port(1)
	tripTimeout    = 10 * time.Second // without an answer
)

func newVoyage(ctx context.Context, c *cluster.Cluster) (v *voyage, err error) {
	v = &voyage{actor: controller.HomeOf(exchange.Name, len(c.Controllers()))}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	dial := load.At(c.Agents()[0].Listen)
	for i := range voyageSwitches { // one after the other, so that each group gets as many
		conn, err := dial(ctx, i)
		if err != nil {
			return v, err
		}
		v.ends = append(v.ends, load.Connect(conn, openflow.DatapathID(i+1),
			load.Taps{PacketOut: func(m *of13.PacketOut) { v.arrived(i, m.Data) }}))
		s, err := c.Wait(ctx, "the switches to be up", func(s cluster.Status) bool {
			return len(s.Switches) == i+1 && !slices.ContainsFunc(s.Switches, func(sw cluster.SwitchStatus) bool {
				return sw.State != "up" || sw.Role != "master" || sw.CommandsSent == 0 ||
					sw.CommandsDone < sw.CommandsSent
			})
		})
		if err != nil {
			return v, err
		}
		if v.groups, err = groupsOf(s); err != nil {
			return v, err
		}
	}
	for i := range v.ends { // a packet to itself makes a host known
		if _, err := v.run(ctx, i, i, 1); err != nil {
			return v, err
		}
	}
	return v, nil
}

// groupsOf returns the groups of the switches, by datapath id from 1.
func groupsOf(s cluster.Status) ([]uint64, error) {
	groups := make([]uint64, len(s.Switches))
	for _, sw := range s.Switches {
		id, err := strconv.ParseUint(sw.Switch, 16, 64)
		if err != nil || id < 1 || id > uint64(len(groups)) {
			return nil, fmt.Errorf("a switch with the datapath id %q", sw.Switch)
		}
		groups[id-1] = sw.Group
	}
	return groups, nil
}

func (v *voyage) close() {
	for _, e := range v.ends {
		e.Close()
	}
}

// measure returns how long packets took that pass so many groups, in µs.
func (v *voyage) measure(ctx context.Context, hops, packets int) ([]float64, error) {
	home := func(i int) bool { return v.groups[i] == v.actor }
	for from := range v.ends {
		for to := range v.ends {
			pass := 3
			switch {
			case from == to:
				continue
			case home(from) && home(to):
				pass = 1
			case home(to):
				pass = 2
			case home(from) || v.groups[from] == v.groups[to]:
				continue
			}
			if pass == hops {
				const warmup = 20
				if _, err := v.run(ctx, from, to, warmup); err != nil {
					return nil, err
				}
				return v.run(ctx, from, to, packets)
			}
		}
	}
	return nil, fmt.Errorf("no two switches for that: they are in the groups %v, and the actor is in %d", v.groups,
		v.actor)
}

// run sends packets from one host to another, each once the one before has arrived.
func (v *voyage) run(ctx context.Context, from, to, packets int) ([]float64, error) {
	t := &trip{from: v.ends[from], target: to, packet: make([]byte, 60), left: packets, done: make(chan error, 1)}
	copy(t.packet, []byte{2, 0, 0, 0, 0, byte(to), 2, 0, 0, 0, 0, byte(from)})
	binary.BigEndian.PutUint16(t.packet[12:], exchange.EtherType)
	binary.BigEndian.PutUint64(t.packet[14:], uint64(packets))
	t.sent = time.Now()
	v.trip.Store(t)
	defer v.trip.Store(nil)
	if err := t.from.PacketIn(hostPort, t.packet); err != nil {
		return nil, err
	}
	select {
	case err := <-t.done:
		return t.took, err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(tripTimeout + time.Duration(packets)*100*time.Millisecond):
		return nil, errors.Join(errors.New("a packet did not arrive"), v.ends[from].Err(), v.ends[to].Err())
	}
}

// arrived takes a packet that switch i is to send out, and sends the next one.
func (v *voyage) arrived(i int, packet []byte) {
	t := v.trip.Load()
	if t == nil || i != t.target || !slices.Equal(packet, t.packet) {
		return
	}
	now := time.Now()
	t.took = append(t.took, micros(now.Sub(t.sent)))
	if t.left--; t.left == 0 {
		t.done <- nil
		return
	}
	binary.BigEndian.PutUint64(t.packet[14:], uint64(t.left))
	t.sent = now
	if err := t.from.PacketIn(hostPort, t.packet); err != nil {
		t.done <- err
	}
}
