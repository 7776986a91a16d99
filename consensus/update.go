package consensus

// Update is one element of the stream to the owner. At most one field is set. Updates are in log order, with role
// changes in their places among the entries. One without any field asks a leader's owner for a sign of life, which is
// that it takes the update: see HostConfig.Patience.
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

// Role is the role of this member in the group.
//
// Leading becomes true at most once in a term: after the last entry of all earlier terms, when the owner's state is up
// to date. Only from then on are proposals of this term accepted. When it becomes false,
// the outcome of every proposal that the owner has not seen committed is unknown: it may still be delivered as an
// entry.
type Role struct {
	Term    uint64
	Leader  uint64 // 0: unknown
	Leading bool
}
