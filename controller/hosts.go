package controller

import (
	"bytes"
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// hosts runs the processes of replayed applications; see replay.Runner. Only the loop calls it.
type hosts struct {
	g     *group
	cfg   ryu.Config
	lives map[uint64]*life
}

// life is a host, from when it is to be started.
type life struct {
	mu      sync.Mutex // guards the fields below
	host    *ryu.Host  // nil: it is not started yet
	stopped bool
}

// begin says that the host has started, and reports whether it is still wanted.
func (l *life) begin(host *ryu.Host) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = host
	return !l.stopped
}

// stop says that the host is not wanted. It returns the host, if that has started.
func (l *life) stop() *ryu.Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	return l.host
}

// running returns the host of a life that is ready, or nil if it has ended.
func (h *hosts) running(id uint64) *ryu.Host {
	l := h.lives[id]
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

func newHosts(g *group, cfg ryu.Config) *hosts {
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, ryu.DefaultMemoryBytes) // the base that is doubled
	return &hosts{g: g, cfg: cfg, lives: map[uint64]*life{}}
}

// Start implements replay.Runner. The loop does not wait for the process, which takes files and the name of a user.
func (h *hosts) Start(id uint64, b replay.Beginning) {
	cfg, l := h.cfg, new(life)
	cfg.MemoryBytes <<= b.Leaks
	h.lives[id] = l
	hello := wire.Hello{Seed: b.Seed, Time: b.Time, Number: b.Number, State: bytes.Clone(b.State)}
	h.g.background.Go(func() {
		to := ear{h, id, l}
		switch host, err := ryu.Start(cfg, hello, to); {
		case err != nil:
			to.tell(func(c *replay.Core) {
				delete(h.lives, id)
				c.Ended(time.Now(), id, replay.End{Reason: "not started", Detail: err.Error()})
			})
		case !l.begin(host):
			host.Stop()
		}
	})
}

// Execute implements replay.Runner.
func (h *hosts) Execute(id uint64, inputs []byte, count int) {
	host := h.running(id)
	if host == nil {
		return // it has ended, and Ended is called
	}
	if err := host.Execute(inputs, count); err != nil {
		h.g.log.Debug("host of applications takes no inputs", "err", err) // likewise
	}
}

// Checkpoint implements replay.Runner.
func (h *hosts) Checkpoint(id uint64) {
	if host := h.running(id); host != nil {
		host.Checkpoint()
	}
}

// Stop implements replay.Runner. A goroutine waits for the process. The loop must not wait, because it receives what
// the host still sends.
func (h *hosts) Stop(id uint64) {
	l := h.lives[id]
	if l == nil {
		return
	}
	delete(h.lives, id)
	if host := l.stop(); host != nil { // else it is stopped when it has started
		h.g.background.Go(host.Stop) // the controller's end waits for it
	}
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
	id   uint64
	life *life
}

// Ready implements ryu.Handler.
func (e ear) Ready(host *ryu.Host, r wire.Ready) {
	if e.life.begin(host) { // Start may not have returned
		e.tell(func(c *replay.Core) { c.Ready(e.id, r) })
	}
}

// Results implements ryu.Handler.
func (e ear) Results(_ *ryu.Host, list []wire.Result) {
	e.tell(func(c *replay.Core) { c.Results(e.id, list) })
}

// Checkpointed implements ryu.Handler.
func (e ear) Checkpointed(_ *ryu.Host, number uint64, state []byte, reason string) {
	e.tell(func(c *replay.Core) { c.Checkpointed(e.id, number, state, reason) })
}

// Stirred implements ryu.Handler.
func (e ear) Stirred(*ryu.Host) {
	e.tell(func(c *replay.Core) { c.Stirred(e.id) })
}

// Ended implements ryu.Handler.
func (e ear) Ended(_ *ryu.Host, end *ryu.EndError) {
	if end.Reason == ryu.Stopped {
		return
	}
	e.tell(func(c *replay.Core) {
		delete(e.h.lives, e.id)
		c.Ended(time.Now(), e.id, replay.End{Reason: string(end.Reason), Input: end.Input,
			Checkpoint: end.Checkpoint, Detail: end.Detail})
	})
}

func (e ear) tell(f func(*replay.Core)) { e.h.g.later(func() { f(e.h.g.core.Hosting()) }) }
