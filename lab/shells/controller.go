package shells

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// controllerNode is a controller over its lives. One goroutine starts and ends it.
type controllerNode struct {
	s       *simulation
	at      *place
	id      uint64
	members map[uint64]string
	disk    *disk
	founded bool
	life    *controllerLife // nil while it is down
}

// controllerLife is one life of a controller.
type controllerLife struct {
	n     *controllerNode
	p     *process
	mount *mount
	c     *controller.Controller
	// by group: taken over, and nothing after it was handed to the owner; guarded by mu of the simulation
	pending map[uint64]snapshot
}

type snapshot struct {
	index uint64
	state []byte
}

func (n *controllerNode) start() {
	if n.life != nil {
		return
	}
	p := n.s.net.begin(n.at)
	l := &controllerLife{n: n, p: p, pending: map[uint64]snapshot{}}
	l.mount = &mount{d: n.disk, loaded: l.loaded, took: l.took, wrote: l.wrote}
	logger := n.s.logger(p, l.leads)
	dial := func(ctx context.Context, _ uint64, address string) (net.Conn, error) {
		return n.s.net.dial(ctx, p, address, nil)
	}
	c, err := controller.Start(controller.Config{
		Name: n.at.name,
		Consensus: consensus.HostConfig{ID: n.id, Cluster: "shells", Founded: n.founded,
			Listener: n.s.net.listen(p, n.members[n.id], nil), Dial: dial, Storage: l.mount, Logger: logger},
		Groups:     n.s.configs(n.members),
		Limits:     n.s.limits(),
		Southbound: southbound.Config{Logger: logger},
		OpenFlow: n.s.net.listen(p, n.at.name+":6653", func(c *conn) {
			c.readFailed = func(err error) { n.s.patient(c, err) }
		}),
		SwitchTimeout: n.s.sc.SwitchTimeout, SnapshotEvery: n.s.sc.SnapshotEvery, Audit: l, Logger: logger,
	})
	if err != nil {
		n.s.fail("controller %d does not start: %v", n.id, err)
		return
	}
	l.c, n.life, n.founded = c, l, true
	n.s.tasks.Go(l.watch)
}

// watch sees how a controller ends.
func (l *controllerLife) watch() {
	<-l.c.Done()
	l.n.s.see(l.p, func(*history.History) {
		if l.c.Err() != nil && !l.n.disk.wasFull() {
			l.n.s.failed("controller %d ends: %v", l.n.id, l.c.Err())
		}
	})
}

// kill ends the controller at once: nothing that it does from now on reaches anybody.
func (n *controllerNode) kill(vanish bool) {
	l := n.life
	if l == nil {
		return
	}
	n.life = nil
	n.s.net.end(l.p, vanish)
	l.mount.kill()
	n.s.ends("controller "+n.at.name, func() { _ = l.c.Close() }) // of what it does now nothing is left
}

// stop ends the controller as its operator does, and waits for it.
func (n *controllerNode) stop() {
	l := n.life
	if l == nil {
		return
	}
	n.life = nil
	late := time.AfterFunc(endsWithin, func() { n.s.fail("controller %d has not ended in %v", n.id, endsWithin) })
	defer late.Stop()
	_ = l.c.Close() // watch looks at its error
	n.s.net.end(l.p, false)
	l.mount.kill()
}

// running reports whether the controller goes on; it does not after an error of its disk.
func (n *controllerNode) running() bool {
	if n.life == nil {
		return false
	}
	select {
	case <-n.life.c.Done():
		return false
	default:
		return true
	}
}

// leads tells of the controller that it leads: it logs so before it proposes anything.
func (l *controllerLife) leads(group uint64, r slog.Record) {
	if r.Message != "leader" {
		return
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "term" {
			l.n.s.see(l.p, func(*history.History) { l.n.s.groups[group].Leading(l.n.id, a.Value.Uint64()) })
		}
		return a.Key != "term"
	})
}

// Append implements controller.Auditor.
func (l *controllerLife) Append(group, index uint64, entry []byte) error {
	header, err := ledger.Walk(entry[:history.HeaderLen(entry)], nil)
	if err != nil {
		return err
	}
	l.n.s.see(l.p, func(*history.History) {
		if p := l.pending[group]; p.state != nil && p.index < index {
			delete(l.pending, group)
			l.n.s.groups[group].Restored(l.n.id, p.index, p.state)
		}
		l.n.s.commits(l.n.id, group, index, header.Term, entry)
	})
	return nil
}

// Close implements controller.Auditor.
func (l *controllerLife) Close() error { return nil }

func (l *controllerLife) loaded(group, index uint64, state []byte) {
	l.n.s.see(l.p, func(*history.History) { l.n.s.groups[group].Restored(l.n.id, index, state) })
}

func (l *controllerLife) took(group, index uint64, state []byte) {
	l.n.s.see(l.p, func(*history.History) { l.pending[group] = snapshot{index, state} })
}

func (l *controllerLife) wrote(group, index uint64, state []byte) {
	l.n.s.see(l.p, func(*history.History) { l.n.s.groups[group].Kept(l.n.id, index, state) })
}

// endsWithin is how long the goroutines of a process may take to end.
const endsWithin = 30 * time.Second

// ends runs end, which ends a process, and complains if that does not come about.
func (s *simulation) ends(what string, end func()) {
	s.tasks.Go(func() {
		late := time.AfterFunc(endsWithin, func() { s.fail("%s has not ended in %v", what, endsWithin) })
		defer late.Stop()
		end()
	})
}
