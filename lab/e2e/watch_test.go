package e2e

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// watcher observes what passes between an agent and the controllers.
type watcher struct {
	mu   sync.Mutex // guards seen
	seen seen
}

type seen struct {
	acked    uint64 // events acknowledged: the sum of the highest of each switch
	commands uint64 // commands sent by controllers, repetitions included
	refused  int    // blocks of commands that the agent refused, since another is master
	acks     map[openflow.DatapathID]uint64
}

func (w *watcher) ToSwitch(sw openflow.DatapathID, msg []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeEventAck:
		if a, err := experimenter.ParseAck(msg, t); err == nil && a.Seq > w.seen.acks[sw] {
			w.seen.acked += a.Seq - w.seen.acks[sw]
			w.seen.acks[sw] = a.Seq
		}
	case experimenter.TypeCommands:
		if b, err := experimenter.ParseBlock(msg, t); err == nil {
			w.seen.commands += uint64(b.Count)
		}
	}
}

func (w *watcher) FromSwitch(_ openflow.DatapathID, msg []byte) {
	if !saysSlave(msg) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.refused++
}

// saysSlave reports whether a message refuses commands because another controller is master.
func saysSlave(msg []byte) bool {
	var e of13.Error
	return msg[1] == openflow.TypeError && e.Decode(msg) == nil && e.ErrType == of13.ErrTypeBadRequest &&
		e.Code == of13.BadRequestIsSlave
}

func (w *watcher) count() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// connectWatched connects n switches through one agent, in the test's process, and observes the messages between it and
// the controllers.
func (s *testCluster) connectWatched(n int) *watcher {
	s.t.Helper()
	w := &watcher{seen: seen{acks: map[openflow.DatapathID]uint64{}}}
	var addresses []string
	for _, c := range s.Controllers() {
		tp := tap.Start(s.listen(), tap.Config{Dial: tap.At(c.OpenFlow), Observe: tap.Same(w)})
		s.t.Cleanup(func() {
			if err := tp.Close(); err != nil {
				s.t.Error(err)
			}
		})
		addresses = append(addresses, tp.Addr())
	}
	log, err := os.Create(filepath.Join(s.dir, "agent.log"))
	s.check(err)
	l := s.listen()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		// Its connection to a leader that hangs outlives the election, so that the leader is refused when it goes on.
		done <- agent.Run(ctx, agent.Config{Listen: l, Controllers: addresses, Heartbeat: 1500 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(log, nil))})
	}()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
		log.Close()
	})
	for i := range n {
		s.switches = append(s.switches, dialSwitch(s.t, openflow.DatapathID(i+1), "127.0.0.1", l.Addr().String(),
			s.tally))
		s.waitUp(i + 1)
	}
	return w
}

func (s *testCluster) listen() net.Listener {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.check(err)
	return l
}
