package consensus

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// notices are appends of a leader without entries, one for each member at most: most of them only say what is committed. Raft
// makes one for every member after every entry, and each is answered, although the next entry says the same. So while
// entries are on their way a notice waits, until there are entries for the member, or a notice that does not wait, or the
// next tick. Raft takes it for one that is slow.
type notices struct {
	waiting []wire.Message
	due     bool // a tick has come
}

// thin takes out of messages what can wait. busy says that entries are on their way, which will be committed.
func (n *notices) thin(messages []wire.Message, busy bool) []wire.Message {
	keep := messages[:0]
	for _, m := range messages {
		if m.Raft.GetType() == raftpb.MsgApp {
			n.waiting = slices.DeleteFunc(n.waiting, func(w wire.Message) bool { return w.Raft.GetTo() == m.Raft.GetTo() })
			if busy && len(m.Raft.GetEntries()) == 0 {
				n.waiting = append(n.waiting, m)
				continue
			}
		}
		keep = append(keep, m)
	}
	return keep
}

// tick makes what waits due.
func (n *notices) tick() { n.due = len(n.waiting) > 0 }

// take returns what is due.
func (n *notices) take() []wire.Message {
	if !n.due {
		return nil
	}
	due := n.waiting
	*n = notices{}
	return due
}
