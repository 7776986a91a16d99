package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

// Inside is the variant that uses no store: the application is handlers of the controllers, and the packets come from
// switches, each of which has a share of the flows. The device manager answers nothing, so it has no such figures.
const Inside = "inside"

const insideSwitches = 4

// inside measures the variant Inside.
func (s StoreWorkload) inside(ctx context.Context, progress Progress, w workload) (Report, error) {
	c, end, err := startCluster(ctx, cluster.Config{Binary: s.Binary, Apps: []string{w.app}, Durability: s.Durability})
	if err != nil {
		return Report{}, err
	}
	defer end()
	progress.show(0, "preparing "+s.Workload)
	if w.app == "balancer" {
		if err := addVirtual(ctx, c); err != nil {
			return Report{}, c.WithLogs(err)
		}
	}
	var senders []*sender
	dial := load.At(c.Agents()[0].Listen)
	for i := range insideSwitches {
		conn, err := dial(ctx, i)
		if err != nil {
			return Report{}, err
		}
		t := &sender{done: make(chan error, 1)}
		t.packet = func(n int) onstore.Packet { return w.packet(n*insideSwitches + i) }
		t.on = load.Connect(conn, openflow.DatapathID(i+1),
			load.Taps{PacketOut: func(m *of13.PacketOut) { t.answered(m.Data) }})
		defer t.on.Close()
		senders = append(senders, t)
	}
	if _, err := c.Wait(ctx, "the switches to be up", func(st cluster.Status) bool {
		ready := func(sw cluster.SwitchStatus) bool {
			return sw.State == "up" && sw.CommandsSent > 0 && sw.CommandsDone == sw.CommandsSent
		}
		return len(st.Switches) == insideSwitches && !slices.ContainsFunc(st.Switches,
			func(sw cluster.SwitchStatus) bool { return !ready(sw) })
	}); err != nil {
		return Report{}, c.WithLogs(err)
	}
	if _, err := sendAll(ctx, senders, insideSwitches, knownHosts); err != nil { // so that hosts are known
		return Report{}, c.WithLogs(err)
	}
	r := Report{Bench: "store workload", Setup: map[string]any{"workload": s.Workload, "variant": s.Variant,
		"seconds": s.Seconds, "durability": s.Durability, "switches": insideSwitches,
		"operations": "none: handlers of 3 controllers, which share the machine with the switches and an agent"}}
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return Report{}, err
	}
	processes := usersOf(c, leader, "switches")
	processes["agent"] = []int{c.Agents()[0].Pid()}
	r.Figures, err = s.measure(progress, r.Setup, func(flows int, about time.Duration) (offer, error) {
		began, used := time.Now(), processes.used()
		took, err := sendAll(ctx, senders, flows, int(about/time.Microsecond))
		return offerOf(max(1, flows/insideSwitches)*insideSwitches, took, time.Since(began),
			processes.since(used)), err
	})
	if err != nil {
		return Report{}, c.WithLogs(err)
	}
	return r, nil
}

// addVirtual makes the virtual addresses of the balancer.
func addVirtual(ctx context.Context, c *cluster.Cluster) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return err
	}
	return together(16, func(i int) error {
		for n := i; n < knownHosts; n += 16 {
			body := fmt.Sprintf(`{"mac": "02:01:00:00:00:00", "servers": [{"address": %q, "mac": %q, "port": 1}, `+
				`{"address": %q, "mac": %q, "port": 2}]}`, hostIP(knownHosts+2*n), hostMAC(1), hostIP(knownHosts+2*n+1),
				hostMAC(2))
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+leader.REST+"/apps/balancer/"+
				vipIP(n).String(), strings.NewReader(body))
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusNoContent {
				return fmt.Errorf("add the virtual address %v: %s", vipIP(n), answer.Status)
			}
		}
		return nil
	})
}

// sender is a switch that sends packets, so many at a time. Each is answered by one packet-out, in order.
type sender struct {
	on     *load.Endpoint
	packet func(n int) onstore.Packet

	mu    sync.Mutex // guards what follows
	n     int        // of the next packet
	last  time.Time  // none is sent after it
	left  int        // that may be sent
	sent  []time.Time
	took  []float64 // µs
	done  chan error
	began bool
}

// send sends the next packet. mu is held.
func (t *sender) send() {
	if t.left == 0 || time.Now().After(t.last) {
		if len(t.sent) == 0 && t.began {
			t.began = false
			t.done <- nil
		}
		return
	}
	p := t.packet(t.n)
	t.n, t.left, t.sent = t.n+1, t.left-1, append(t.sent, time.Now())
	if err := t.on.PacketIn(p.InPort, frame(&p.Packet)); err != nil && t.began {
		t.began = false
		t.done <- err
	}
}

// answered takes a packet-out.
func (t *sender) answered([]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sent) == 0 {
		return
	}
	t.took = append(t.took, micros(time.Since(t.sent[0])))
	t.sent = t.sent[1:]
	t.send()
}

// sendAll sends at most so many packets of each switch, for as many µs at most if they are more than knownHosts, with
// flows of them at a time altogether. It returns how long each took, in µs.
func sendAll(ctx context.Context, senders []*sender, flows, most int) (took []float64, err error) {
	const patience = 20 * time.Second
	last := time.Now().Add(patience)
	if most > knownHosts {
		last = time.Now().Add(time.Duration(most) * time.Microsecond)
	}
	for _, t := range senders {
		t.mu.Lock()
		t.last, t.left, t.took, t.began = last, most, nil, true
		for range max(1, flows/len(senders)) {
			t.send()
		}
		t.mu.Unlock()
	}
	for _, t := range senders {
		select {
		case err := <-t.done:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(last) + patience):
			return nil, errors.Join(errors.New("a packet was not answered"), t.on.Err())
		}
		took = append(took, t.took...)
	}
	return took, nil
}

// frame returns a packet as it is on the wire.
func frame(p *packet.Packet) []byte {
	b := append(append(make([]byte, 0, 60), p.Dst[:]...), p.Src[:]...)
	b = binary.BigEndian.AppendUint16(b, p.Type)
	if p.Type == packet.ARP {
		b = append(b, 0, 1, packet.IPv4>>8, packet.IPv4&0xff, 6, 4, 0, byte(p.ARP))
		b = append(append(b, p.Src[:]...), p.From.AsSlice()...)
		b = append(append(b, make([]byte, len(of13.MAC{}))...), p.To.AsSlice()...)
	} else {
		b = append(append(b, 0x45), make([]byte, 11)...)
		b = append(append(b, p.From.AsSlice()...), p.To.AsSlice()...)
	}
	return b[:60]
}
