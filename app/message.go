package app

import (
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// PacketIn is a packet that a switch handed to its controller.
type PacketIn struct {
	Switch Switch
	InPort Port
	of13.PacketIn
}

// Out returns the command that has the switch execute actions for the packet.
func (p *PacketIn) Out(actions of13.Actions) of13.PacketOut {
	m := of13.PacketOut{BufferID: p.BufferID, InPort: p.InPort, Actions: actions}
	if p.BufferID == of13.NoBuffer {
		m.Data = p.Data
	}
	return m
}

// EthDst returns the destination of the Ethernet frame, zero if there is none.
func (p *PacketIn) EthDst() (a MAC) { copy(a[:], p.Data); return a }

// EthSrc returns the source of the Ethernet frame, zero if there is none.
func (p *PacketIn) EthSrc() (a MAC) {
	if len(p.Data) >= 12 {
		copy(a[:], p.Data[6:])
	}
	return a
}

func (*PacketIn) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypePacketIn }
func (p *PacketIn) decode(in *ledger.Input) error {
	p.Switch = in.Switch
	if err := p.PacketIn.Decode(in.Message); err != nil {
		return err // the match is that of an earlier message, whose buffer may be in use again
	}
	p.InPort, _ = p.Match.InPort()
	return nil
}

// PortStatus says that a port was added, removed or changed.
type PortStatus struct {
	Switch Switch
	of13.PortStatus
}

func (*PortStatus) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypePortStatus }
func (p *PortStatus) decode(in *ledger.Input) error {
	p.Switch = in.Switch
	return p.PortStatus.Decode(in.Message)
}

// FlowRemoved says that a flow entry timed out or was deleted.
type FlowRemoved struct {
	Switch Switch
	of13.FlowRemoved
}

func (*FlowRemoved) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypeFlowRemoved }
func (f *FlowRemoved) decode(in *ledger.Input) error {
	f.Switch = in.Switch
	return f.FlowRemoved.Decode(in.Message)
}

// Reply is a (part of a) multipart reply to a request that this application sent.
type Reply struct {
	Switch Switch
	XID    uint32 // as Tx.Send returned it
	of13.MultipartReply
}

func xid(in *ledger.Input) uint32 { return openflow.XID(in.Message) }

func (*Reply) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypeMultipartReply }
func (r *Reply) decode(in *ledger.Input) error {
	r.Switch, r.XID = in.Switch, xid(in)
	return r.MultipartReply.Decode(in.Message)
}

// BarrierReply answers a barrier that this application sent.
type BarrierReply struct {
	Switch Switch
	XID    uint32
}

func (*BarrierReply) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypeBarrierReply }
func (b *BarrierReply) decode(in *ledger.Input) error {
	b.Switch, b.XID = in.Switch, xid(in)
	return nil
}

// Refused is a switch's error in answer to a command of this application. A switch without an agent that supports
// bundles then executes no command of the transaction.
type Refused struct {
	Switch  Switch
	XID     uint32 // as Tx.Send returned it; see Earlier
	Command []byte // the refused command, a whole message; nil if it is no longer known
	of13.Error
}

func (*Refused) input() (ledger.InputKind, uint8) { return ledger.Message, of13.TypeError }
func (r *Refused) decode(in *ledger.Input) error {
	r.Switch, r.XID, r.Command = in.Switch, xid(in), in.Command
	return r.Error.Decode(in.Message)
}

// Earlier reports whether the command with one transaction id was sent before the one with another, by this application
// to the same switch. Do not compare the ids as numbers: they begin again, and have bits that mean something else.
func Earlier(xid, than uint32) bool { return (xid-than)&message.SequenceMask >= message.Far }

// SwitchUp says that a switch is connected: it is new; or it restarted, and its flow tables are empty; or its agent
// restarted, and they are as they were; or it is reachable again, with everything that it had.
type SwitchUp struct {
	Switch   Switch
	Features of13.FeaturesReply
	Ports    of13.List[of13.PortDesc] // empty when they did not fit one message
}

func (*SwitchUp) input() (ledger.InputKind, uint8) { return ledger.SwitchUp, 0 }
func (u *SwitchUp) decode(in *ledger.Input) error {
	hello, err := experimenter.ParseSwitchUp(in.Message)
	if err != nil {
		return err
	}
	u.Switch, u.Ports = in.Switch, nil
	if err := u.Features.Decode(hello.Features); err != nil {
		return err
	}
	if len(hello.Ports) == 0 {
		return nil
	}
	var reply of13.MultipartReply
	if err := reply.Decode(hello.Ports); err != nil {
		return err
	}
	u.Ports = reply.PortDescs()
	return nil
}

// SwitchDown says that a switch is down. Assume that its flow tables are lost.
type SwitchDown struct {
	Switch Switch
	Reason experimenter.Reason
}

func (*SwitchDown) input() (ledger.InputKind, uint8) { return ledger.SwitchDown, 0 }
func (d *SwitchDown) decode(in *ledger.Input) error {
	d.Switch, d.Reason = in.Switch, in.Reason
	return nil
}

// SwitchForgotten says that a switch which is down does not come back: an operator has said so, or it has been down for
// as long as the cluster file says. Afterwards the cells and timers at the switch are removed, by themselves. A handler
// is for what the application has of the switch in other cells. If the switch comes up nevertheless, it is a new one.
type SwitchForgotten struct{ Switch Switch }

func (*SwitchForgotten) input() (ledger.InputKind, uint8) { return ledger.Forgotten, 0 }
func (f *SwitchForgotten) decode(in *ledger.Input) error {
	f.Switch = in.Switch
	return nil
}

// Void says that a switch did not execute a command, because when it arrived the switch was down, or had begun a newer
// epoch than the application had heard of. This happens only to commands for switches of other groups: SwitchUp is the
// time to send what a switch needs.
type Void struct {
	Switch Switch
	XID    uint32 // as Tx.Send returned it
}

func (*Void) input() (ledger.InputKind, uint8) { return ledger.Discarded, 0 }
func (v *Void) decode(in *ledger.Input) error {
	v.Switch, v.XID = in.Switch, uint32(in.Seq)
	return nil
}

// Timer says that a timer of this application is due.
type Timer struct {
	Switch Switch // of the actor that set it; 0 if its cells are not keyed by a switch
	Name   string
	Data   []byte // as given to Tx.SetTimer
}

func (*Timer) input() (ledger.InputKind, uint8) { return ledger.Timer, 0 }
func (t *Timer) decode(in *ledger.Input) error {
	t.Switch, t.Name, t.Data = in.Switch, in.Name, in.Message
	return nil
}
