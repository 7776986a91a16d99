package controller

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/hub"
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

// A handler that does not return costs other actors a pause, and nothing else. Its actor is suspended until it is
// resumed, and again when it hangs again.
func TestHandlerHangs(t *testing.T) {
	for _, several := range []bool{false, true} {
		t.Run(fmt.Sprintf("several=%v", several), func(t *testing.T) {
			t.Parallel()
			h := &hanging{release: make(chan struct{})}
			s := startTestCluster(&testCluster{t: t, several: several, every: 50, handler: 300 * time.Millisecond,
				timeout: 3 * time.Second,
				apps:    func() []ledger.Application { return []ledger.Application{h.bad(), hub.New()} }})
			// before the controllers are stopped, and also if the test fails
			t.Cleanup(func() { close(h.release) })
			ended := make(chan load.Result, 1)
			go func() {
				r, err := load.Run(t.Context(), load.Config{Switches: 2, Window: 1, MACsPerSwitch: 3,
					Duration: 6 * time.Second, Drain: 20 * time.Second, Dial: load.TCP(s.agent.String())})
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
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
						strings.Contains(list[0].Reason, "did not return within 300ms")
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
			r := await.End(t, "the load", ended)
			if r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent ||
				r.Total.Unexpected != 4 {
				t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, 4 expected", r.Total.Sent,
					r.Total.Answered, r.Unanswered, r.Total.Unexpected)
			}
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
