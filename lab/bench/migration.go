package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Migration measures how long an actor pauses while it moves from group to group, under load: three controllers lead a
// group each, switches in all of them send packet-ins that the actor handles, and it answers with packet-outs.
type Migration struct {
	Binary     string // the holdfast binary
	StateBytes []int  // sizes of the actor's state; figures end in _bN
	Moves      int    // of each size
	Window     int    // packet-ins outstanding for each switch
}

// Validate returns a *FieldError for a value that cannot be.
func (m Migration) Validate() error {
	for _, n := range m.StateBytes {
		if err := inRange("state-bytes", n, 1, 64<<20); err != nil {
			return err
		}
	}
	return cmp.Or(inRange("moves", m.Moves, 1, 10_000), inRange("window", m.Window, 1, 1024))
}

// Run runs the benchmark.
func (m Migration) Run(ctx context.Context, progress Progress) (Report, error) {
	f := map[string]float64{}
	for i, size := range m.StateBytes {
		p := func(done float64) {
			progress.show((float64(i)+done)/float64(len(m.StateBytes)), fmt.Sprint("state of ", size, " bytes"))
		}
		if err := m.measure(ctx, p, size, f); err != nil {
			return Report{}, err
		}
	}
	return Report{Bench: "migration", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, each of which leads a group; all have replicas of every group",
		"agents":      "1 process for all switches", "app": exchange.Name, "durability": "memory",
		"switches": fmt.Sprintf("%d fake OpenFlow 1.3 switches in this process, with %d packet-ins outstanding each",
			crowdSwitches, m.Window),
		"state": "a row for each host, of which the cells have so many bytes",
		"pause": "how long the actor worked nowhere, at most: from the transaction in which it departed until the " +
			"leader of that group knew that the other one had committed its arrival",
		"gap": "the longest time without a packet-out at any switch, from the request to move the actor until it " +
			"lives in the other group: it has what other work of the machine causes while the state is copied, too",
		"usual_gap": "the same in as long a time without a move, just before",
		"gap_more":  "what a gap is more than the usual one just before",
		"wait": "the longest time from a packet-in to its packet-out within the move, at any switch: it has the " +
			"pause, what is queued, and the way to another group",
		"usual_wait": "the same in as long a time without a move",
		"counts":     "lost, repeated and reordered are packets, each of which is to return once and in order",
		"moves":      m.Moves, "state_bytes": m.StateBytes,
	}}, nil
}

// measure adds the figures of one size.
func (m Migration) measure(ctx context.Context, progress func(float64), size int, f map[string]float64) error {
	c, end, err := startCluster(ctx, cluster.Config{Binary: m.Binary, Apps: []string{exchange.Name},
		Durability: "memory", Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return err
	}
	defer end()
	if err := c.WaitHome(ctx); err != nil {
		return err
	}
	mover, err := newOperator(c, exchange.Name)
	if err != nil {
		return err
	}
	defer mover.Close()
	crowd, err := newCrowd(ctx, c, size)
	if err != nil {
		return c.WithLogs(err)
	}
	defer crowd.close()
	crowd.begin(m.Window)
	var pauses, gaps, usual, more, waits, usualWaits, took []float64
	between := 50 * time.Millisecond // then as long as the last move took
	for n := range m.Moves {
		progress(float64(n) / float64(m.Moves))
		crowd.longest()
		time.Sleep(between)
		gap, wait := crowd.longest()
		usual, usualWaits = append(usual, millis(gap)), append(usualWaits, millis(wait))
		start := time.Now()
		group := uint64(n%len(c.Controllers()) + 1)
		moved, err := mover.Move(ctx, controller.Move{App: exchange.Name, Group: group})
		if err != nil {
			return c.WithLogs(fmt.Errorf("move %d: %w", n+1, err))
		}
		between = time.Since(start)
		took = append(took, millis(between))
		gap, wait = crowd.longest()
		gaps, waits = append(gaps, millis(gap)), append(waits, millis(wait))
		more = append(more, gaps[n]-usual[n])
		if moved.PausedMs > 0 {
			pauses = append(pauses, moved.PausedMs)
		}
	}
	lost, err := crowd.finish(ctx)
	if err != nil {
		return c.WithLogs(err)
	}
	if len(pauses) == 0 {
		return c.WithLogs(errors.New("no group has said how long the actor paused"))
	}
	suffix := fmt.Sprintf("_b%d", size)
	f["pause_ms_p50"+suffix], f["pause_ms_p99"+suffix] = quantile(pauses, 0.5), quantile(pauses, 0.99)
	f["pauses_unknown"+suffix] = float64(m.Moves - len(pauses))
	f["gap_ms_p50"+suffix], f["gap_ms_p99"+suffix] = quantile(gaps, 0.5), quantile(gaps, 0.99)
	f["usual_gap_ms_p50"+suffix], f["move_ms_p50"+suffix] = quantile(usual, 0.5), quantile(took, 0.5)
	f["gap_more_ms_p50"+suffix] = quantile(more, 0.5)
	f["wait_ms_p50"+suffix], f["usual_wait_ms_p50"+suffix] = quantile(waits, 0.5), quantile(usualWaits, 0.5)
	f["lost"+suffix], f["repeated"+suffix] = float64(lost), float64(crowd.repeated)
	f["reordered"+suffix], f["packets"+suffix] = float64(crowd.reordered), float64(crowd.received)
	return nil
}

// newOperator returns a client of a cluster's operator. apps are the applications of the cluster.
func newOperator(c *cluster.Cluster, apps ...string) (*client.Client, error) {
	file, err := config.Load(c.ClusterFile(), apps)
	if err != nil {
		return nil, err
	}
	return client.New(file, slog.New(slog.DiscardHandler), "", nil)
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

// crowd is switches that send packet-ins to the actor, each to itself, so that the packets return.
type crowd struct {
	ends []*load.Endpoint

	mu                            sync.Mutex                            // guards the fields below
	window                        int                                   // 0: nothing more is sent
	sent, got                     []uint64                              // numbers of packets, by switch
	sentAt                        [crowdSwitches][crowdMemory]time.Time // by number of the packet
	received, repeated, reordered int
	last                          time.Time
	gap, longestWait              time.Duration // the longest since longest was called; see there
	err                           error
}

const (
	crowdSwitches = 6
	crowdMemory   = 2048 // packets of a switch are outstanding at most
	rowBytes      = 40   // of a host in the actor's state, about
	crowdPatience = 20 * time.Second
)

// newCrowd connects the switches, and makes the state of the actor about so large: it learns one host after the other.
func newCrowd(ctx context.Context, c *cluster.Cluster, size int) (w *crowd, err error) {
	w = &crowd{sent: make([]uint64, crowdSwitches), got: make([]uint64, crowdSwitches)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	dial := load.At(c.Agents()[0].Listen)
	for i := range crowdSwitches {
		conn, err := dial(ctx, i)
		if err != nil {
			return w, err
		}
		w.ends = append(w.ends, load.Connect(conn, openflow.DatapathID(i+1),
			load.Taps{PacketOut: func(m *of13.PacketOut) { w.arrived(i, m.Data) }}))
	}
	_, err = c.Wait(ctx, "the switches to be up", func(s cluster.Status) bool {
		up := 0
		for _, sw := range s.Switches {
			if sw.State == "up" && sw.Role == "master" && sw.CommandsSent > 0 && sw.CommandsDone == sw.CommandsSent {
				up++
			}
		}
		return up == crowdSwitches
	})
	if err != nil {
		return w, err
	}
	hosts := max(size/rowBytes/crowdSwitches, 1)
	for i := range w.ends {
		for h := range hosts {
			if err := w.send(i, uint64(h)); err != nil {
				return w, err
			}
			if (h+1)%64 == 0 || h+1 == hosts {
				if err := w.wait(ctx, i, uint64(h+1)); err != nil {
					return w, err
				}
			}
		}
	}
	return w, nil
}

// begin begins the load.
func (w *crowd) begin(window int) {
	w.mu.Lock()
	w.window, w.last, w.received, w.gap, w.longestWait = window, time.Now(), 0, 0, 0
	w.mu.Unlock()
	for i := range w.ends {
		for range window {
			if err := w.send(i, 0); err != nil {
				w.fail(err)
			}
		}
	}
}

// send sends the next packet of a switch, from a host to itself.
func (w *crowd) send(i int, host uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock() // so that packets leave in the order of their numbers
	w.sent[i]++
	w.sentAt[i][w.sent[i]%crowdMemory] = time.Now()
	p := make([]byte, 60)
	var mac [8]byte
	binary.BigEndian.PutUint64(mac[:], 2<<40|uint64(i)<<32|host)
	copy(p, mac[2:])
	copy(p[6:], mac[2:])
	binary.BigEndian.PutUint16(p[12:], exchange.EtherType)
	binary.BigEndian.PutUint64(p[14:], w.sent[i])
	return w.ends[i].PacketIn(hostPort, p)
}

// arrived takes a packet that switch i is to send out.
func (w *crowd) arrived(i int, p []byte) {
	w.mu.Lock()
	now, n := time.Now(), binary.BigEndian.Uint64(p[14:])
	w.gap = max(w.gap, now.Sub(w.last))
	w.longestWait = max(w.longestWait, now.Sub(w.sentAt[i][n%crowdMemory]))
	w.last = now
	w.received++
	switch next := w.got[i] + 1; {
	case n < next:
		w.repeated++
	case n > next:
		w.reordered++
		w.got[i] = n
	default:
		w.got[i] = n
	}
	more := w.window > 0
	w.mu.Unlock()
	if more {
		if err := w.send(i, 0); err != nil {
			w.fail(err)
		}
	}
}

func (w *crowd) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// longest returns the longest time without a packet since it was last called, up to now, and the longest time that a
// packet was on its way.
func (w *crowd) longest() (gap, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap, wait = max(w.gap, time.Since(w.last)), w.longestWait
	for i, got := range w.got {
		if got < w.sent[i] {
			wait = max(wait, time.Since(w.sentAt[i][(got+1)%crowdMemory]))
		}
	}
	w.gap, w.longestWait = 0, 0
	return gap, wait
}

// wait waits until a switch has got packet n.
func (w *crowd) wait(ctx context.Context, i int, n uint64) error {
	const poll = time.Millisecond
	for end := time.Now().Add(crowdPatience); ; time.Sleep(poll) {
		w.mu.Lock()
		got, err := w.got[i], w.err
		w.mu.Unlock()
		switch {
		case err != nil || got >= n:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("switch %d got packet %d, not %d, in %v", i+1, got, n, crowdPatience)
		}
	}
}

// finish ends the load, waits for what is on its way, and returns how many packets did not return.
func (w *crowd) finish(ctx context.Context) (lost int, err error) {
	w.mu.Lock()
	w.window = 0
	w.mu.Unlock()
	for i := range w.ends {
		err = errors.Join(err, w.wait(ctx, i, w.sent[i]))
		lost += int(w.sent[i] - w.got[i])
	}
	return lost, err
}

func (w *crowd) close() {
	for _, e := range w.ends {
		e.Close()
	}
}
