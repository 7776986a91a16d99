package southbound

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// legacy is a switch that has neither an agent nor bundles. Events and commands are delivered at most once: the session
// numbers events on arrival, sends each command once, and counts it as done when it is written. Each claim begins an
// epoch, because messages that were on their way when the last leader died are lost.
type legacy struct {
	*channel
	why       string
	fresh     int              // ticks for which it is not read yet, so that a leader can claim it first
	due       bool             // the epoch begins with the next action
	asked     bool             // has requested features and ports for a new epoch
	events    uint64           // of the epoch
	forwarded stream.Watermark // the highest command of the epoch that was sent
	done      uint64           // the highest that was written
	passed    uint64           // commands of earlier epochs

	unanswered int    // ticks since the request in which the switch was read
	claimXID   uint32 // of the last ROLE_REQUEST; none has 0
	stale      bool   // the switch has a master with a later generation, and executes nothing that this one sends
}

// freshTicks is how many ticks a switch that has just connected waits for a leader: a second.
const freshTicks = 10

func (l *legacy) report(s *State) {
	s.Peer, s.Guarantee, s.Why = Legacy, "at-most-once", l.why
	if l.master && l.stale {
		s.Guarantee, s.Why = "none", whyStale
	}
}

// next delivers a run of events, or handles one message that is no event.
func (l *legacy) next(buf []byte, _ uint64) ([]byte, Action, error) {
	switch {
	case l.due:
		return buf, l.begin(), nil
	case l.asked:
		return l.answer(buf)
	}
	n := 0
	for n < len(buf) {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		event, err := l.isEvent(buf[n : n+size])
		if err != nil {
			return nil, Action{}, err
		}
		if !event {
			break
		}
		n += size
	}
	switch {
	case n == 0:
		msg, rest, err := openflow.Next(buf)
		if err != nil {
			return rest, Action{}, err
		}
		switch msg[1] {
		case openflow.TypeEchoRequest:
			l.out = handshake.EchoReply(l.out, msg)
		case openflow.TypeError:
			l.failed(msg)
		}
		return rest, Action{}, nil
	case !l.begun: // of no epoch: that begins when a leader claims the switch
		return buf[n:], Action{}, nil
	}
	messages, count := l.runToV13(buf[:n])
	first := l.events + 1
	l.events += uint64(count)
	return buf[n:], Action{Kind: Events, Batch: Batch{Epoch: l.epoch, First: first, Count: count, Messages: messages}},
		nil
}

// answer handles a message while features and ports are requested. Events that arrive meanwhile belong to no epoch.
func (l *legacy) answer(buf []byte) ([]byte, Action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil || shared(msg[1]) {
		return rest, Action{}, err
	}
	if msg[1] == openflow.TypeError {
		l.failed(msg)
	}
	if l.out, err = l.hs.Input(l.out, msg); err != nil || !l.hs.Done {
		return rest, Action{}, err
	}
	if l.hs.Datapath != l.id {
		return rest, Action{}, errRenamed(l.hs.Datapath)
	}
	return rest, l.begin(), nil
}

// failed handles an ERROR that answers a request of this session.
func (l *legacy) failed(msg []byte) {
	var e of13.Error
	if openflow.XID(msg) == l.claimXID && e.Decode(msg) == nil {
		l.stale = isStale(e)
	}
}

// isEvent reports whether a message is an event, and not part of the protocol of the session.
func (l *legacy) isEvent(msg []byte) (bool, error) {
	if msg[0] != l.hs.Version {
		return false, errVersion(msg[0], l.hs.Version)
	}
	switch typ := msg[1]; typ {
	case of13.TypePacketIn, of13.TypeFlowRemoved, of13.TypePortStatus: // the same numbers in all versions
		return true, nil
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return false, nil
	case openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return false, errPlaysAgent(t)
		}
	}
	return openflow.XID(msg) < handshake.OwnXID, nil
}

// more reports whether the epoch must begin.
func (l *legacy) more() bool { return l.due }

// full reports whether the switch has just connected and no leader has claimed it.
func (l *legacy) full() bool { return l.fresh > 0 && !l.master }

func (l *legacy) tick(_ uint64, reading bool) error {
	l.fresh = max(0, l.fresh-1)
	if !l.asked || !reading {
		return nil
	}
	if l.unanswered++; l.unanswered >= patience {
		return errNoAnswer
	}
	return nil
}

// claim begins an epoch. It begins at once if no message of the switch is lost and no other leader can have logged any
// of this connection, because the log has no epoch. Otherwise it begins when the switch has reported features and ports
// again.
func (l *legacy) claim(now uint64, r Resume) {
	if l.hs.Version != openflow.Version10 { // fences the previous master, if the switch supports roles
		l.claimXID = l.xid()
		l.put(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: l.generation}, l.claimXID)
	}
	l.stale = false
	l.newEpoch(now, r.Epoch)
	if l.due = l.fresh > 0 && r.Epoch == 0; !l.due {
		l.restart()
	}
	l.fresh = 0
}

func (l *legacy) restart() {
	l.due, l.asked, l.unanswered = false, true, 0
	l.out = l.hs.Restart(l.out)
}

// begin begins the epoch with its first event.
func (l *legacy) begin() Action {
	l.passed += uint64(l.forwarded)
	l.due, l.asked, l.events, l.forwarded, l.done = false, false, 1, 0, 0
	return Action{Kind: Events, Batch: Batch{Epoch: l.epoch, First: 1, Count: 1, Messages: l.switchUp()}}
}

func (l *legacy) end() uint64 { return l.events + 1 }

// standby drops the events of the switch from now on.
func (l *legacy) standby(uint64) { l.begun, l.due, l.asked = false, false, false }

func (l *legacy) refuse(now uint64) {
	if l.master && l.epoch <= l.floor {
		l.newEpoch(now)
		l.restart()
	}
}

// send sends the commands that were not sent before.
func (l *legacy) send(b experimenter.Block, messages []byte) error {
	if b.Epoch != l.epoch || !l.begun {
		return nil
	}
	if b.First > 0 {
		passed, err := l.forwarded.Accept(b.First, int(b.Count))
		if err != nil {
			return fmt.Errorf("southbound: commands: %w", err)
		}
		for range passed {
			messages = messages[int(messages[2])<<8|int(messages[3]):]
		}
	}
	l.putAll(withoutRoles(messages))
	return nil
}

// writeMark and written: see Core.
func (l *legacy) writeMark() uint64 { return l.passed + uint64(l.forwarded) }

func (l *legacy) written(mark uint64) Action {
	if !l.begun || mark <= l.passed+l.done || mark > l.passed+uint64(l.forwarded) {
		return Action{}
	}
	l.done = mark - l.passed
	return Action{Kind: CommandsDone, Batch: Batch{Epoch: l.epoch}, Done: l.done}
}

// No one keeps its events, so they cannot be held up, and no standby compares them with the log.

func (l *legacy) hold()                              {}
func (l *legacy) resend()                            {}
func (l *legacy) acknowledge(experimenter.Ack)       {}
func (l *legacy) logged(uint64, uint64, []byte) bool { return true }
func (l *legacy) skipped(uint64, uint64, int) bool   { return true }
