// Package filter is the last station of commands on their way to a switch, as a pure state
// machine: each sequence passes once, in order, and barriers find out what the switch has
// executed. The agent uses it. Fencing and epochs are its caller's.
package filter

import (
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Filter is the state of one epoch of a switch.
type Filter struct {
	Out       []byte // to be written to the switch; the caller takes it
	Forwarded uint64 // the highest sequence that passed
	Done      uint64 // the highest that the switch has executed

	version  uint8
	barriers bool   // the switch answers barriers, as far as we know
	answers  bool   // it did answer one
	asked    uint64 // what the outstanding barrier is for
	xid      uint32 // of the outstanding barrier; 0 when there is none
	age      int    // of the outstanding barrier, in ticks
	last     uint32 // xid of the last barrier, without its highest bit
}

// patience is for how many ticks an OpenFlow 1.0 switch may leave its first barrier
// unanswered until it is taken for one that answers none.
const patience = 3

// barrierXIDs is where the transaction ids of barriers begin.
const barrierXIDs = handshake.OwnXID | 0x100

// New starts an epoch.
func New(version uint8) Filter { return Filter{version: version, barriers: true} }

// Pass lets through the command with sequence Forwarded+1.
func (f *Filter) Pass(msg []byte) {
	f.Out = append(f.Out, msg...)
	f.Forwarded++
}

// Ask sends a barrier for what has passed, unless the answer to an earlier one is to come.
func (f *Filter) Ask() {
	if !f.barriers || f.xid != 0 || f.Forwarded == f.Done {
		return
	}
	f.last++
	f.xid, f.asked, f.age = barrierXIDs+f.last&0xffffff, f.Forwarded, 0
	request := of13.TypeBarrierRequest
	if f.version == openflow.Version10 {
		request = of10.TypeBarrierRequest
	}
	f.Out = handshake.Bare(f.Out, f.version, request, f.xid)
}

// Answered takes the transaction id of an answer to a message of Holdfast's own, and reports
// whether more commands are done. A barrier that was refused had its place in the order too.
func (f *Filter) Answered(xid uint32) bool {
	if f.xid == 0 || xid != f.xid {
		return false
	}
	f.Done, f.xid, f.answers = f.asked, 0, true
	f.Ask()
	return true
}

// Tick is for about once a second. It gives up on an OpenFlow 1.0 switch that answers no
// barrier, and reports whether that made more commands done.
func (f *Filter) Tick() bool {
	if f.version != openflow.Version10 || f.xid == 0 || f.answers {
		return false
	}
	if f.age++; f.age < patience {
		return false
	}
	f.barriers, f.xid = false, 0
	return f.Written()
}

// Written says that Out was written, and reports whether that made more commands done: it does when barriers
// were given up.
func (f *Filter) Written() bool {
	if f.barriers || f.Done == f.Forwarded {
		return false
	}
	f.Done = f.Forwarded
	return true
}
