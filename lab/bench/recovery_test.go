package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/outage"
)

// Without a detector sentries watch where the switch cannot; without a multiplier it is 3, and more where 3 would not
// outlast a wait for a processor.
func TestRecoveryDefaults(t *testing.T) {
	for _, c := range []struct {
		intervalMs     int
		detector, want string
		multiplier     int
	}{
		{1, "", "sentry", 4}, {2, "", "sentry", 3}, {5, "", "sentry", 3}, {15, "", "switch", 3}, {100, "", "switch", 3},
		{1, "switch", "switch", 5}, {5, "switch", "switch", 3}, {15, "sentry", "sentry", 3},
	} {
		b := Recovery{Topology: "ring", Cut: "silent", Samples: 1, IntervalMs: c.intervalMs, Detector: c.detector}
		if _, err := b.complete(); err != nil || b.Multiplier != c.multiplier || b.Detector != c.want {
			t.Errorf("%d ms, %q: %s, multiplier %d, error %v; want %s, %d", c.intervalMs, c.detector, b.Detector,
				b.Multiplier, err, c.want, c.multiplier)
		}
	}
}

func TestRecoveryReport(t *testing.T) {
	r := outage.Result{Path: graphs.Triangle().Links()[:1], FalseAlarms: 3, Lost: 7, Unharmed: 1,
		Watched: 2 * time.Minute, Pressure: 0.25}
	r.Stops = outage.Stops{Count: 40, Longest: 35 * time.Millisecond, FalseAlarms: 2, Chance: 0.01}
	for i := range 100 {
		r.Samples = append(r.Samples, outage.Sample{Outage: time.Duration(i+1) * time.Millisecond,
			Resolution: time.Millisecond})
	}
	b := Recovery{Topology: "triangle", Cut: "silent", Samples: 100, IntervalMs: 5}
	network, err := b.complete()
	if err != nil {
		t.Fatal(err)
	}
	got := b.report(network, r).Figures
	for name, want := range map[string]float64{
		"recovery_ms_min": 1, "recovery_ms_median": 51, "recovery_ms_mean": 50.5, "recovery_ms_p95": 96,
		"recovery_ms_max": 100, "samples": 100, "paper_recovery_ms_mean": 15,
		"false_alarms": 3, "false_alarms_per_minute": 1.5, "frames_lost_while_whole": 7,
		"false_alarms_processor_stopped": 2,
		"processor_stops":                40, "processor_stop_ms_max": 35, "processor_stop_chance_percent": 1,
		"cuts_without_loss": 1, "cpu_pressure_percent": 25, "resolution_ms_p95": 1,
	} {
		if d := got[name] - want; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// The line under the plot says what the stops were; so does the setup, unless others may have been waited for.
func TestRecoveryStops(t *testing.T) {
	r := outage.Result{Path: graphs.Triangle().Links()[:1], FalseAlarms: 3,
		Stops: outage.Stops{Count: 40, Longest: 35 * time.Millisecond, FalseAlarms: 2, Chance: 0.012}}
	b := Recovery{Topology: "triangle", Cut: "silent", Samples: 1, IntervalMs: 5}
	network, err := b.complete()
	if err != nil {
		t.Fatal(err)
	}
	want := "3 false alarms, 2 of them when a processor stood still (by chance: 1 %); one did so 40 times, for " +
		"35.0 ms at most\n"
	if got := b.plot(network, r); !strings.HasSuffix(got, want) {
		t.Errorf("the plot is\n%s\nwant at its end %s", got, want)
	}
	r.Stops.Err = errors.New("no right to")
	if got := b.setup(network, r)["processor_stops"].(string); !strings.Contains(got, "no right to") {
		t.Error(got)
	}
}

func TestHistogram(t *testing.T) {
	values := []float64{900}
	for i := range 99 {
		values = append(values, 10+float64(i%9)/4)
	}
	marks := map[string]float64{"median": 11, "the paper's mean": 15}
	want := `
    10.0 -   10.5  ##################################################    22   22 %
    10.5 -   11.0  ##################################################    22   44 %
    11.0 -   11.5  ##################################################    22   66 %  < median, 11.0
    11.5 -   12.0  ##################################################    22   88 %
    12.0 -   12.5  #########################                             11   99 %
    12.5 -   13.0                                                         0   99 %
    13.0 -   13.5                                                         0   99 %
    13.5 -   14.0                                                         0   99 %
    14.0 -   14.5                                                         0   99 %
    14.5 -   15.0                                                         0   99 %
    15.0 -   15.5                                                         0   99 %  < the paper's mean, 15.0
    15.5 -    900  ###                                                    1  100 %
`
	if got := "\n" + histogram(values, marks); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for _, odd := range [][]float64{nil, {0}, {7, 7, 7}, {0, 1e9}, {0.0001, 0.0002}} {
		if rows := strings.Count(histogram(odd, nil), "\n"); rows > plotRows || rows == 0 && len(odd) > 0 {
			t.Errorf("%v: %d rows", odd, rows)
		}
	}
}
