package sim

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	hosting "github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Times of hosts. They are slower than a controller, and faster than a Python.
const (
	hostLoading  = 100 * time.Millisecond
	hostDelay    = 10 * time.Millisecond
	hostHang     = time.Second
	requestEvery = 400 * time.Millisecond
	// poisonous is one of how many packet-ins no host survives.
	poisonous = 2000
)

// deadly reports whether no host survives an input.
func deadly(in *wire.Input) bool {
	if in.Kind != wire.Message || in.Message[1] != of13.TypePacketIn {
		return false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(in.Message)
	return sum.Sum64()%poisonous == 0
}

// identity is that of the program, which every group knows that can have switches; empty if there is none.
func (s *simulation) identity(g *group) string {
	if s.scenario.Hosted && !g.system() {
		return "simulated"
	}
	return ""
}

// runner returns what runs the hosts of a replica. The program lives in one group.
func (s *simulation) runner(r *replica) hosting.Runner {
	if s.scenario.Hosted && (r.g.homes == 0 || r.g.home() == controller.HomeOf(hosting.Name, r.g.homes)) {
		return hostRunner{r}
	}
	return nil
}

type hostRunner struct{ r *replica }

// hostLife is a process that hosts the program.
type hostLife struct {
	r       *replica
	life    uint64
	program history.Program
	ready   bool
	busy    bool
	frames  []hostFrame
}

type hostFrame struct {
	inputs []byte
	count  int // 0 is a checkpoint
}

// Start implements hosting.Runner.
func (x hostRunner) Start(life uint64, b hosting.Beginning) {
	h := &hostLife{r: x.r, life: life, program: history.NewProgram(b.Seed, b.Time)}
	x.r.lives[life] = h
	h.after(hostLoading, func() {
		if h.fails() {
			h.end("not started", 0)
			return
		}
		h.ready = true
		x.r.core.Hosting().Ready(life, wire.Ready{})
		h.next()
	})
}

// Execute implements hosting.Runner.
func (x hostRunner) Execute(life uint64, inputs []byte, count int) {
	if h := x.r.lives[life]; h != nil {
		h.frames = append(h.frames, hostFrame{inputs, count})
		h.next()
	}
}

// Checkpoint implements hosting.Runner.
func (x hostRunner) Checkpoint(life uint64) { x.Execute(life, nil, 0) }

// Stop implements hosting.Runner.
func (x hostRunner) Stop(life uint64) { delete(x.r.lives, life) }

// Files implements hosting.Runner. The simulated applications have none.
func (x hostRunner) Files() {}

// HandOver implements hosting.Runner.
func (x hostRunner) HandOver() { x.r.n.p.after(0, x.r.handOver) }

// after schedules what a host does, unless it has ended by then.
func (h *hostLife) after(d time.Duration, f func()) {
	h.r.n.p.after(h.r.n.s.w.upTo(d), func() {
		if h.r.lives[h.life] == h {
			f()
			h.r.turn()
		}
	})
}

// fails draws whether a host dies now.
func (h *hostLife) fails() bool {
	s := h.r.n.s
	return s.traffic && s.w.rand.IntN(1000) < s.scenario.HostDeaths
}

func (h *hostLife) next() {
	if h.ready && !h.busy && len(h.frames) > 0 {
		h.busy = true
		h.after(hostDelay, h.execute)
	}
}

// execute does a frame, or hangs, or dies.
func (h *hostLife) execute() {
	h.busy = false
	f := h.frames[0]
	h.frames = h.frames[1:]
	first := h.program.Number + 1
	switch {
	case f.count == 0:
		h.r.core.Hosting().Checkpointed(h.life, h.program.Number, nil, "it is not simulated")
		h.next()
		return
	case h.fails() && h.r.n.s.w.rand.IntN(2) == 0:
		h.busy = true
		h.r.n.p.after(hostHang, func() { h.end("hung", first) })
		return
	case h.fails():
		h.end("crashed", first)
		return
	}
	var results []wire.Result
	for rest := f.inputs; len(rest) > 0; {
		in, after, err := wire.ParseInput(rest)
		if err != nil || in.Number != h.program.Number+1 {
			h.r.n.s.w.fail("controller %d: its host is given input %d after %d: %v", h.r.n.id, in.Number,
				h.program.Number,
				err)
			return
		}
		if deadly(&in) {
			h.r.n.s.poisons[in.Number] = true
			h.end("crashed", first) // the results before it are lost
			return
		}
		results = append(results, h.program.Do(in, rest[:len(rest)-len(after)]))
		rest = after
	}
	h.r.core.Hosting().Results(h.life, results)
	h.next()
}

// end is that of a host by itself.
func (h *hostLife) end(reason string, input uint64) {
	if h.r.lives[h.life] != h {
		return
	}
	delete(h.r.lives, h.life)
	h.r.n.s.w.note(h.r.n.p, "its host ends: %s at input %d", reason, input)
	h.r.core.Hosting().Ended(h.r.n.p.clock(), h.life, hosting.End{Reason: reason, Input: input})
	h.r.turn()
}

// request asks the applications for something, over their REST interface. Only a leader answers.
func (r *replica) request() {
	if !r.n.s.traffic || r.core.Hosting() == nil {
		return
	}
	done := false
	r.core.Hosting().Request((&wire.HTTPRequest{Method: "GET", Path: "/"}).Append(nil), func(wire.Answer, error) {
		if done {
			r.n.s.w.fail("controller %d: a request is answered twice", r.n.id)
		}
		done = true
	})
	r.turn()
}

// unsettledHost says what its host still has to do; "" is nothing.
func (r *replica) unsettledHost() string {
	h := r.core.Hosting()
	if h == nil {
		return ""
	}
	if s := h.Status(); s.State != "running" || s.Executed != s.Inputs || s.Logged != s.Inputs || s.Diverged != 0 {
		return fmt.Sprintf("the host of controller %d is in state %q, has executed %d inputs of %d, %d are logged, "+
			"it differed at %d",
			r.n.id, s.State, s.Executed, s.Inputs, s.Logged, s.Diverged)
	}
	return ""
}

// program is what its host executes; nil if there is none.
func (r *replica) program() *history.Program {
	for _, h := range r.lives {
		return &h.program // no checkpoint is made: there is one
	}
	return nil
}
