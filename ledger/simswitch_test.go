package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// frame is a message of the simulation. Its kind determines which fields are used.
type frame struct {
	kind       frameKind
	term       uint64
	epoch, seq uint64
	count      int
	data       []byte
}

type frameKind int

const (
	frameMaster     frameKind = iota // to the agent: term
	frameAck                         // to the agent: epoch, seq
	frameCommands                    // to the agent: term, epoch, seq of the first, count, data
	frameBestEffort                  // to the agent: term, epoch, data
	frameRefuse                      // to the agent: term, epoch
	frameEvent                       // to the controller: epoch, seq, data
	frameDone                        // to the controller: epoch, seq
	frameRole                        // to the controller: term, the answer to frameMaster
)

// link is the connection of a switch and a controller: two queues in order. Frames before the answer to frameMaster
// belong to an earlier claim, and are not given to the ledger.
type link struct {
	toAgent, toController []frame
	term                  uint64 // of the latest frameRole
	claimed               uint64 // of the latest frameMaster
}

// simEvent is an event in the buffer of an agent.
type simEvent struct {
	epoch, seq uint64
	msg        []byte
}

// simSwitch is a switch with its agent, as in docs/design/control-path.md: event buffer, command filter, fencing by
// term. It checks what it receives against the oracle.
type simSwitch struct {
	c  *cluster
	id openflow.DatapathID

	epoch     uint64
	live      bool
	events    uint64 // number of events of this epoch
	held      []simEvent
	forwarded uint64
	done      uint64
	term      uint64 // highest generation that it has seen
	master    int    // a node, or -1
	links     []link

	generated map[epochKey][][]byte // every event that was ever made
	executed  map[epochKey][][]byte
	answers   map[uint64]string // bodies of the commands that answers are to, by the number in the answer
	forgotten map[epochKey]bool // epochs with events that were lost with the agent, or refused
}

func newSimSwitch(c *cluster, id openflow.DatapathID) *simSwitch {
	return &simSwitch{c: c, id: id, master: -1, links: make([]link, len(c.nodes)),
		generated: map[epochKey][][]byte{}, executed: map[epochKey][][]byte{}, answers: map[uint64]string{},
		forgotten: map[epochKey]bool{}}
}

func (s *simSwitch) key() epochKey { return epochKey{s.id, s.epoch} }

func (s *simSwitch) begin(epoch uint64) {
	s.epoch, s.live, s.events, s.forwarded, s.done = epoch, true, 0, 0, 0
	s.event(experimenter.SwitchUp{Features: []byte("features"), Ports: nil}.Append(nil, openflow.Version13))
}

func (s *simSwitch) event(msg []byte) {
	s.events++
	s.generated[s.key()] = append(s.generated[s.key()], msg)
	e := simEvent{s.epoch, s.events, msg}
	s.held = append(s.held, e)
	if s.master >= 0 {
		s.say(e)
	}
}

func (s *simSwitch) say(e simEvent) {
	l := &s.links[s.master]
	l.toController = append(l.toController, frame{kind: frameEvent, epoch: e.epoch, seq: e.seq, data: e.msg})
}

// rehome gives the switch, which has moved, connections to the nodes of its new group instead of the old ones.
func (s *simSwitch) rehome(to *cluster) {
	s.c.switches = slices.DeleteFunc(s.c.switches, func(o *simSwitch) bool { return o == s })
	s.c, s.master, s.links = to, -1, make([]link, len(to.nodes))
	to.switches = append(to.switches, s)
}

// packet makes an ordinary event, sometimes an answer to a command.
func (s *simSwitch) packet() {
	if !s.live {
		return
	}
	typ, xid := of13.TypePacketIn, uint32(0)
	if s.c.rng.IntN(4) == 0 {
		typ, xid = of13.TypeBarrierReply, uint32(s.c.rng.IntN(nativeApps+2))<<24|uint32(
			s.c.rng.IntN(100))
		if ran := s.executed[s.key()]; len(ran) > 0 && s.c.rng.IntN(2) == 0 {
			to := ran[s.c.rng.IntN(len(ran))]
			xid = openflow.XID(to)
			s.answers[s.c.uniques+1] = string(to[openflow.HeaderLen:])
		}
	}
	msg := openflow.AppendHeader(nil, openflow.Version13, typ, xid)
	msg = binary.BigEndian.AppendUint64(msg, s.c.unique())
	openflow.SetLength(msg)
	s.event(msg)
}

// down ends the connection of the switch while the agent survives and keeps its events.
func (s *simSwitch) down() {
	if s.live {
		s.event(experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent))
		s.live = false
	}
}

// restart replaces the agent: its memory is empty, and its connections are new.
func (s *simSwitch) restart() {
	for i := range s.links {
		s.links[i] = link{}
	}
	s.forget(s.epoch)
	s.term, s.master = 0, -1
	s.begin(s.epoch + 1 + uint64(s.c.rng.IntN(3)))
	for i := range s.links {
		s.c.nodes[i].attached(s)
	}
}

func (s *simSwitch) forget(epoch uint64) {
	s.forgotten[epochKey{s.id, epoch}] = true
	for _, e := range s.held {
		s.forgotten[epochKey{s.id, e.epoch}] = true
	}
	s.held = nil
	for i := range s.links {
		s.links[i].toController = slices.DeleteFunc(s.links[i].toController,
			func(f frame) bool { return f.kind != frameRole })
	}
}

// disconnect replaces one connection by a new one.
func (s *simSwitch) disconnect(node int) {
	s.links[node] = link{}
	if s.master == node {
		s.master = -1
	}
	s.c.nodes[node].attached(s)
}

// receive processes the next frame of a controller.
func (s *simSwitch) receive(node int) {
	l := &s.links[node]
	f := l.toAgent[0]
	l.toAgent = l.toAgent[1:]
	switch f.kind {
	case frameMaster:
		if f.term < s.term {
			return
		}
		s.term, s.master = f.term, node
		l.toController = []frame{{kind: frameRole, term: f.term}}
		for _, e := range s.held {
			s.say(e)
		}
		s.sayDone()
	case frameAck:
		if node == s.master {
			s.acknowledged(f)
		}
	case frameCommands:
		s.commands(node, f)
	case frameBestEffort:
		if node == s.master && f.term == s.term && f.epoch == s.epoch && s.live {
			s.c.taken += bytes.Count(f.data, []byte("command "))
		}
	case frameRefuse:
		if node == s.master && f.term == s.term && f.epoch >= s.epoch {
			s.forget(s.epoch)
			s.begin(f.epoch + 1)
		}
	}
}

// acknowledged removes events up to f, including those of earlier epochs.
func (s *simSwitch) acknowledged(f frame) {
	if f.epoch > s.epoch {
		s.c.fatalf("switch %s: event %d of epoch %d acknowledged, the newest is %d", s.id, f.seq, f.epoch, s.epoch)
	}
	n := 0
	for _, e := range s.held {
		if e.epoch > f.epoch || e.epoch == f.epoch && e.seq > f.seq {
			break
		}
		if k := (epochKey{s.id, e.epoch}); !s.c.oracle.logged(k, e.seq) && !s.c.oracle.closed[k] {
			s.c.fatalf("switch %s: event %d of epoch %d is acknowledged (by %d of %d) and not committed", s.id, e.seq,
				e.epoch, f.seq, f.epoch)
		}
		n++
	}
	s.held = s.held[n:]
}

func (s *simSwitch) commands(node int, f frame) {
	committed := s.c.oracle.commands[epochKey{s.id, f.epoch}]
	seq := f.seq
	for rest := f.data; len(rest) > 0; seq++ {
		msg, after, err := openflow.Next(rest)
		if err != nil || msg == nil {
			s.c.fatalf("switch %s: commands end within a message", s.id)
		}
		rest = after
		if seq > uint64(len(committed)) || !bytes.Equal(committed[seq-1], msg) {
			s.c.fatalf("switch %s: command %d of epoch %d was released and is not committed (%d are)", s.id, seq,
				f.epoch, len(committed))
		}
		if node != s.master || f.term != s.term || f.epoch != s.epoch || !s.live || seq <= s.forwarded {
			continue
		}
		if seq != s.forwarded+1 {
			s.c.fatalf("switch %s: command %d after %d", s.id, seq, s.forwarded)
		}
		s.forwarded = seq
		s.executed[s.key()] = append(s.executed[s.key()], slices.Clone(msg))
	}
	if got := int(seq - f.seq); got != f.count {
		s.c.fatalf("switch %s: a release of %d commands says %d", s.id, got, f.count)
	}
}

// released checks best-effort commands: each is released once, at the time that its level permits.
func (c *cluster) released(r Release) {
	n := 0
	for rest := r.BestEffort; len(rest) > 0; n++ {
		msg, after, err := openflow.Next(rest)
		if err != nil || msg == nil {
			c.fatalf("switch %s: commands end within a message", r.Switch)
		}
		rest = after
		body := string(msg[openflow.HeaderLen:])
		var number, seq uint64
		var level string
		var from epochKey
		if _, err := fmt.Sscanf(body, "command %d %s %d %d %d", &number, &level, (*uint64)(&from.sw), &from.epoch,
			&seq); err != nil {
			c.fatalf("switch %s: command %q: %v", r.Switch, body, err)
		}
		switch {
		case c.bestEffort[body]:
			c.fatalf("switch %s: command %q leaves again", r.Switch, body)
		case level == ExactlyOnce.String():
			c.fatalf("switch %s: command %q leaves without a number", r.Switch, body)
		case level == Ordered.String() && !c.oracleOf(from.sw).logged(from, seq):
			c.fatalf("switch %s: command %q leaves before its event is committed", r.Switch, body)
		}
		c.bestEffort[body] = true
	}
	if n != r.BestEffortCount || r.Count > 0 || r.Acked > 0 {
		c.fatalf("switch %s: a release of %d commands says %+v", r.Switch, n, r)
	}
}

// finish makes some of the forwarded commands done.
func (s *simSwitch) finish() {
	if s.live && s.done < s.forwarded {
		s.done += 1 + s.c.rng.Uint64N(s.forwarded-s.done)
		s.sayDone()
	}
}

func (s *simSwitch) sayDone() {
	if s.master >= 0 && s.live && s.done > 0 {
		l := &s.links[s.master]
		l.toController = append(l.toController, frame{kind: frameDone, epoch: s.epoch, seq: s.done})
	}
}
