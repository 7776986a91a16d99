package consensus

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// notices are appends of a leader without entries, one for each member at most: most of them only say what is
// committed. Raft makes one for every member after every entry, and each is answered, although the next entry says the
// same. So while an entry is on its way, or they come often, a notice waits: until there are entries for the member, or
// a notice that does not wait, or the next tick. Raft takes it for one that is slow.
type notices struct {
	waiting []wire.Message
	due     bool // a tick has come
	now     int  // entries since the last tick
	before  int  // and between that one and the one before
}

// oftenEntries in two ticks are many: a leader with so much to do makes the next one within a few milliseconds.
const oftenEntries = 8

// thin takes out of messages what can wait. entries were appended with them, and underway says that some are not
// committed.
func (n *notices) thin(messages []wire.Message, entries int, underway bool) []wire.Message {
	n.now += entries
	keep := messages[:0]
	for _, m := range messages {
		if m.Raft.GetType() == raftpb.MsgApp {
			n.waiting = slices.DeleteFunc(n.waiting, func(
				w wire.Message) bool {
				return w.Raft.GetTo() == m.Raft.GetTo()
			})
			if len(m.Raft.GetEntries()) == 0 && (underway || n.before+n.now >= oftenEntries) {
				n.waiting = append(n.waiting, m)
				continue
			}
		}
		keep = append(keep, m)
	}
	return keep
}

// tick makes what waits due.
func (n *notices) tick() {
	n.due = len(n.waiting) > 0
	n.before, n.now = n.now, 0
}

// take returns what is due.
func (n *notices) take() (due []wire.Message) {
	if n.due {
		due, n.waiting, n.due = n.waiting, nil, false
	}
	return due
}
