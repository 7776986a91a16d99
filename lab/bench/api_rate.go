package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/load"
)

// Trials of a rate.
const (
	apiTrial  = 2 * time.Second // how long each lasts
	apiTrials = 8               // at most, besides that of nearly none
	apiNear   = 1.1             // so much more may be used than asked for
)

// findRate sets at which rate packet-ins come: at most Load percent of what was answered one at a time, and at most so
// many that the control path alone keeps the processors busy for Busy percent of the time. Otherwise the clients, which
// share the machine, would find no processor that is free, and the figures would be about the machine.
func (m *apiMeasurement) findRate(ctx context.Context) (err error) {
	defer m.progress.during((apiTrials+1)*(apiTrial+m.control.Warmup), "which rate")()
	m.control.Mode = load.Paced
	m.control.Rate, err = highestRate(max(1, m.oneAtATime*float64(m.Load)/100), float64(m.Busy),
		func(rate float64) (float64, error) { return m.try(ctx, rate) })
	return err
}

// highestRate returns the highest rate, up to most, at which use is about percent. Fewer packet-ins cost more each, so
// what a lower rate uses is above the line from that of nearly none, and each trial comes nearer.
func highestRate(most, percent float64, use func(rate float64) (percent float64, err error)) (float64, error) {
	none, err := use(1)
	if err != nil {
		return 0, err
	}
	if none >= percent {
		return 0, fmt.Errorf("without packet-ins the control path already uses %.0f %% of the processors: end what "+
			"else runs on this machine, use one with more processors, or a higher --busy", none)
	}
	rate := most
	for range apiTrials {
		used, err := use(rate)
		if err != nil || used <= apiNear*percent {
			return rate, err
		}
		rate = max(1, rate*(percent-none)/(used-none))
	}
	return rate, nil
}

// try returns what percent of the processors' time the control path uses at a rate.
func (m *apiMeasurement) try(ctx context.Context, rate float64) (percent float64, err error) {
	cfg := m.control
	cfg.Rate, cfg.Duration = rate, apiTrial
	_, used, err := m.run(ctx, cfg)
	return used.path, err
}

// run puts a load on the control path, and returns what is used meanwhile, too.
func (m *apiMeasurement) run(ctx context.Context, cfg load.Config) (r load.Result, used shares, err error) {
	cfg.Beside = func(ctx context.Context, _ func() uint64) error {
		before := m.use()
		<-ctx.Done()
		used = m.use().since(before)
		return nil
	}
	r, err = load.Run(ctx, cfg)
	return r, used, err
}

// use is how long processors were used until a moment.
type use struct {
	at                         time.Time
	controllers, path, machine time.Duration // the path is the controllers, the agent, and this process: the switches
}

// shares are percent of the time of all processors, but controllers is percent of one.
type shares struct{ controllers, path, machine float64 }

func (m *apiMeasurement) use() use {
	u := use{at: time.Now(), machine: busyTime()}
	for _, c := range m.cl.Controllers() {
		u.controllers += runTime(c.Pid())
	}
	u.path = u.controllers + runTime(os.Getpid())
	for _, a := range m.cl.Agents() {
		u.path += runTime(a.Pid())
	}
	return u
}

func (u use) since(before use) shares {
	one := u.at.Sub(before.at)
	percent := func(used, of time.Duration) float64 { return 100 * used.Seconds() / of.Seconds() }
	all := one * time.Duration(runtime.NumCPU())
	return shares{percent(u.controllers-before.controllers, one), percent(u.path-before.path, all),
		percent(u.machine-before.machine, all)}
}

// busyTime returns how long the processors of this machine were not idle, with all that runs on it.
func busyTime() (busy time.Duration) {
	const tick = time.Second / 100 // USER_HZ, the same on all architectures of Go
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	for i, field := range bytes.Fields(line) {
		// The name; user, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen; guests are in user.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseInt(string(field), 10, 64) // 0 of a kernel that has no such field
		busy += time.Duration(n) * tick
	}
	return busy
}
