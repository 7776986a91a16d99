package ledger

import "slices"

// asked is the xid that the hosted application gave a command.
type asked struct{ seq, xid uint32 }

// maxAsked bounds the newest commands of a switch whose answers get the application's xid back.
const maxAsked = 8192

// ask notes the xid of the last command to a switch.
func (sw *switchState) ask(xid uint32) {
	if keep := maxAsked + sw.queue.len(); len(sw.asked) >= 2*keep { // what is not complete may still be taken back
		sw.asked = slices.Clone(sw.asked[len(sw.asked)-keep:])
	}
	sw.asked = append(sw.asked, asked{uint32(sw.queue.next - 1), xid})
}

// unask takes back the note of a command, if there is one.
func (sw *switchState) unask(seq uint64) {
	if n := len(sw.asked); n > 0 && sw.asked[n-1].seq == uint32(seq) {
		sw.asked = sw.asked[:n-1]
	}
}

// askedAs returns the application's xid of the command that has this one of the ledger, if it is among the newest.
func (sw *switchState) askedAs(xid uint32) (uint32, bool) {
	newest := sw.asked[max(0, len(sw.asked)-maxAsked):]
	for i := len(newest) - 1; i >= 0; i-- {
		if newest[i].seq&sequenceMask == xid&sequenceMask {
			return newest[i].xid, true
		}
	}
	return 0, false
}
