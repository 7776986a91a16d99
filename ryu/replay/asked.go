package replay

import (
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// asked is the xid that an application gave a command, whose answer has an xid of the ledger with that sequence.
type asked struct{ seq, xid uint32 }

// maxAsked bounds the newest commands of a switch whose answers get the application's xid back.
const maxAsked = 8192

// ask adds one, and returns the list with those that it leaves out shared: the old list may come back.
func (sw *hostedSwitch) ask(seq, xid uint32) {
	if len(sw.asked) >= 2*maxAsked {
		sw.asked = slices.Clone(sw.asked[len(sw.asked)-maxAsked:])
	}
	sw.asked = append(sw.asked, asked{seq, xid})
}

// newest are those whose answers get the application's xid.
func (sw *hostedSwitch) newest() []asked { return sw.asked[max(0, len(sw.asked)-maxAsked):] }

// askedAs returns the application's xid of the command that has this one of the ledger, if it is among the newest.
func (sw *hostedSwitch) askedAs(xid uint32) (uint32, bool) {
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
	xid, own uint32 // of the ledger, of the application
}

// appendAsked makes what an Asked record has: for each command its sequence and whether it goes to the switch of the
// one before; if not, that switch; and the application's xid.
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

// asked takes what an Asked record has.
func (l *Log) asked(b []byte) error {
	r := reader{b: b}
	var sw *hostedSwitch
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
