// Package outage measures how long a stream of frames is interrupted when a link on its way dies: a network of real
// Open vSwitches in network namespaces with the entries and groups of network/protect and BFD on every link, and no
// controller. Links are cut one by one, and mended.
//
// It is not a test of controllers: package failover is. It needs root, Open vSwitch, and the machine for itself.
package outage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Config says what to measure.
type Config struct {
	Graph    *paths.Graph
	From, To openflow.DatapathID // the switches of the two hosts
	Interval time.Duration       // of BFD
	// of BFD on links that the stream never uses, whichever link of its path is dead; Interval if 0. Not with Sentry
	Elsewhere time.Duration
	// the holdfast binary, if its sentries are to watch all links; then the BFD of the switches is slow
	Sentry     string
	Multiplier int // missed packets in a row after which a link is dead
	Samples    int
	Carrier    bool // the far end of the link loses its carrier; else frames are lost silently, both ways
	// switches, stream, sentry and the cutting processes have real-time priority, if that is allowed
	Realtime bool
	Every    time.Duration // between two frames of the stream

	Progress func(done float64, what string)
}

// Sample is one interruption.
type Sample struct {
	Outage     time.Duration
	Resolution time.Duration // time between frames where it begins and ends: the accuracy
}

// Result is what was measured.
type Result struct {
	Samples []Sample
	Path    []paths.Link // of the stream while no link is cut: its links are cut in turn
	Quick   int          // links on which BFD runs at Interval

	FalseAlarms int // links that BFD, of switches or sentries, reported as dead and that were not cut
	Stops       Stops
	Unharmed    int           // cuts that lost no frame, because the stream did not use the link just then: no samples
	Lost        int           // frames lost while no link was cut
	Watched     time.Duration // how long false alarms were counted
	// the longest time that the sender of the stream waited for a processor: the switches may have, too
	Late     time.Duration
	Pressure float64 // share of that time in which some process waited for a processor, 0 to 1

	Realtime error // why there was no priority, if it was asked for
	Version  string
}

// Stops is when processors did nothing, not even for a thread of the highest priority. Those of a virtual machine stop
// while its host gives them to others, and any processor does while it runs kernel code that cannot be interrupted.
type Stops struct {
	Count       int // of 2 ms and more
	Longest     time.Duration
	FalseAlarms int     // those during a stop or within 5 ms after it
	Chance      float64 // share of the time that these windows cover: as many alarms would be in them by chance
	Err         error   // why the threads had no priority, so that waits for other threads count
}

const (
	// settleLimit is how long links may take to be up at their intervals. Open vSwitch needs one to three seconds.
	settleLimit = time.Minute

	// outageLimit is how long the stream may be interrupted.
	outageLimit = 20 * time.Second

	// slow is the interval of the BFD of switches that have a sentry.
	slow = 100 * time.Millisecond

	// lull is the time before each cut in which no link is down: groups return to their first bucket a little after BFD
	// is up again.
	lull = 100 * time.Millisecond

	// unharmed is how long after a cut all frames may arrive, beyond the detection time of BFD, before the cut counts
	// as harmless.
	unharmed = time.Second
)

// Run builds the network, measures, and removes it.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	dir, err := os.MkdirTemp("", "outage-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	n, err := build(ctx, cfg, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	return n.measure(ctx)
}

func (n *network) measure(ctx context.Context) (r Result, err error) {
	r.Path, r.Quick, r.Version = n.path, len(n.quick)/2, n.version
	if n.cfg.Realtime {
		r.Realtime = n.prioritise()
	}
	s, err := startStream(n.hosts[0], n.hosts[1], n.cfg.Every)
	if err != nil {
		return r, err
	}
	defer s.close()
	n.cfg.Progress(0, "the links come up")
	if err := n.settle(ctx); err != nil {
		return r, err
	}
	watch, err := watchStandstill()
	if err != nil {
		return r, err
	}
	defer watch.close()
	began, waited := time.Now(), pressure()
	s.forget()
	s.late()
	cuts := map[paths.Link][]span{}
	for tries := 0; len(r.Samples) < n.cfg.Samples; tries++ {
		if r.Unharmed > n.cfg.Samples {
			return r, fmt.Errorf("%d cuts harmed nothing: links are taken for dead too often", r.Unharmed)
		}
		n.cfg.Progress(float64(len(r.Samples))/float64(n.cfg.Samples),
			fmt.Sprintf("cut %d of %d", len(r.Samples)+1, n.cfg.Samples))
		if err := pause.For(ctx, lull); err != nil {
			return r, err
		}
		link := n.path[tries%len(n.path)]
		r.Lost += s.forget()
		sample, harmed, window, err := n.cut(ctx, s, link)
		cuts[link] = append(cuts[link], window)
		if err != nil {
			return r, fmt.Errorf("cut %d, of %v: %w", tries+1, link, err)
		}
		if harmed {
			r.Samples = append(r.Samples, sample)
		} else {
			r.Unharmed++
		}
	}
	r.Watched = time.Since(began)
	r.Pressure = float64(pressure()-waited) / float64(r.Watched)
	r.Lost, r.Late = r.Lost+s.forget(), s.late()
	stops := watch.close()
	downs, err := n.downs()
	alarms := falseAlarms(n.cables, downs, cuts, span{began, began.Add(r.Watched)})
	r.FalseAlarms, r.Stops = len(alarms), judge(stops, alarms, r.Watched)
	r.Stops.Err = watch.err
	return r, err
}

// judge finds the alarms that are consequences of stops.
func judge(stops []span, alarms []time.Time, watched time.Duration) Stops {
	s := Stops{Count: len(stops)}
	for _, stop := range stops {
		s.Longest = max(s.Longest, stop.length())
	}
	windows := aftermaths(stops)
	for _, w := range windows {
		s.Chance += float64(w.length()) / float64(watched)
	}
	s.FalseAlarms = within(alarms, windows)
	return s
}

// cut does one cut, until its link is as before. It returns whether a frame was lost, and when the link was dead.
func (n *network) cut(ctx context.Context, s *stream, link paths.Link) (sample Sample, harmed bool, dead span,
	err error) {
	began := s.now()
	dead.from = time.Now().Truncate(time.Millisecond) // as logs do
	if err := n.breakers[link].cut(); err != nil {
		return sample, false, dead, err
	}
	patience := unharmed + time.Duration(n.cfg.Multiplier+1)*n.cfg.Interval
	for over := false; !over; {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return sample, false, dead, err
		}
		if sample, over, err = s.outage(began); err != nil {
			return sample, false, dead, err
		}
		harmed = over
		switch waited := s.now() - began; {
		case over:
		case waited > outageLimit:
			return sample, false, dead, fmt.Errorf("frames do not come again in %v", outageLimit)
		case waited > patience && !s.lost(began):
			over = true
		}
	}
	// Both ends must have detected it: if the link is restored earlier, one end goes down for reasons that look like a
	// false alarm.
	if err := n.await(ctx, link, func(_ paths.End, s appctl.Session) (bool, error) {
		return !s.Forwarding,
			nil
	}); err != nil {
		return sample, false, dead, fmt.Errorf("wait until both ends take it for dead: %w", err)
	}
	s.forget()
	dead.to = time.Now()
	if err := n.breakers[link].mend(); err != nil {
		return sample, false, dead, err
	}
	if err := n.await(ctx, link, n.agreed); err != nil {
		return sample, false, dead, fmt.Errorf("wait until it is up again: %w", err)
	}
	return sample, harmed, dead, n.settle(ctx)
}
