package controller

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// heldAudit is an audit that blocks the loop of its controller while it is held.
type heldAudit struct {
	Auditor
	id      uint64
	held    *atomic.Uint64 // the controller whose loop is blocked; 0: none
	release chan struct{}
}

func (h heldAudit) Append(group, index uint64, entry []byte) error {
	if h.held.Load() == h.id {
		<-h.release
	}
	return h.Auditor.Append(group, index, entry)
}

// A leader whose loop hangs anywhere, and not in a handler, is replaced although it sends heartbeats. What it had not
// finished is done once by the next one, and it follows when its loop goes on.
func TestLoopHangs(t *testing.T) {
	t.Parallel()
	var held atomic.Uint64
	release := make(chan struct{})
	let := func() {
		if held.Swap(0) != 0 {
			close(release)
		}
	}
	s := startTestCluster(&testCluster{t: t, every: 50, handler: 250 * time.Millisecond, timeout: 3 * time.Second,
		apps: func() []ledger.Application { return []ledger.Application{hub.New()} },
		hold: func(id uint64, to Auditor) Auditor { return heldAudit{to, id, &held, release} }})
	t.Cleanup(let) // before the controllers are stopped, and also if the test fails
	end := s.load(2)
	var old uint64
	await.Until(t, "a leader that executes", func() bool {
		id, st := s.leader()
		old = id
		return st.LastIndex > 50
	})
	began := time.Now()
	held.Store(old)
	await.Until(t, "another controller to lead", func() bool {
		for id, c := range s.controllers {
			if id != old && c.system().node.Status().Leading {
				return true
			}
		}
		return false
	})
	t.Logf("another controller leads after %v", time.Since(began))
	var next *Controller
	for id, c := range s.controllers {
		if id != old && c.system().node.Status().Leading {
			next = c
		}
	}
	before := next.system().node.Status().Committed
	await.Until(t, "the next leader to execute", func() bool {
		return next.system().node.Status().Committed > before+20
	})
	let()
	last := next.system().node.Status().Committed
	await.Until(t, "the loop to go on, as a follower", func() bool {
		st := s.controllers[old].system().node.Status()
		return !st.Leading && st.Delivered >= last
	})
	end()
	s.down()
	s.quiet()
}
