package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// agent is a switch behind its agent, which keeps events until they are acknowledged and filters commands: see
// docs/design/control-path.md.
type agent struct {
	*channel
	block    experimenter.Block // the rest of an EVENTS block, not received yet
	accepted bool               // it has accepted the claim, so events continue from there
	fenced   bool               // it has refused the last claim; see State.Fenced
	waited   int                // ticks since the last claim
	pulse    heartbeat.Monitor
	heard    bool // it has sent something since the last Beat
	silent   bool // see State.Silent
}

func (g *agent) report(s *State) {
	s.Peer, s.Fenced, s.Silent = Agent, g.fenced, g.silent
	s.Guarantee, s.Why = "exactly-once", "its agent keeps events and filters commands"
	if g.fenced {
		s.Guarantee, s.Why = "none", "its agent has had a master of another cluster, or of this one before it lost "+
			"its log; the switch begins anew when it has had no master for some seconds; if it does not, that "+
			"master had a later term: restart the agent, which also forgets the events that it holds, or remove "+
			"the other controllers"
	}
}

func (g *agent) next(buf []byte, _ uint64) ([]byte, Action, error) {
	g.heard = true
	if g.block.Count > 0 {
		return g.blockEvents(buf)
	}
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, Action{}, err
	}
	switch msg[1] {
	case of13.TypeRoleReply:
		var r of13.RoleReply
		err := r.Decode(msg)
		g.accepted = err == nil && g.master && r.Role == of13.RoleMaster && r.GenerationID == g.generation
		g.fenced = g.fenced && !g.accepted
		return rest, Action{}, err
	case openflow.TypeError:
		var e of13.Error
		err := e.Decode(msg)
		g.fenced = g.fenced || err == nil && g.master && isStale(e)
		return rest, Action{}, err
	case openflow.TypeHello, openflow.TypeEchoReply:
		return rest, Action{}, nil
	case openflow.TypeEchoRequest:
		g.out = handshake.EchoReply(g.out, msg)
		return rest, Action{}, nil
	}
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeEvents:
		b, err := experimenter.ParseBlock(msg, t)
		if err == nil && (b.First == 0 || b.Count == 0 || b.First+uint64(b.Count) < b.First) {
			err = fmt.Errorf("it sent a block of %d events that begins at %d", b.Count, b.First)
		}
		g.block, g.epoch = b, max(g.epoch, b.Epoch)
		return rest, Action{}, err
	case experimenter.TypeCommandAck:
		ack, err := experimenter.ParseAck(msg, t)
		if err != nil {
			return rest, Action{}, err
		}
		return rest, Action{Kind: CommandsDone, Batch: Batch{Epoch: ack.Epoch}, Done: ack.Seq}, nil
	}
	return rest, Action{}, fmt.Errorf("it sent a message of type %d outside of a block of events", msg[1])
}

// isStale reports whether an error refuses a role because the peer has seen a later generation.
func isStale(e of13.Error) bool {
	return e.ErrType == of13.ErrTypeRoleRequestFailed && e.Code == of13.RoleRequestFailedStale
}

// blockEvents returns the events of the block that have arrived.
func (g *agent) blockEvents(buf []byte) ([]byte, Action, error) {
	b := &g.block
	n, count, foreign := 0, uint32(0), false
	for n < len(buf) && count < b.Count {
		foreign = foreign || buf[n] != of13.Version
		n += int(buf[n+2])<<8 | int(buf[n+3])
		count++
	}
	first := b.First
	b.First, b.Count = b.First+uint64(count), b.Count-count
	if n > int(b.Bytes) || b.Count == 0 && n != int(b.Bytes) {
		return nil, Action{}, errors.New("a block of events does not have the length that its header says")
	}
	b.Bytes -= uint32(n)
	if !g.accepted { // it answers an earlier claim, and is sent again after this one
		return buf[n:], Action{}, nil
	}
	messages := buf[:n]
	if foreign {
		messages = g.eventsToV13(messages)
	}
	return buf[n:], Action{Kind: Events, Batch: Batch{Epoch: b.Epoch, First: first, Count: int(count),
		Messages: messages}}, nil
}

// claim first says what is logged, so that the agent can tell whether this log has what was acknowledged.
func (g *agent) claim(_ uint64, r Resume) {
	g.accepted, g.fenced = false, false
	if r.Epoch > 0 {
		g.acknowledge(experimenter.Ack{Epoch: r.Epoch, Seq: r.Events})
	}
	g.resend()
}

// resend claims the switch again in the same generation. The agent then sends all events that are not acknowledged.
func (g *agent) resend() {
	g.waited = 0
	role := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: g.generation}
	g.out = role.Append(g.out, handshake.OwnXID) // always OpenFlow 1.3, whatever the switch speaks
}

func (g *agent) hold() { g.accepted = false } // until the agent accepts the claim that resend makes

// standby sends nothing: the agent learns of the new master from its claim. Events are ignored until the next claim.
func (g *agent) standby(uint64) { g.accepted, g.fenced = false, false }

func (g *agent) acknowledge(a experimenter.Ack) {
	g.out = a.Append(g.out, g.hs.Version, experimenter.TypeEventAck)
}

// claimEvery is how often a claim that the agent has refused is repeated, in ticks: the other master may be gone.
const claimEvery = 10

func (g *agent) tick(uint64, bool) error {
	if g.waited++; g.master && g.fenced && g.waited >= claimEvery {
		g.resend()
	}
	return nil
}

// beat sends heartbeats, and reports an agent that sends nothing any more.
func (g *agent) beat(reading bool, crowd func() int) error {
	send, lost := g.pulse.Tick(heartbeat.Seen{Sent: g.wrote, Heard: g.heard, Reading: reading, Crowd: crowd})
	g.wrote, g.heard = false, false
	switch {
	case lost:
		g.silent = true
		return ofconn.ErrSilent
	case send:
		g.ask(openflow.TypeEchoRequest, handshake.OwnXID)
	}
	return nil
}

// send does not check the epoch; the agent discards commands of an ended epoch.
func (g *agent) send(b experimenter.Block, messages []byte) error {
	if g.hs.Version != of13.Version {
		messages = g.commandsFromV13(g.hs.Version, messages)
	}
	b.Bytes = uint32(len(messages))
	g.out = append(b.Append(g.out, g.hs.Version, experimenter.TypeCommands), messages...)
	return nil
}

// The agent keeps the events and acknowledges the commands, so the remaining methods do nothing.

func (g *agent) more() bool                         { return false }
func (g *agent) full() bool                         { return false }
func (g *agent) logged(uint64, uint64, []byte) bool { return true }
func (g *agent) skipped(uint64, uint64, int) bool   { return true }
func (g *agent) refuse(uint64)                      {} // Core sends REFUSE
func (g *agent) end() uint64                        { return 0 }
