package shells

import (
	"context"
	"errors"
	"net"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// agentNode is the agent of one switch over its lives. One goroutine starts and ends it.
type agentNode struct {
	s           *simulation
	at          *place
	controllers []string
	sw          *switchNode
	life        *agentLife // nil while it is down
}

// agentLife is one life of an agent. What it knows of its switch it is asked by Status, before it can read or write
// anything more.
type agentLife struct {
	n      *agentNode
	p      *process
	a      *agent.Agent
	cancel context.CancelFunc

	// Guarded by mu of the simulation.
	uplinks []*uplink // those of the switch that it has accepted and not ended, oldest first
	epoch   uint64    // the newest that is known
}

// uplink is a connection of a switch with its agent, seen from both ends. It is guarded by mu of the simulation.
type uplink struct {
	epoch   uint64 // that it has begun; 0 is none
	in      history.Framer
	read    [][]byte // messages that the agent has read, and the history was not told
	spoke   bool     // the agent has read something
	failed  bool     // a read of the agent has failed
	ended   bool     // the agent has left it
	ragged  bool     // before its read failed: it may not have taken all that it has read
	told    bool     // of the end
	forgets bool     // the epoch was refused
}

func (n *agentNode) start() {
	if n.life != nil {
		return
	}
	p := n.s.net.begin(n.at)
	l := &agentLife{n: n, p: p}
	ln := n.s.net.listen(p, n.at.name+":6633", l.accepted)
	dial := func(ctx context.Context, to string) (net.Conn, error) { return n.s.net.dial(ctx, p, to, l.dialed) }
	a, err := agent.New(agent.Config{Listen: ln, Controllers: n.controllers, Logger: n.s.logger(p, nil), Dial: dial,
		BufferEvents: n.s.sc.AgentEvents, CommandBytes: n.s.sc.CommandBytes})
	if err != nil {
		n.s.fail("agent %s does not start: %v", n.at.name, err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.a, l.cancel, n.life = a, cancel, l
	done := make(chan error, 1)
	n.s.tasks.Go(func() { done <- a.Run(ctx) })
	n.s.tasks.Go(func() {
		<-ctx.Done()
		n.s.ends("agent "+n.at.name, func() {
			if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
				n.s.fail("agent %s ends: %v", n.at.name, err)
			}
		})
	})
}

// kill loses what the agent holds.
func (n *agentNode) kill(vanish bool) {
	l := n.life
	if l == nil {
		return
	}
	n.life = nil
	l.look()
	n.s.net.end(l.p, vanish)
	n.s.mu.Lock()
	if l.epoch != 0 {
		n.s.h.Lost(n.sw.id, l.epoch)
	}
	n.s.mu.Unlock()
	l.cancel()
}

// look finds out which epoch the switch has, and tells the history of all that the agent has read. Whoever calls holds
// no lock of the agent.
func (l *agentLife) look() {
	all := l.a.Status()
	l.n.s.see(l.p, func(h *history.History) {
		for _, st := range all {
			if st.Epoch > l.epoch {
				l.begins(h, st.Epoch)
			}
		}
		for _, u := range l.uplinks {
			l.tell(h, u)
		}
	})
}

// begins finds the connection of a new epoch: the newest on which the switch has spoken. The agent looks before each
// read, so there was no time for another.
func (l *agentLife) begins(h *history.History, epoch uint64) {
	l.epoch = epoch
	for i := len(l.uplinks) - 1; i >= 0; i-- {
		u := l.uplinks[i]
		if u.epoch != 0 || !u.spoke {
			continue
		}
		for _, before := range l.uplinks[:i] {
			l.tell(h, before)
		}
		u.epoch = epoch
		h.Opened(l.n.sw.id, epoch)
		return
	}
	l.n.s.failed("agent %s: epoch %d of a switch that has said nothing", l.n.at.name, epoch)
}

// tell has the history know what was read, and the end.
func (l *agentLife) tell(h *history.History, u *uplink) {
	if u.epoch == 0 || u.told {
		return
	}
	if !u.forgets {
		for _, msg := range u.read {
			h.Read(l.n.sw.id, u.epoch, msg)
		}
	}
	u.read = nil
	if u.ended {
		if u.told = true; !u.forgets {
			h.Ended(l.n.sw.id, u.epoch, u.ragged)
		}
	}
}

// accepted observes a connection of the switch.
func (l *agentLife) accepted(c *conn) {
	u := c.peer.uplink
	first := true
	c.beforeRead = func() {
		if first { // nothing was read on it, so it has changed nothing
			first = false
			l.n.s.see(l.p, func(*history.History) { l.uplinks = append(l.uplinks, u) })
			return
		}
		l.look()
	}
	c.afterRead = func(b []byte) {
		l.n.s.see(l.p, func(*history.History) {
			batch, err := u.in.Add(b)
			if err != nil {
				l.n.s.failed("agent %s reads %v", l.n.at.name, err)
			}
			u.spoke = true
			history.Each(batch, func(msg []byte) {
				if history.OfApplications(msg) {
					u.read = append(u.read, append([]byte(nil), msg...))
				}
			})
		})
	}
	c.readFailed = func(err error) {
		l.n.s.see(l.p, func(*history.History) { u.failed = true })
		l.n.s.patient(c, err)
	}
	c.closing = func() {
		l.n.s.see(l.p, func(*history.History) {
			if !u.ended {
				u.ended, u.ragged = true, !u.failed
			}
		})
	}
}

// dialed observes a connection to a controller.
func (l *agentLife) dialed(c *conn) {
	var in history.Framer
	c.beforeWrite = l.look
	c.readFailed = func(err error) { l.n.s.patient(c, err) }
	c.afterRead = func(b []byte) {
		l.look()
		l.n.s.see(l.p, func(h *history.History) {
			batch, err := in.Add(b)
			if err != nil {
				l.n.s.failed("agent %s reads %v from %v", l.n.at.name, err, c.remote)
			}
			history.Each(batch, func(msg []byte) { l.hears(h, msg) })
		})
	}
}

// hears is what a controller says that matters to the history.
func (l *agentLife) hears(h *history.History, msg []byte) {
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeEventAck:
		if ack, err := experimenter.ParseAck(msg, t); err == nil {
			h.Acked(l.n.sw.id, ack.Epoch, ack.Seq)
		}
	case experimenter.TypeRefuse:
		if no, err := experimenter.ParseRefuse(msg); err == nil && no.Reason == experimenter.ReasonStaleEpoch &&
			l.epoch != 0 && l.epoch <= no.Epoch {
			h.Refused(l.n.sw.id, l.epoch)
			for _, u := range l.uplinks {
				u.forgets = u.forgets || u.epoch == l.epoch
			}
		}
	}
}

// settled says what the agent still has to do; "" is nothing. epoch is the one of its switch.
func (n *agentNode) settled() (epoch uint64, text string) {
	if n.life == nil {
		return 0, "agent " + n.at.name + " is down"
	}
	all := n.life.a.Status() // of one switch
	switch {
	case len(all) == 0 || !all[0].Connected:
		return 0, "the switch of agent " + n.at.name + " is not connected"
	case all[0].Held > 0:
		return 0, "agent " + n.at.name + " holds events"
	}
	return all[0].Epoch, ""
}
