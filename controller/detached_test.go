package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// reading is what the goroutine of the tests emits.
type reading struct{ Number uint64 }

// source is what such goroutines read, at all controllers.
type source struct {
	mu      sync.Mutex
	last    uint64
	told    []uint64 // that were emitted without an error
	running int
	panics  int // how often one is to panic
}

func (s *source) read() (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	if s.panics > 0 {
		s.panics--
		panic("source")
	}
	return s.last
}

func (s *source) emitted() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (s *source) run(ctx context.Context, d *app.Detached) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running += n
	}
	add(1)
	defer add(-1)
	for ctx.Err() == nil {
		n := s.read()
		if d.Emit(ctx, reading{n}) == nil {
			s.mu.Lock()
			s.told = append(s.told, n)
			s.mu.Unlock()
		}
	}
}

// reader makes an application that counts what it is told.
func reader(s *source) func() []ledger.Application {
	return func() []ledger.Application {
		a := app.New("reader")
		times := app.NewMap[string, uint64, uint64](a, "times")
		app.Detach(a, s.run)
		app.HandleEmitted(a, func(reading) app.Cells { return app.Need(times.Cell("")) },
			func(tx *app.Tx, r reading) error {
				n, _ := times.Get(tx, "", r.Number)
				times.Put(tx, "", r.Number, n+1)
				return nil
			})
		return []ledger.Application{a}
	}
}

// counted returns how often each reading was handled.
func (s *testCluster) counted() map[uint64]uint64 {
	s.t.Helper()
	got := map[uint64]uint64{}
	for _, c := range s.controllers {
		for _, g := range c.groups.all() {
			if !g.led.here.Load() {
				continue
			}
			err := g.inLoop(s.t.Context(), func() {
				rows, _ := g.core.ledger.Rows("reader", 1<<20)
				for _, r := range rows {
					got[r.Field.A] = uint64(r.Value[0])
				}
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return got
}

// The goroutine of an application runs at one controller, which changes with the leader, and what it emits is handled
// once. If it panics it is started again.
func TestDetached(t *testing.T) {
	for _, several := range []bool{false, true} {
		in := &source{panics: 1}
		s := startTestCluster(&testCluster{t: t, apps: reader(in), several: several})
		more := func(what string) {
			t.Helper()
			before := len(in.emitted())
			await.Until(t, what, func() bool { return len(in.emitted()) > before+20 })
		}
		more("the first leader to emit")
		for id, c := range s.controllers {
			if slices.ContainsFunc(c.groups.all(), func(g *group) bool {
				return c.leadsActor(g, ledger.Actor{App: "reader"})
			}) {
				s.stop(id)
				break
			}
		}
		more("the next leader to emit")
		got := s.counted()
		for _, n := range in.emitted() {
			if got[n] == 0 {
				await.Until(t, "the next leader to show what it has", func() bool { return s.counted()[n] == 1 })
			}
		}
		for n, times := range maps.All(got) {
			if times != 1 {
				t.Errorf("reading %d was handled %d times", n, times)
			}
		}
		for id := range s.controllers {
			s.stop(id)
		}
		if in.running != 0 {
			t.Errorf("%d goroutines run without a controller", in.running)
		}
	}
}
