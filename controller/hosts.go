package controller

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// hosts runs the processes of replayed applications; see replay.Runner. Only the loop calls it.
type hosts struct {
	g     *group
	cfg   ryu.Config
	lives map[uint64]*ryu.Host
	leaks int // lives that exceeded their memory: the next ones get more
}

func newHosts(g *group, cfg ryu.Config) *hosts {
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, ryu.DefaultMemoryBytes) // the base that is doubled
	return &hosts{g: g, cfg: cfg, lives: map[uint64]*ryu.Host{}}
}

// maxLeaks bounds how often the memory of a host is doubled. If a host needs more again after a replay, that is no
// leak.
const maxLeaks = 3

// Start implements replay.Runner.
func (h *hosts) Start(life uint64, b replay.Beginning) {
	cfg := h.cfg
	cfg.MemoryBytes <<= h.leaks
	host, err := ryu.Start(cfg, wire.Hello{Seed: b.Seed, Time: b.Time, Number: b.Number, State: b.State},
		ear{h, life})
	if err != nil {
		h.g.background.Go(func() { // the loop must not wait for itself
			ear{h, life}.tell(func(c *replay.Core) {
				c.Ended(time.Now(), life, replay.End{Reason: "not started", Detail: err.Error()})
			})
		})
		return
	}
	h.lives[life] = host
}

// Execute implements replay.Runner.
func (h *hosts) Execute(life uint64, inputs []byte, count int) {
	host := h.lives[life]
	if host == nil {
		return // it has ended, and Ended is called
	}
	if err := host.Execute(inputs, count); err != nil {
		h.g.log.Debug("host of applications takes no inputs", "err", err) // likewise
	}
}

// Checkpoint implements replay.Runner.
func (h *hosts) Checkpoint(life uint64) {
	if host := h.lives[life]; host != nil {
		host.Checkpoint()
	}
}

// Stop implements replay.Runner. A goroutine waits for the process. The loop must not wait, because it receives what
// the host still sends.
func (h *hosts) Stop(life uint64) {
	host := h.lives[life]
	if host == nil {
		return
	}
	delete(h.lives, life)
	h.g.background.Go(host.Stop) // the controller's end waits for it
}

// HandOver implements replay.Runner.
func (h *hosts) HandOver() {
	h.g.background.Go(func() {
		if err := h.g.handOver(context.Background()); err != nil { // the rebuilt host continues here
			h.g.log.Debug("no controller with a better host of applications takes over the leadership", "err", err)
		}
	})
}

// ear passes the messages of a host to the loop.
type ear struct {
	h    *hosts
	life uint64
}

// Ready implements ryu.Handler.
func (e ear) Ready(_ *ryu.Host, r wire.Ready) {
	e.tell(func(c *replay.Core) { c.Ready(e.life, r) })
}

// Results implements ryu.Handler.
func (e ear) Results(_ *ryu.Host, list []wire.Result) {
	e.tell(func(c *replay.Core) { c.Results(e.life, list) })
}

// Checkpointed implements ryu.Handler.
func (e ear) Checkpointed(_ *ryu.Host, number uint64, state []byte, reason string) {
	e.tell(func(c *replay.Core) { c.Checkpointed(e.life, number, state, reason) })
}

// Stirred implements ryu.Handler.
func (e ear) Stirred(*ryu.Host) {
	e.tell(func(c *replay.Core) { c.Stirred(e.life) })
}

// Ended implements ryu.Handler.
func (e ear) Ended(_ *ryu.Host, end *ryu.EndError) {
	if end.Reason == ryu.Stopped {
		return
	}
	e.tell(func(c *replay.Core) {
		delete(e.h.lives, e.life)
		if end.Reason == ryu.Leaked {
			e.h.leaks = min(e.h.leaks+1, maxLeaks)
		}
		c.Ended(time.Now(), e.life, replay.End{Reason: string(end.Reason), Input: end.Input,
			Checkpoint: end.Checkpoint, Detail: end.Detail})
	})
}

func (e ear) tell(f func(*replay.Core)) { e.h.g.later(func() { f(e.h.g.core.Hosting()) }) }
