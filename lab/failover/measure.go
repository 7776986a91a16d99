package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Speed is how fast commands get to switches, without faults.
type Speed struct {
	CommandsPerSecond float64       // saturated
	Median, P99       time.Duration // of one packet: from the host to the controllers and back by a command
}

// Of a measurement: outstanding packets of each host, and commands for each packet. Open vSwitch drops packet-ins when
// a hundred wait for a connection, so events are few and commands many.
const (
	speedWindow = 8
	speedBurst  = 64
)

// Measure runs the application of NewBurst, which the binary must have as "burst", first with one packet at a time,
// then with as much as the window allows, each for the given time. Nothing is compared: a relay takes the place of the
// witness.
func Measure(ctx context.Context, cfg Config, each time.Duration) (s Speed, err error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp("", "holdfast-speed-")
	if err != nil {
		return s, fmt.Errorf("folder for the measurement: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg.App = "burst"
	t := &experiment{Config: cfg, blind: true}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.start(ctx, dir); err != nil {
		return s, err
	}
	hosts := t.net.hosts()
	const warmup = time.Second
	if _, err := probe(ctx, hosts[:1], 1, 1, warmup); err != nil {
		return s, err
	}
	took, err := probe(ctx, hosts[:1], 1, 1, each)
	if err != nil {
		return s, err
	}
	slices.Sort(took)
	s.Median, s.P99 = took[len(took)/2], took[len(took)*99/100]
	if _, err = probe(ctx, hosts, speedWindow, speedBurst, warmup); err != nil {
		return s, err
	}
	if took, err = probe(ctx, hosts, speedWindow, speedBurst, each); err != nil {
		return s, err
	}
	s.CommandsPerSecond = float64(len(took)*speedBurst) / each.Seconds()
	return s, nil
}

// probe keeps the given number of packets of each host outstanding for d, each of which requests a burst of commands,
// and returns how long those took that came back.
func probe(ctx context.Context, hosts []*Host, window int, burst byte, d time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex // guards took
	var took []time.Duration
	over := time.Now().Add(d)
	idle := make(chan struct{}, window*len(hosts)) // one for each outstanding packet that ends
	for _, h := range hosts {
		h.onReply(func(rtt time.Duration) {
			if time.Now().After(over) {
				idle <- struct{}{}
				return
			}
			mu.Lock()
			took = append(took, rtt)
			mu.Unlock()
			h.probe(burst)
		})
		for range window {
			h.probe(burst)
		}
	}
	for range window * len(hosts) {
		select {
		case <-idle:
		case <-time.After(d + patience):
			return nil, fmt.Errorf("a packet that wants %d commands did not come back in %v", burst, patience)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(took) == 0 {
		return nil, errors.New("no packet came back")
	}
	return took, nil
}

// blind observes nothing.
type blind struct{}

func (blind) FromSwitch(openflow.DatapathID, []byte) {}
func (blind) ToSwitch(openflow.DatapathID, []byte)   {}
