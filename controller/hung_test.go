package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// hanging is an application whose handler of the packet-ins of switch 1 does not return while hangs is set, until the
// test ends. It counts the others.
type hanging struct {
	hangs   atomic.Bool
	release chan struct{}
	handled [3]atomic.Int64 // by switch
}

// bad is the handler's application, and its handler.
func (h *hanging) bad() ledger.Application {
	a := app.New("bad")
	seen := app.NewMap[app.Switch, string, int](a, "seen")
	app.Handle(a,
		func(in app.PacketIn) app.Cells { return app.Need(seen.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			if in.Switch == 1 && h.hangs.Load() {
				<-h.release
			}
			h.handled[in.Switch].Add(1)
			return nil
		})
	return a
}

// Who waits for something that the loop does is told when the loop is given up meanwhile.
func TestLoopIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for _, c := range []struct {
		what string
		do   func()
		want error
	}{{"what ends", func() {}, nil}, {"what hangs", func() { <-release }, errClosing}} {
		g := &group{ask: make(chan func()), ended: make(chan struct{})}
		go func() { // ends with do, as a loop that was given up
			f := <-g.ask
			if c.want != nil {
				close(g.ended)
			}
			f()
			if c.want == nil {
				close(g.ended)
			}
		}()
		if err := g.inLoop(t.Context(), c.do); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func (s *testCluster) suspended() (list []SuspendedStatus) {
	s.t.Helper()
	for _, c := range s.controllers {
		st, err := c.Status(s.t.Context())
		if err != nil {
			continue
		}
		for _, g := range st.Groups {
			if g.Role == "leader" {
				for _, a := range st.Suspended {
					if a.Group == g.Group {
						list = append(list, a)
					}
				}
			}
		}
	}
	return list
}

// load puts load on the agent until end is called, which waits for its end, or until the test ends. It checks that each
// packet-in is answered once, but for the last one of a switch. One that is not answered stops its switch.
func (s *testCluster) load(switches uint64) (end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err := load.Run(ctx, load.Config{Switches: int(switches), Window: 1, MACsPerSwitch: 3, Duration: time.Hour,
			ReadyTimeout: await.Limit, LostAfter: time.Hour, Dial: load.At(s.agent.String())})
		// Each switch also receives the table-miss entry, and the flood of its announcement.
		if err != nil && ctx.Err() == nil || r.Total.Sent > r.Total.Answered+switches ||
			r.Total.Unexpected != 2*switches {
			s.t.Errorf("%d packet-ins, %d answered, %d messages that answer nothing, %d expected (%v)", r.Total.Sent,
				r.Total.Answered, r.Total.Unexpected, 2*switches, err)
		}
	}()
	return func() {
		cancel()
		await.End(s.t, "the load", ended)
	}
}

// A handler that does not return costs other actors a pause, and nothing else. Its actor is suspended until it is
// resumed, and again when it hangs again.
func TestHandlerHangs(t *testing.T) {
	for _, several := range []bool{false, true} {
		t.Run(fmt.Sprintf("several=%v", several), func(t *testing.T) {
			t.Parallel()
			h := &hanging{release: make(chan struct{})}
			s := startTestCluster(&testCluster{t: t, several: several, every: 50, handler: 400 * time.Millisecond,
				timeout: 3 * time.Second,
				apps:    func() []ledger.Application { return []ledger.Application{h.bad(), hub.New()} }})
			// before the controllers are stopped, and also if the test fails
			t.Cleanup(func() { close(h.release) })
			end := s.load(2)
			for round := range 2 {
				before := [3]int64{1: h.handled[1].Load(), 2: h.handled[2].Load()}
				await.Until(t, "both switches to be served", func() bool {
					return h.handled[1].Load() > before[1] && h.handled[2].Load() > before[2]
				})
				h.hangs.Store(true)
				began := time.Now()
				await.Until(t, "the actor to be suspended", func() bool {
					list := s.suspended()
					return len(list) == 1 && list[0].App == "bad" && list[0].Switch == "0000000000000001" &&
						strings.Contains(list[0].Reason, "PacketIn at hung_test.go") &&
						strings.Contains(list[0].Reason, "did not return within 400ms")
				})
				t.Logf("suspended after %v", time.Since(began))
				h.hangs.Store(false)
				before[1], before[2] = h.handled[1].Load(), h.handled[2].Load()
				await.Until(t, "the actor at the other switch to go on", func() bool {
					return h.handled[2].Load() > before[2]+10
				})
				if h.handled[1].Load() != before[1] {
					t.Error("a suspended actor handles messages")
				}
				hung := int64(0)
				for _, c := range s.controllers {
					hung += c.hanging.Load()
				}
				if hung != int64(round)+1 {
					t.Errorf("%d goroutines hang", hung)
				}
				var failed uint64
				await.Until(t, "inputs to fail", func() bool {
					list := s.suspended()
					return len(list) == 1 && list[0].Failed > failed
				})
				resume := Resume{App: "bad", Switch: "0000000000000001"}
				if r, err := s.controllers[uint64(round)+1].resume(t.Context(), resume); err != nil ||
					!strings.Contains(r.Reason, "did not return") {
					t.Errorf("resume: %+v, %v", r, err)
				}
				await.Until(t, "the actor to be resumed", func() bool { return len(s.suspended()) == 0 })
			}
			end()
			s.down()
			s.quiet()
		})
	}
}

// With more handlers that hang than a controller gives up, it ends, and says why.
func TestTooManyHang(t *testing.T) {
	c := &Controller{}
	c.hanging.Store(maxHanging + 1)
	why := &hungError{ledger.Running{Actor: ledger.Actor{App: "bad"}}, time.Second}
	if err := c.renew(nil, why); !errors.Is(err, why) || !strings.Contains(err.Error(), "5 handlers hang now") {
		t.Errorf("got %v", err)
	}
}

// requested is an application that handles requests, and does not say for which actor.
type requested struct{ hanging }

func (*requested) Name() string { return "requested" }

func (r *requested) Handle(_ *ledger.Tx, in *ledger.Input) error {
	if in.Kind == ledger.Request {
		if r.hangs.Load() {
			<-r.release
		}
		r.handled[0].Add(1)
	}
	return nil
}

// A controller without a successor leads again, in a later term. If it is not known which actor hangs, what comes from
// the same place fails for the application.
func TestHandlerHangsAlone(t *testing.T) {
	t.Parallel()
	r := &requested{hanging{release: make(chan struct{})}}
	defer close(r.release)
	s := &testCluster{t: t, controllers: map[uint64]*Controller{}}
	group := GroupConfig{Consensus: consensus.GroupConfig{Members: map[uint64]string{1: "c1"}},
		Applications: []ledger.Application{r}}
	c, err := Start(Config{Name: "c1", Names: map[uint64]string{1: "c1"}, Logger: quiet,
		OpenFlow: s.listen("127.0.0.1:0"), HandlerTimeout: 200 * time.Millisecond, Groups: []GroupConfig{group},
		Open: func(uint64, uint64) (GroupConfig, error) { return group, nil },
		Consensus: consensus.HostConfig{ID: 1, Heartbeat: 20 * time.Millisecond, Election: 200 * time.Millisecond,
			Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	s.controllers[1] = c
	ask := func() { c.system().later(func() { c.system().core.Ask("requested", []byte("x")) }) }
	_, before := s.leader()
	ask()
	await.Until(t, "a request to be handled", func() bool { return r.handled[0].Load() == 1 })
	r.hangs.Store(true)
	ask()
	await.Until(t, "the application to be suspended", func() bool {
		list := s.suspended()
		return len(list) == 1 && list[0].AllInputs && list[0].Actor == "application requested"
	})
	ask()
	await.Until(t, "a request to fail", func() bool { list := s.suspended(); return len(list) == 1 && list[0].Failed == 1 })
	if _, after := s.leader(); after.Term <= before.Term || after.Hanging != 1 || r.handled[0].Load() != 1 {
		t.Errorf("term %d after %d, %d handlers hang, %d requests were handled", after.Term, before.Term, after.Hanging,
			r.handled[0].Load())
	}
	r.hangs.Store(false)
	if _, err := c.resume(t.Context(), Resume{App: "requested"}); err != nil {
		t.Error(err)
	}
	ask()
	await.Until(t, "a request to be handled again", func() bool { return r.handled[0].Load() == 2 })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The loop is given up while the handler of switch 2 hangs. The delivery of switch 1, which was executed in the same
// turn, is done once, and so is that of switch 2.
func TestGivenUpWithinTurn(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one, two := s.up(1, 5), s.up(2, 5)
	hangs, returns := make(chan struct{}), make(chan struct{})
	s.app.each = func(_ *ledger.Tx, in *ledger.Input) {
		if in.Switch == 2 {
			s.core.full = append(s.core.full, delivery{done: func(err error) { s.note("3: not taken, %v", err) }})
			close(hangs)
			<-returns
			runtime.Goexit() // as the watchdog ends a goroutine that was given up
		}
	}
	one.events(5, 2, packetIn)
	two.events(5, 2, packetIn)
	before := len(s.trace)
	var turn sync.WaitGroup
	turn.Go(s.turn)
	<-hangs
	s.core.abandon(errRenewed)
	close(returns)
	turn.Wait()
	ends := slices.DeleteFunc(s.trace[before:], func(e string) bool { return strings.Contains(e, ": closed") })
	if !slices.Equal(ends, []string{"1: taken", "2: not taken, " + errRenewed.Error(),
		"3: not taken, " + errRenewed.Error()}) { // the ledger had no room for 3
		t.Errorf("deliveries end with %q", ends)
	}
}
