package bench

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdfast-sdn/holdfast/lab/calm"
)

// busyCuts is how often a link is cut in the last part.
const busyCuts = 20

// torus counts what is lost in a network with the application recovery in which nothing fails, beside the load.
func (b Busy) torus(ctx context.Context, progress Progress, r Report) error {
	counted, err := calm.Run(ctx, calm.Config{Binary: b.Binary, Duration: b.duration(),
		Load:     func() (func(), error) { return burn(b.Load) },
		Progress: func(what string) { progress.show(0, what) }})
	if err != nil {
		return fmt.Errorf("a torus with recovery: %w", err)
	}
	maps.Copy(r.Figures, map[string]float64{
		"frames_lost_percent": 100 * float64(counted.Lost) / float64(max(1, counted.Sent)),
		"frames_sent":         float64(counted.Sent), "false_alarms": float64(counted.Alarms),
		"false_alarms_with_loss": float64(counted.Harmful), "detection_ms_max": counted.SlowestMs})
	maps.Copy(r.Setup, map[string]any{
		"torus": "9 Open vSwitches without agents, 18 links, 3 controllers, recovery with defaults; each host " +
			"sends a frame every 20 ms to one in another row and column",
		"false_alarms":     "times that a link was taken for dead; nothing is cut",
		"detection_ms_max": "the longest time in which a dead link would have been detected, as holdfast status shows"})
	return nil
}

// alone measures recovery as bench recovery does, when the load is over.
func (b Busy) alone(ctx context.Context, progress Progress, r Report) error {
	alone, err := Recovery{Binary: b.Binary, Topology: "triangle", IntervalMs: sentryBelowMs, Samples: busyCuts,
		Cut: "silent", Realtime: true}.Run(ctx, progress)
	if err != nil {
		return fmt.Errorf("recovery without load: %w", err)
	}
	r.Figures["recovery_ms_median"] = alone.Figures["recovery_ms_median"]
	r.Setup["recovery"] = fmt.Sprintf("without load: bench recovery, triangle, %d ms × 3, %d silent cuts",
		sentryBelowMs, busyCuts)
	return nil
}
