package southbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// dock is a bundle sender with a switch whose answers the test makes.
type dock struct {
	t *testing.T
	bundleSender
}

// newDock returns a dock whose sender has just become master. Commands up to done are executed.
func newDock(t *testing.T, done uint64) *dock {
	d := idleDock(t)
	d.start(marker{epoch: 9, seq: done}, current, done)
	return d
}

// idleDock returns a dock whose sender is not master.
func idleDock(t *testing.T) *dock {
	c := &channel{}
	c.hs.Version = of13.Version
	return &dock{t: t, bundleSender: bundleSender{channel: c, table: 3}}
}

// give sends commands, one for each letter: f is a flow-mod, b a barrier, m a meter-mod, p a port-mod, g a group-mod, o
// a packet-out. A capital letter continues the transaction.
func (d *dock) give(first uint64, letters string) {
	var all []byte
	for i, l := range letters {
		xid := uint32(first) + uint32(i)
		if strings.ContainsRune("FBMPGO", l) {
			xid |= handshake.ContinuesXID
		}
		switch l {
		case 'f', 'F':
			all = append(all, cookieMod(uint64(first)+uint64(i)).Append(nil, xid)...)
		case 'b', 'B':
			all = append(all, raw(4, of13.TypeBarrierRequest, xid)...)
		case 'm', 'M':
			m := of13.MeterMod{MeterID: 1}
			all = append(all, m.Append(nil, xid)...)
		case 'p', 'P':
			all = append(all, (&of13.PortMod{Port: 1}).Append(nil, xid)...)
		case 'g', 'G':
			all = append(all, (&of13.GroupMod{GroupID: 1}).Append(nil, xid)...)
		case 'o', 'O':
			m := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController}
			all = append(all, m.Append(nil, xid)...)
		default:
			d.t.Fatalf("what is %c?", l)
		}
	}
	if err := d.send(first, all); err != nil {
		d.t.Fatal(err)
	}
}

// says compares what the sender has sent since the last call with want. A marker is shown with its sequence.
func (d *dock) says(want string) {
	d.t.Helper()
	var list []string
	name := func(msg []byte) string {
		if m, ok := markerSet(msg); ok {
			return fmt.Sprintf("marker=%d", m.seq)
		}
		var f of13.FlowMod
		if msg[1] == of13.TypeFlowMod && f.Decode(msg) == nil && f.Command == of13.FlowDelete {
			return "forget"
		}
		return fmt.Sprintf("%s%d", map[uint8]string{of13.TypeFlowMod: "f", of13.TypeBarrierRequest: "b",
			of13.TypeMeterMod: "m", of13.TypePortMod: "p", of13.TypeGroupMod: "g", of13.TypePacketOut: "o"}[msg[1]], openflow.XID(msg)&^handshake.ContinuesXID)
	}
	for out := d.out; len(out) > 0; {
		var msg []byte
		msg, out, _ = openflow.Next(out)
		var ctl of13.BundleControl
		var add of13.BundleAdd
		switch {
		case ctl.Decode(msg) == nil:
			list = append(list, map[uint16]string{of13.BundleOpenRequest: "open", of13.BundleCommitRequest: "commit",
				of13.BundleDiscardRequest: "discard"}[ctl.CtrlType])
		case add.Decode(msg) == nil:
			if openflow.XID(add.Message) != openflow.XID(msg) {
				d.t.Fatalf("%x is added as %x", add.Message, msg)
			}
			list = append(list, "+"+name(add.Message))
		case openflow.XID(msg) >= firstXID && msg[1] == of13.TypeBarrierRequest:
			list = append(list, "barrier")
		default:
			list = append(list, name(msg))
		}
	}
	d.out = d.out[:0]
	if got := strings.Join(list, " "); got != want {
		d.t.Fatalf("it says: %s\nwant:    %s", got, want)
	}
}

// hears delivers an answer, and returns the xids of the commands that it refuses.
func (d *dock) hears(msg []byte) (refused []uint32) {
	d.t.Helper()
	list, ok := d.takes(msg)
	if !ok {
		d.t.Fatalf("it does not take %x", msg)
	}
	for _, r := range list {
		if r[1] != openflow.TypeError {
			d.t.Fatalf("%x", r)
		}
		refused = append(refused, openflow.XID(r)&^handshake.ContinuesXID)
	}
	return refused
}

// barrier answers the opening of the bundle, if there is one, and the barrier.
func (d *dock) barrier() []uint32 {
	if d.step.bundled {
		opened := of13.BundleControl{ID: d.step.bundle, CtrlType: of13.BundleOpenReply}
		d.hears(opened.Append(nil, d.step.open))
	}
	return d.hears(raw(4, of13.TypeBarrierReply, d.step.barrier))
}

func (d *dock) committed() {
	reply := of13.BundleControl{ID: d.step.bundle, CtrlType: of13.BundleCommitReply}
	d.hears(reply.Append(nil, d.step.commit))
}

func (d *dock) fails(xid uint32, typ, code uint16, data ...byte) []uint32 {
	e := of13.Error{ErrType: typ, Code: code, Data: data}
	return d.hears(e.Append(nil, xid))
}

func (d *dock) notCommitted(code uint16) []uint32 {
	return d.fails(d.step.commit, of13.ErrTypeExperimenter, code, 0x4f, 0x4e, 0x46, 0)
}

func (d *dock) wantDone(want uint64) {
	d.t.Helper()
	if got := d.done(); got != want {
		d.t.Fatalf("%d commands are done, want %d", got, want)
	}
}

// one makes the switch execute the bundle in flight.
func (d *dock) one() {
	d.t.Helper()
	d.barrier()
	d.says("commit")
	d.committed()
}

// execute does the same without a check of what was sent.
func (d *dock) execute() {
	d.barrier()
	d.committed()
	d.out = d.out[:0]
}
