package replay

import (
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// asked is the xid that an application gave to a command, with the sequence in the xid that the ledger gave to it.
type asked struct{ seq, xid uint32 }

// maxAsked bounds, for each switch, the newest commands whose answers get the xid of the application.
const maxAsked = 8192

// ask adds one, and returns the list with those that it leaves out shared: the old list may come back.
func (sw *replayedSwitch) ask(seq, xid uint32) {
	if len(sw.asked) >= 2*maxAsked {
		sw.asked = slices.Clone(sw.asked[len(sw.asked)-maxAsked:])
	}
	sw.asked = append(sw.asked, asked{seq, xid})
}

// newest returns the commands whose answers get the xid of the application.
func (sw *replayedSwitch) newest() []asked { return sw.asked[max(0, len(sw.asked)-maxAsked):] }

// askedAs returns the xid of the application for an xid of the ledger, if the command is among the newest.
func (sw *replayedSwitch) askedAs(xid uint32) (uint32, bool) {
	newest := sw.newest()
	for i := len(newest) - 1; i >= 0; i-- {
		if newest[i].seq == xid&message.SequenceMask {
			return newest[i].xid, true
		}
	}
	return 0, false
}

// sent is a command of a result.
type sent struct {
	to       openflow.DatapathID
	xid, own uint32 // given by the ledger, and by the application
}

// appendAsked appends the contents of an Asked record: for each command its sequence, whether it goes to the switch of
// the one before, else the switch, and the xid of the application.
func appendAsked(b []byte, list []sent) []byte {
	for i, s := range list {
		same := uint64(0)
		if i > 0 && s.to == list[i-1].to {
			same = 1
		}
		b = binary.AppendUvarint(b, uint64(s.xid&message.SequenceMask)<<1|same)
		if same == 0 {
			b = binary.BigEndian.AppendUint64(b, uint64(s.to))
		}
		b = binary.AppendUvarint(b, uint64(s.own))
	}
	return b
}

// asked applies an Asked record.
func (l *Log) asked(b []byte) error {
	r := reader{b: b}
	var sw *replayedSwitch
	for r.err == nil && len(r.b) > 0 {
		first := r.uvarint()
		if first&1 == 0 {
			sw = l.sw(openflow.DatapathID(r.uint64()))
			l.journal.add(change{kind: changedSwitch, sw: sw, was: *sw})
		}
		own := r.uvarint()
		if sw == nil || r.err != nil {
			return errRecord
		}
		sw.ask(uint32(first>>1)&message.SequenceMask, uint32(own))
	}
	return r.err
}
