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
	ends[ID]
	label
}

// ends are between whom a message is.
type ends[ID comparable] struct{ from, to *Actor[ID] } // may be nil

// label is what a record has besides its ends, in one word, since records are compared for each message: the kind, the
// type of the message and that of its cause, some of the flags, and the Near from bit 48.
type label uint64

// Near names an actor at the switch whose event began the transaction: there, the same number is always the same actor.
// 0 names none. A message between the two is recognised by its label, without its ends, which need not be looked up.
type Near uint16

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

// of adds a Near to the label of a message, unless the message must not be recognised by that: the switch is not the
// owner, whose event began the transaction, or the actor is gone, and is to be looked up until it is in detail.
func (n Near) of(l label, isOwner, gone bool) label {
	if n == 0 || !isOwner || gone {
		return l
	}
	return l | label(n)<<48
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
// a list, because it is read for each message. That of an actor begins with an event of it, if it has any record; the
// sum of the others has none.
//
// The labels are apart from the ends, since most often only they are compared: those of an Actor share a line of the
// cache with what else is read of it for each message.
type shape[ID comparable] struct {
	n      int // how many records it has
	times  uint64
	labels [maxShape]label
	ends   [maxShape]ends[ID]
}

func (s *shape[ID]) at(i int) record[ID] { return record[ID]{s.ends[i], s.labels[i]} }

func (s *shape[ID]) append(r record[ID]) {
	s.labels[s.n], s.ends[s.n] = r.label, r.ends
	s.n++
}

// transactions counts the transactions that are finished. Often one is like the last of the same switch: then it is
// only compared, and the last one counts as often.
type transactions[ID comparable] struct {
	// The present one. Until it differs from last, it is so many records of that. Then it is pending.
	last    *shape[ID]
	same    int // or differs
	pending []records[ID]
	marked  int       // the records before are not added to
	unsent  shape[ID] // the last one that did not begin with an event of a switch
}

// differs is what transactions.same is of a transaction that is pending. It is less than any number of records, so one
// comparison tells both it and the end of the last transaction.
const differs = -1

func (t *transactions[ID]) record(from, to *Actor[ID], l label) {
	s := t.last
	if i := uint(t.same); i < uint(s.n) && s.labels[i] == l && s.ends[i] == (ends[ID]{from, to}) {
		t.same++
		return
	}
	t.append(record[ID]{ends[ID]{from, to}, l})
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
	if t.same == differs {
		return
	}
	t.pending = t.pending[:0]
	for i := range t.same {
		t.pending = append(t.pending, records[ID]{t.last.at(i), 1})
	}
	t.same = differs
}

// begin begins the next transaction.
func (t *transactions[ID]) begin() { t.last, t.same, t.marked = &t.unsent, 0, 0 }

// again reports whether the next record of the last transaction that an event of a switch began has that label. Then it
// is one of the present transaction, too.
func (t *transactions[ID]) again(owner *Actor[ID], l label) bool {
	s := t.last
	if i := uint(t.same); s == &owner.last && i < uint(s.n) && s.labels[i] == l {
		t.same++
		return true
	}
	return false
}

// owns reports whether an event of a switch has begun the transaction.
func (t *transactions[ID]) owns(a *Actor[ID]) bool { return a != nil && t.last == &a.last }

// Event records that a switch has sent an event. Input says who handles it.
func (t *Tally[ID]) Event(from *Actor[ID]) {
	if t.same == 0 && !from.gone {
		if t.last = &from.last; t.last.n > 0 { // it begins with such an event
			t.same = 1
			return
		}
	}
	t.record(from, nil, label(event))
}

// Input records that an actor handles a message of another one: nil for none. near is 0, or says who a is if from is a
// switch. remote: it comes from another group.
func (t *Tally[ID]) Input(a, from *Actor[ID], near Near, typ Type, remote bool) {
	t.record(from, a, near.of(labelOf(input, typ, 0, remote), t.owns(from), a.gone))
}

// InputAgain is Input if the last transaction of the switch went on like that, too. Otherwise it records nothing and
// returns false.
func (t *Tally[ID]) InputAgain(from *Actor[ID], near Near, typ Type) bool {
	return t.again(from, labelOf(input, typ, 0, false)|label(near)<<48)
}

// Output records that an actor sends a message because of another one, whose type is in. to is its receiver, which is
// nil if Input will say who handles it. near is 0, or says who a is if to is a switch. remote: the receiver lives in
// another group.
func (t *Tally[ID]) Output(a, to *Actor[ID], near Near, typ, in Type, remote bool) {
	t.record(a, to, near.of(labelOf(output, typ, in, remote), t.owns(to), a.gone))
}

// OutputAgain is Output if the last transaction of the switch went on like that, too. Otherwise it records nothing and
// returns false.
func (t *Tally[ID]) OutputAgain(to *Actor[ID], near Near, typ, in Type) bool {
	return t.again(to, labelOf(output, typ, in, false)|label(near)<<48)
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
	if t.marked = t.same; t.same == differs {
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
			t.rewind(mark)
			t.pending = append(t.pending, r)
			return
		}
	}
	t.rewind(mark)
}

// Rewind forgets what was recorded since a mark.
func (t *Tally[ID]) Rewind(mark int) {
	t.differ()
	t.rewind(mark)
}

// rewind forgets what is pending after a mark. If nothing is left, no event has begun the transaction any more.
func (t *transactions[ID]) rewind(mark int) {
	if t.pending = t.pending[:mark]; mark == 0 {
		t.last = &t.unsent
	}
}

// Abort forgets what was recorded since the last Commit or Abort.
func (t *Tally[ID]) Abort() { t.begin() }

// maxPending bounds the space for records that is kept for the next transaction.
const maxPending = 4096

// Commit counts what was recorded since the last Commit or Abort. Actors that were looked up may be Gone after it.
func (t *Tally[ID]) Commit() {
	if t.same == t.last.n {
		t.last.times++
		t.begin()
		return
	}
	t.replace()
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
				s.append(t.pending[i].record)
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
		r := s.at(i)
		t.count(&r, s.times)
	}
	s.times = 0
}

// flushAll is flush for the last transactions of all switches.
func (t *Tally[ID]) flushAll() {
	t.flush(&t.unsent)
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
