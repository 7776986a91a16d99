package consensus

// Update is the next thing the owner must know. Exactly one field is set. The order of
// updates is the order of the log, with the changes of role in their places.
type Update struct {
	Entries  []Entry   // committed, in order
	Snapshot *Snapshot // replaces all state of the owner
	Role     *Role     // changed
}

// Entry is one committed proposal. Raft's own entries and changes of the membership do not
// appear, so indexes have gaps.
type Entry struct {
	Index uint64
	Term  uint64 // in which it was proposed
	Data  []byte // shared with the log: read-only
}

// Snapshot is the owner's own state, as it was handed to Compact here or at another member.
type Snapshot struct {
	Index uint64 // of the last entry it contains
	Term  uint64
	State []byte // shared with the log: read-only
}

// Role is what this member is in the group.
//
// Leading is true once in a term at most: after the last entry of all earlier terms and
// the first of this one, when the owner's state is the newest there is. From then on, and only
// then, proposals of this term are taken. When it turns false the owner must take every
// proposal which it has not yet seen committed as undecided: it may still come, as an entry
// like any other.
type Role struct {
	Term    uint64
	Leader  uint64 // 0: unknown
	Leading bool
}
