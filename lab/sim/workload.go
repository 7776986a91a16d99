package sim

import (
	"time"

	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// applications makes those that the ledger of a replica runs: one that forwards, what is tried of the suite, and
// census. The system group of several has the directory.
func (s *simulation) applications(g *group) []ledger.Application {
	if g.system() {
		return []ledger.Application{new(directory.Application)}
	}
	forwards := hub.New()
	if s.scenario.Learning {
		forwards = learning.New()
	}
	if limit := s.scenario.RateLimit; limit > 0 {
		forwards.RateLimit(limit, 4)
	}
	var list []ledger.Application
	if !s.scenario.wired() {
		list = append(list, forwards)
	}
	for _, t := range s.trials {
		for _, a := range t.applications() {
			list = append(list, a)
		}
	}
	list = append(list, census.New(census.Config{Errs: s.scenario.StockEvery > 0,
		Sharded: g.homes > 0, Keyed: s.scenario.MoveEvery > 0, Minorities: s.scenario.Minorities,
		Requests: s.scenario.CallEvery > 0, Wrong: s.wrong}))
	if s.scenario.StoreEvery > 0 {
		// Not as a ledger.Terse one: with the requests in the log, the checkers execute them again.
		list = append(list, struct{ ledger.Spreader }{store.New()})
	}
	return list
}

// wrong fails the run: wherever two actors live, messages between them keep their order, and calls end once.
func (s *simulation) wrong(text string) { s.w.fail("census: %s", text) }

// host sends frames into the network, from now on until the traffic ends.
type host struct {
	s    *simulation
	sw   *switchNode
	sent uint64
}

func (h *host) start() { h.s.w.after(h.s.w.upTo(2*h.s.frameInterval()), nil, h.send) }

// send sends a frame to another host, or to one that nobody knows.
func (h *host) send() {
	if !h.s.traffic {
		return
	}
	h.sent++
	to := h.s.w.rand.IntN(len(h.s.hosts) + 1)
	frame := census.Frame(int(h.sw.id), to+1, h.sent)
	if h.sw.p.up {
		h.sw.p.after(0, func() { h.sw.frame(census.HostPort, frame) })
	}
	h.s.w.after(h.s.w.upTo(2*h.s.frameInterval()), nil, h.send)
}

func (s *simulation) frameInterval() time.Duration {
	return time.Second / time.Duration(s.scenario.FramesPerSecond)
}
