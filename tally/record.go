package tally

// What a transaction does is recorded, and counted when the transaction is finished, because it may be undone.

type kind uint8

const (
	event     kind = iota // from has sent it, whoever handles it
	input                 // to handles a message of from
	output                // from, which handles in, sends it to to, or to whoever handles it
	forwarded             // from has sent it to to, which lives in another group
	accepted              // to has got a message of from, which lives in another group
	late                  // a message waits for to, because it has handled too many
	dropped               // nobody handles a message for to, because it has handled too many
)

// record is a message.
type record[ID comparable] struct {
	from, to *Actor[ID] // may be nil
	label
}

// label is what a record has besides its ends, in one word, since records are compared for each message: the kind, the
// type of the message and that of its cause, and some of the flags.
type label uint64

const (
	remote label = 1 << 8 // the other end lives in another group, and is not counted
	failed label = 1 << 9
)

func labelOf(k kind, typ, in Type, isRemote bool) label {
	l := label(k) | label(typ)<<16 | label(in)<<32
	if isRemote {
		l |= remote
	}
	return l
}

func (l label) kind() kind          { return kind(l) }
func (l label) typ() Type           { return Type(l >> 16) }
func (l label) in() Type            { return Type(l >> 32) }
func (l label) has(flag label) bool { return l&flag != 0 }

// records is equal messages that follow each other.
type records[ID comparable] struct {
	record[ID]
	n uint64
}

// maxShape bounds the records of a transaction with which others are compared. A longer one is counted at once.
const maxShape = 6

// shape is a transaction that was finished, and how often it was without being counted. It is in its actor, and not in
// a list, because it is read for each message.
type shape[ID comparable] struct {
	n       int // how many records it has
	times   uint64
	records [maxShape]record[ID]
}

// transactions counts the transactions that are finished. Often one is like the last of the same switch: then it is
// only compared, and the last one counts as often.
type transactions[ID comparable] struct {
	unsent shape[ID] // the last one that did not begin with an event of a switch
	// The present one. Until it differs from last, it is so many records of that. Then it is pending.
	last    *shape[ID]
	same    int
	differs bool
	pending []records[ID]
	marked  int // the records before are not added to
}

func (t *transactions[ID]) record(from, to *Actor[ID], l label) {
	if s := t.last; !t.differs && t.same < s.n && s.records[t.same] == (record[ID]{from, to, l}) {
		t.same++
		return
	}
	t.append(record[ID]{from, to, l})
}

// append records a message that differs from the last transaction, or follows one that does.
func (t *transactions[ID]) append(r record[ID]) {
	t.differ()
	if last := len(t.pending) - 1; last >= t.marked && r.kind() == output && t.pending[last].record == r {
		t.pending[last].n++
		return
	}
	t.pending = append(t.pending, records[ID]{r, 1})
}

// differ makes pending what the present transaction consists of.
func (t *transactions[ID]) differ() {
	if t.differs {
		return
	}
	t.differs = true
	t.pending = t.pending[:0]
	for _, r := range t.last.records[:t.same] {
		t.pending = append(t.pending, records[ID]{r, 1})
	}
}

// begin begins the next transaction.
func (t *transactions[ID]) begin() { t.last, t.same, t.differs, t.marked = &t.unsent, 0, false, 0 }

// Event records that a switch has sent an event. Input says who handles it.
func (t *Tally[ID]) Event(from *Actor[ID]) {
	if t.same == 0 && !t.differs {
		t.last = &from.last
	}
	t.record(from, nil, label(event))
}

// Input records that an actor handles a message of another one: nil for none. remote: it comes from another group.
func (t *Tally[ID]) Input(a, from *Actor[ID], typ Type, remote bool) {
	t.record(from, a, labelOf(input, typ, 0, remote))
}

// Output records that an actor sends a message because of another one, whose type is in. to is its receiver, which is
// nil if Input will say who handles it. remote: the receiver lives in another group.
func (t *Tally[ID]) Output(a, to *Actor[ID], typ, in Type, remote bool) {
	t.record(a, to, labelOf(output, typ, in, remote))
}

// Forwarded records that a message, which was counted as an event or an output of its sender, goes to an actor in
// another group.
func (t *Tally[ID]) Forwarded(from, to *Actor[ID]) { t.record(from, to, label(forwarded)) }

// Accepted records that a switch accepts a command of an actor in another group.
func (t *Tally[ID]) Accepted(a, from *Actor[ID]) { t.record(from, a, label(accepted)) }

// Refused records that an actor does not handle a message now, because it has handled too many: the message is dropped,
// or waits, and is an Input later.
func (t *Tally[ID]) Refused(a *Actor[ID], drop bool) {
	k := late
	if drop {
		k = dropped
	}
	t.record(nil, a, label(k))
}

// Mark returns a point within a transaction, for Failed.
func (t *Tally[ID]) Mark() int {
	if t.marked = t.same; t.differs {
		t.marked = len(t.pending)
	}
	return t.marked
}

// Failed undoes what was recorded since a mark, because a handler failed. What remains is the input that it failed on,
// the last one since the mark.
func (t *Tally[ID]) Failed(mark int) {
	t.differ()
	for i := len(t.pending) - 1; i >= mark; i-- {
		if r := t.pending[i]; r.kind() == input {
			r.label |= failed
			t.pending = append(t.pending[:mark], r)
			return
		}
	}
	t.pending = t.pending[:mark]
}

// Rewind forgets what was recorded since a mark.
func (t *Tally[ID]) Rewind(mark int) {
	t.differ()
	t.pending = t.pending[:mark]
}

// Abort forgets what was recorded since the last Commit or Abort.
func (t *Tally[ID]) Abort() { t.begin() }

// maxPending bounds the space for records that is kept for the next transaction.
const maxPending = 4096

// Commit counts what was recorded since the last Commit or Abort. Actors that were looked up may be Gone after it.
func (t *Tally[ID]) Commit() {
	if !t.differs && t.same == t.last.n {
		t.last.times++
	} else {
		t.replace()
	}
	t.begin()
	if len(t.actors) > MaxActors {
		t.trim()
	}
}

// replace makes the present transaction the last one, unless it is too long.
func (t *Tally[ID]) replace() {
	t.differ()
	var n uint64
	for i := range t.pending {
		n += t.pending[i].n
	}
	switch s := t.last; {
	case n > maxShape:
		for i := range t.pending {
			t.count(&t.pending[i].record, t.pending[i].n)
		}
	case n > 0:
		t.flush(s)
		s.n, s.times = 0, 1
		for i := range t.pending {
			for range t.pending[i].n {
				s.records[s.n] = t.pending[i].record
				s.n++
			}
		}
	}
	if cap(t.pending) > maxPending {
		t.pending = nil
	}
}

// flush counts the transactions that were only compared with one.
func (t *Tally[ID]) flush(s *shape[ID]) {
	if s.times == 0 {
		return
	}
	for i := range s.n {
		t.count(&s.records[i], s.times)
	}
	s.times = 0
}

// flushAll is flush for the last transactions of all switches.
func (t *Tally[ID]) flushAll() {
	t.flush(&t.unsent)
	t.flush(&t.others.last)
	for _, a := range t.actors {
		t.flush(&a.last)
	}
}

func (t *Tally[ID]) count(r *record[ID], n uint64) {
	switch r.kind() {
	case event:
		r.from.sends(n)
	case input:
		t.countInput(r, n)
	case output:
		r.from.sends(n)
		r.from.app.cause(r.in()).effect(r.typ(), n)
		if r.to != nil {
			r.from.peers.with(r.to, n).Sent += n
			if !r.has(remote) {
				t.local += n
				r.to.gets(r.from, n)
			}
		}
	case forwarded:
		r.from.peers.with(r.to, n).Sent += n
	case accepted:
		r.to.gets(r.from, n)
	case late:
		r.to.counts.Late += n
	case dropped:
		r.to.counts.Dropped += n
	}
}

func (t *Tally[ID]) countInput(r *record[ID], n uint64) {
	a := r.to
	cause := a.app.cause(r.typ())
	cause.handled(a, r.from, n)
	if r.has(failed) {
		a.counts.Failures += n
		cause.failures += n
	}
	if r.from == nil || r.from == a {
		a.counts.Inputs += n
		a.score += scoreOfMessage * n
		return
	}
	a.gets(r.from, n)
	if !r.has(remote) {
		t.local += n
		r.from.peers.with(a, n).Sent += n
	}
}

func (a *Actor[ID]) sends(n uint64) {
	a.counts.Outputs += n
	a.score += scoreOfMessage * n
}

func (a *Actor[ID]) gets(from *Actor[ID], n uint64) {
	a.counts.Inputs += n
	a.score += scoreOfMessage * n
	a.peers.with(from, n).Received += n
}
