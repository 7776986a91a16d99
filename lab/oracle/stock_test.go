package oracle

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const flags = of13.BundleAtomic | of13.BundleOrdered

// wire is a stock switch, numbered 1, and its connections to two controllers.
type wire struct {
	tally *Stock
	conns [2]*Connection
}

func newWire() *wire {
	w := &wire{tally: NewStock(false)}
	for i := range w.conns {
		w.conns[i] = w.tally.Connection(i)
	}
	return w
}

// commit makes controller c send a bundle of packet-outs, one for each letter, with a marker.
func (w *wire) commit(c int, id uint32, letters string, marker uint64) {
	w.again(c, id, id, letters, marker)
}

// again is commit with the xids that the letters had in another bundle.
func (w *wire) again(c int, first, id uint32, letters string, marker uint64) {
	control := of13.BundleControl{ID: id, CtrlType: of13.BundleOpenRequest, Flags: flags}
	w.conns[c].ToSwitch(1, control.Append(nil, handshake.OwnXID+id))
	for i, d := range letters {
		add := of13.BundleAdd{ID: id, Flags: flags, Message: packetOut(string(d), 0)}
		w.conns[c].ToSwitch(1, add.Append(nil, 100*first+uint32(i)))
	}
	mark := of13.FlowMod{Cookie: marker, TableID: 253, BufferID: of13.NoBuffer}
	add := of13.BundleAdd{ID: id, Flags: flags, Message: mark.Append(nil, 0)}
	w.conns[c].ToSwitch(1, add.Append(nil, handshake.OwnXID+1000))
	control.CtrlType = of13.BundleCommitRequest
	w.conns[c].ToSwitch(1, control.Append(nil, handshake.OwnXID+id))
}

func (w *wire) committed(c int, id uint32) {
	reply := of13.BundleControl{ID: id, CtrlType: of13.BundleCommitReply, Flags: flags}
	w.conns[c].FromSwitch(1, reply.Append(nil, handshake.OwnXID+id))
}

func (w *wire) err(c int, xid uint32, errType, code uint16, data ...byte) {
	e := of13.Error{ErrType: errType, Code: code, Data: data}
	w.conns[c].FromSwitch(1, e.Append(nil, xid))
}

// failed reports that bundle id is not committed.
func (w *wire) failed(c int, id uint32) {
	w.err(c, handshake.OwnXID+id, of13.ErrTypeExperimenter, of13.BundleMsgFailed, 0x4f, 0x4e, 0x46, 0)
}

func (w *wire) slave(c int, xid uint32) {
	w.err(c, xid, of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
}

// reads makes controller c read a marker; 0 means that there is none.
func (w *wire) reads(c int, marker uint64) {
	var flows of13.List[of13.FlowStats]
	if marker > 0 {
		flows = flows.With(of13.FlowStats{TableID: 253, Cookie: marker})
	}
	flows = flows.With(of13.FlowStats{TableID: 0, Cookie: 1<<40 - 1})
	reply := of13.MultipartReply{Part: of13.PartFlow, Body: flows}
	w.conns[c].FromSwitch(1, reply.Append(nil, handshake.OwnXID+5))
}

func TestStockCommands(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *wire)
		want string
	}{
		{"answered", func(w *wire) { w.commit(0, 1, "ab", 2); w.committed(0, 1) }, "ab"},
		{"not answered", func(w *wire) { w.commit(0, 1, "ab", 2) }, ""},
		{"in the order of the answers", func(w *wire) {
			w.commit(0, 1, "a", 1)
			w.commit(0, 2, "b", 2)
			w.committed(0, 1)
			w.committed(0, 2)
		}, "ab"},
		{"rejected", func(w *wire) {
			w.commit(0, 1, "ab", 2)
			w.err(0, 101, of13.ErrTypeBadAction, 0)
			w.failed(0, 1)
			w.commit(0, 2, "c", 3)
			w.committed(0, 2)
		}, "abc"},
		{"rejected, and sent again one by one", func(w *wire) {
			w.commit(0, 1, "ab", 2)
			w.failed(0, 1)
			w.again(0, 1, 2, "a", 1)
			w.committed(0, 2)
			w.again(0, 1, 3, "b", 2)
			w.failed(0, 3)
		}, "ab"},
		{"refused by a slave", func(w *wire) { w.commit(0, 1, "ab", 2); w.slave(0, 100); w.failed(0, 1) }, ""},
		{"commit refused by a slave", func(w *wire) { w.commit(0, 1, "ab", 2); w.slave(0, handshake.OwnXID+1) }, ""},
		{"the marker says done", func(w *wire) { w.commit(0, 1, "ab", 2); w.reads(1, 2) }, "ab"},
		{"the marker says not done", func(w *wire) { w.commit(0, 1, "ab", 2); w.reads(1, 1) }, ""},
		{"no marker", func(w *wire) { w.commit(0, 1, "ab", 2); w.reads(1, 0) }, ""},
		{"one done of two, and sent again", func(w *wire) {
			w.commit(0, 1, "a", 1)
			w.commit(0, 2, "b", 2)
			w.reads(1, 1)
			w.commit(1, 1, "b", 2)
			w.committed(1, 1)
		}, "ab"},
		{"the answer comes behind the marker", func(w *wire) {
			w.commit(0, 1, "a", 1)
			w.reads(1, 1)
			w.committed(0,
				1)
		}, "a"},
		{"twice", func(w *wire) {
			for c := range 2 {
				w.commit(c, 1, "a", 1)
				w.committed(c, 1)
			}
		}, "aa"},
		{"discarded", func(w *wire) {
			m := of13.BundleControl{ID: 2, CtrlType: of13.BundleDiscardRequest, Flags: flags}
			add := of13.BundleAdd{ID: 2, Flags: flags, Message: packetOut("a", 0)}
			w.conns[0].ToSwitch(1, add.Append(nil, 3))
			w.err(0, 3, of13.ErrTypeBadAction, 0)
			w.conns[0].ToSwitch(1, m.Append(nil, handshake.OwnXID+2))
			m.CtrlType = of13.BundleCommitRequest
			w.conns[0].ToSwitch(1, m.Append(nil, handshake.OwnXID+3))
			w.committed(0, 3)
		}, "a"},
		{"outside of bundles", func(w *wire) {
			w.conns[0].ToSwitch(1, packetOut("a", 1))
			w.conns[1].ToSwitch(1, packetOut("b", 1))
			w.conns[0].ToSwitch(1, packetOut("c", 2))
			w.slave(0, 1)
		}, "bc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire()
			c.do(w)
			w.tally.Compare(nil)
			if got := letters(w); got != c.want {
				t.Errorf("executed %q, want %q", got, c.want)
			}
		})
	}
}

// letters returns what the switch has executed.
func letters(w *wire) (list string) {
	for _, d := range w.tally.Executed(1) {
		for _, l := range "abc" {
			if d == audit.Digest(packetOut(string(l), 9)) {
				list += string(l)
			}
		}
	}
	return list
}

func TestStockObserved(t *testing.T) {
	w := newWire()
	w.tally = NewStock(true)
	w.conns[0] = w.tally.Connection(0)
	w.commit(0, 1, "a", 1)
	w.committed(0, 1)
	w.conns[0].ToSwitch(1, packetOut("b", 1))
	w.tally.Executes(1, packetOut("c", 1))
	mark := of13.FlowMod{TableID: 253, BufferID: of13.NoBuffer}
	w.tally.Executes(1, mark.Append(nil, handshake.OwnXID))
	if got := w.tally.Executed(1); len(got) != 1 || got[0] != audit.Digest(packetOut("c", 0)) {
		t.Errorf("executed %q", got)
	}
}

func TestStockEvents(t *testing.T) {
	path := write(t, log(t, "a", "b", "c"))
	point := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(of13.PortController),
		Data: []byte("Holdfast sync")}
	for _, c := range []struct {
		name         string
		first, other string // what each connection carried
		want         Result
	}{
		{"both the same", "abc", "abc", Result{EventsSent: 3}},
		{"some on each", "ab", "bc", Result{EventsSent: 3}},
		{"on no connection", "ab", "b", Result{EventsSent: 2, EventsRepeated: 1}},
		{"lost", "abc", "bcd", Result{EventsSent: 4, EventsLost: 1}},
		{"said twice", "abca", "abc", Result{EventsSent: 4, EventsLost: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire()
			for i, text := range []string{c.first, c.other} {
				for n, d := range text {
					msg := packetIn(string(d))
					if i == 0 { // each has its own buffer and xid
						msg[7], msg[11] = byte(n), byte(n)
					}
					w.conns[i].FromSwitch(1, msg)
				}
				w.conns[i].FromSwitch(1, point.Append(nil, 0))
				w.committed(i, 9)
				// of Open vSwitch: a slave now
				role := of13.Experimenter{ID: of13.OnfID, ExpType: 1911, Data: make([]byte, 16)}
				w.conns[i].FromSwitch(1, role.Append(nil, 0))
			}
			for _, d := range "abc" {
				w.conns[0].ToSwitch(1, packetOut(string(d), 1))
			}
			c.want.EventsProcessed, c.want.CommandsIssued, c.want.CommandsExecuted, c.want.Epochs = 3, 3, 3, 1
			if got := w.tally.Compare(read(t, path)); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A packet-in that is caused by an application's packet-out is an event like any other.
func TestStockOwnPackets(t *testing.T) {
	w := newWire()
	own := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(of13.PortController),
		Data: []byte("own")}
	for i := range 2 {
		w.conns[i].FromSwitch(1, own.Append(nil, 0))
	}
	if sent, _ := w.tally.Counts(); sent != 1 {
		t.Errorf("%d events, want 1", sent)
	}
}

// An answer belongs to the controller that asked.
func TestStockAnswers(t *testing.T) {
	w := newWire()
	answer := of13.BarrierReply{}
	for i := range w.conns {
		w.conns[i].FromSwitch(1, answer.Append(nil, 3))
	}
	if sent, _ := w.tally.Counts(); sent != 2 {
		t.Errorf("%d answers, want 2", sent)
	}
}

func TestCommands(t *testing.T) {
	add := of13.BundleAdd{ID: 1, Message: packetOut("a", 0)}
	open := of13.BundleControl{ID: 1}
	for _, c := range []struct {
		msg  []byte
		want int
	}{
		{packetOut("a", 1), 1}, {packetOut("a", handshake.OwnXID), 0}, {add.Append(nil, 1), 1},
		{add.Append(nil, handshake.OwnXID), 0}, {open.Append(nil, handshake.OwnXID), 0},
	} {
		if got := Commands(c.msg); got != c.want {
			t.Errorf("%x: %d commands, want %d", c.msg, got, c.want)
		}
	}
}
