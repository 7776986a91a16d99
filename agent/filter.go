package agent

import (
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// filter is the agent's end of the stream of commands of one epoch. Each command passes to the switch once, in
// order. Barriers find out which commands the switch has executed, and only those are acknowledged.
type filter struct {
	out    []byte           // to be written to the switch
	passed stream.Watermark // the highest sequence that was appended to out
	done   uint64           // the highest sequence that the switch has executed

	version  uint8
	barriers bool   // the switch answers barriers, as far as is known
	answers  bool   // it has answered one
	asked    uint64 // the outstanding barrier follows this sequence
	xid      uint32 // of the outstanding barrier; 0 when there is none
	age      int    // of the outstanding barrier, in ticks in which the agent was not behind
	behind   int    // the others
	last     uint32 // xid of the last barrier, without its highest bit
}

// patience is the number of ticks after which an OpenFlow 1.0 switch that has never answered a barrier is taken for
// one that does not implement them. While the agent is behind, which may be why it has not seen the answer, it takes
// longer, but ends: the commands that are not done could be why the controllers take no events.
const (
	patience       = 3
	patienceBehind = 30
)

// barrierXIDs is the first of the transaction ids of barriers.
const barrierXIDs = handshake.OwnXID | 0x100

func newFilter(version uint8) filter { return filter{version: version, barriers: true} }

// pass forwards a command that the watermark has accepted, or one that is not numbered.
func (f *filter) pass(msg []byte) { f.out = append(f.out, msg...) }

// ask sends a barrier behind the commands that have passed, unless one is outstanding: then the next barrier follows
// when that is answered.
func (f *filter) ask() {
	if !f.barriers || f.xid != 0 || uint64(f.passed) == f.done {
		return
	}
	f.last++
	f.xid, f.asked, f.age, f.behind = barrierXIDs+f.last&0xffffff, uint64(f.passed), 0, 0
	request := of13.TypeBarrierRequest
	if f.version == openflow.Version10 {
		request = of10.TypeBarrierRequest
	}
	f.out = handshake.Bare(f.out, f.version, request, f.xid)
}

// answered takes the transaction id of a reply to the agent, and reports whether more commands are done. An ERROR for a
// barrier counts as its reply, since the switch handles messages in order.
func (f *filter) answered(xid uint32) bool {
	if f.xid == 0 || xid != f.xid {
		return false
	}
	f.done, f.xid = max(f.done, f.asked), 0
	f.barriers, f.answers = true, true // also if it was so late that it was not waited for any more
	f.ask()
	return true
}

// tick is to be called about once a second. It stops asking an OpenFlow 1.0 switch that does not answer barriers, and
// reports whether more commands count as done because of that. behind: messages of the switch wait to be taken.
func (f *filter) tick(behind bool) bool {
	if f.version != openflow.Version10 || f.xid == 0 || f.answers || !f.barriers {
		return false
	}
	if behind {
		f.behind++
	} else {
		f.age++
	}
	if f.age < patience && f.behind < patienceBehind {
		return false
	}
	f.barriers = false
	return len(f.out) == 0 && f.written()
}

// written says that out was written, and reports whether more commands are done. For a switch without barriers a
// command is done when it is written.
func (f *filter) written() bool {
	if f.barriers || f.done == uint64(f.passed) {
		return false
	}
	f.done = uint64(f.passed)
	return true
}
