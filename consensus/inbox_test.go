package consensus

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// A full inbox drops messages and never waits. It takes what a leader sends without an answer, and then one message of
// any size. When the loop has taken something, there is room again.
func TestFullInbox(t *testing.T) {
	b := newInbox()
	app := wire.Message{Raft: &raftpb.Message{Entries: []*raftpb.Entry{{Data: make([]byte, maxMessageSize)}}}}
	taken := 0
	for taken < 100 && b.message(app) {
		taken++
	}
	if taken*maxMessageSize < maxInflightBytes || taken == 100 {
		t.Errorf("%d messages of %d bytes", taken, maxMessageSize)
	}
	if b.hint(7); b.message(wire.Message{Raft: new(raftpb.Message)}) {
		t.Error("a heartbeat has room, and no entries have")
	}
	var all turn
	b.take(&all, true)
	if len(all.arrivals) != taken+1 || all.arrivals[taken].down != 7 {
		t.Errorf("%d arrivals after %d messages and a hint", len(all.arrivals), taken)
	}
	large := wire.Message{Raft: new(raftpb.Message), State: make([]byte, 2*maxQueuedBytes)}
	if !b.message(app) || !b.message(large) || b.message(app) {
		t.Error("an inbox that is not full does not take one message of any size, or more than one")
	}
	b.stop(ErrClosed)
	if !b.message(app) || len(b.arrivals) != 2 {
		t.Error("a node that has stopped complains, or keeps what comes")
	}
}
