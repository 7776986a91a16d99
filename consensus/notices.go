package consensus

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// notices are a leader's appends without entries, at most one for each member. Most of them only announce the commit
// index. Raft sends one to every member after every entry, and each is answered, although the next entry announces the
// same. So while an entry is in flight, or entries are frequent, a notice is delayed until there are entries for the
// member, or a notice that need not wait, or the next tick. For raft it is a slow message.
type notices struct {
	waiting []wire.Message
	due     bool // a tick has come
	hurry   bool // a member that is to know early what is committed cannot know it by itself: see vouch
	now     int  // entries since the last tick
	before  int  // entries in the tick before that
}

// oftenEntries in two ticks count as frequent: then the next entry follows within a few milliseconds.
const oftenEntries = 8

// thin removes the notices that can wait from messages. entries is how many entries were appended with them; underway
// says that some entries are not committed.
func (n *notices) thin(messages []wire.Message, entries int, underway bool) []wire.Message {
	n.now += entries
	keep, hurried := messages[:0], false
	for _, m := range messages {
		if m.Raft.GetType() == raftpb.MsgApp {
			n.waiting = slices.DeleteFunc(n.waiting, func(
				w wire.Message) bool {
				return w.Raft.GetTo() == m.Raft.GetTo()
			})
			if len(m.Raft.GetEntries()) == 0 && !n.hurry && (underway || n.before+n.now >= oftenEntries) {
				n.waiting = append(n.waiting, m)
				continue
			}
			hurried = hurried || len(m.Raft.GetEntries()) == 0
		}
		keep = append(keep, m)
	}
	n.hurry = n.hurry && !hurried
	return keep
}

// tick makes the delayed notices due.
func (n *notices) tick() {
	n.due = len(n.waiting) > 0
	n.before, n.now = n.now, 0
}

// take returns the notices that are due.
func (n *notices) take() (due []wire.Message) {
	if n.due {
		due, n.waiting, n.due = n.waiting, nil, false
	}
	return due
}
