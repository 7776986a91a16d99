package tally

// What a transaction does is recorded, and counted when the transaction is finished, because it may be undone.

type kind uint8

const (
	event     kind = iota // from has sent it, whoever handles it
	input                 // to handles a message of from
	output                // from, which handles in, sends it to to, or to whoever handles it
	forwarded             // from has sent it to to, which lives in another group
	accepted              // to has got a message of from, which lives in another group
)

// record is a message, or several equal ones that follow each other.
type record[ID comparable] struct {
	from, to *Actor[ID] // may be nil
	kind     kind
	remote   bool // the other end lives in another group, and is not counted
	typ, in  Type // of the message, and of its cause
	n        uint64
}

// transaction has what the present transaction does.
type transaction[ID comparable] struct {
	pending []record[ID]
	marked  int // the records before are not added to
}

func (t *transaction[ID]) record(r record[ID]) {
	if last := len(t.pending) - 1; last >= t.marked && r.kind == output {
		p := &t.pending[last]
		if p.from == r.from && p.to == r.to && p.kind == r.kind && p.remote == r.remote && p.typ == r.typ &&
			p.in == r.in {
			p.n++
			return
		}
	}
	r.n = 1
	t.pending = append(t.pending, r)
}

// Event records that a switch has sent an event. Input says who handles it.
func (t *Tally[ID]) Event(from *Actor[ID]) { t.record(record[ID]{kind: event, from: from}) }

// Input records that an actor handles a message of another one: nil for none. remote: it comes from another group.
func (t *Tally[ID]) Input(a, from *Actor[ID], typ Type, remote bool) {
	t.record(record[ID]{kind: input, from: from, to: a, typ: typ, remote: remote})
}

// Output records that an actor sends a message because of another one, whose type is in. to is its receiver, which is
// nil if Input will say who handles it. remote: the receiver lives in another group.
func (t *Tally[ID]) Output(a, to *Actor[ID], typ, in Type, remote bool) {
	t.record(record[ID]{kind: output, from: a, to: to, typ: typ, in: in, remote: remote})
}

// Forwarded records that a message, which was counted as an event or an output of its sender, goes to an actor in
// another group.
func (t *Tally[ID]) Forwarded(from, to *Actor[ID]) {
	t.record(record[ID]{kind: forwarded, from: from, to: to})
}

// Accepted records that a switch accepts a command of an actor in another group.
func (t *Tally[ID]) Accepted(a, from *Actor[ID]) {
	t.record(record[ID]{kind: accepted, from: from, to: a})
}

// Mark returns a point within a transaction, for Rewind and KeepInput.
func (t *Tally[ID]) Mark() int {
	t.marked = len(t.pending)
	return t.marked
}

// Rewind forgets what was recorded since a mark.
func (t *Tally[ID]) Rewind(mark int) { t.pending = t.pending[:mark] }

// KeepInput forgets what was recorded since a mark, because a handler failed, but for the input that it failed on: the
// last one since the mark.
func (t *Tally[ID]) KeepInput(mark int) {
	for i := len(t.pending) - 1; i >= mark; i-- {
		if r := t.pending[i]; r.kind == input {
			t.pending = append(t.pending[:mark], r)
			return
		}
	}
	t.Rewind(mark)
}

// Abort forgets what was recorded since the last Commit or Abort.
func (t *Tally[ID]) Abort() { t.pending, t.marked = t.pending[:0], 0 }

// maxPending bounds the space for records that is kept for the next transaction.
const maxPending = 4096

// Commit counts what was recorded since the last Commit or Abort n times: the transaction stands for n, see Sampling.
// Actors that were looked up may be Gone after it.
func (t *Tally[ID]) Commit(n int) {
	for i := range t.pending {
		r := &t.pending[i]
		t.count(r, r.n*uint64(n))
	}
	if cap(t.pending) > maxPending {
		t.pending = nil
	}
	t.Abort() // it is counted
	if len(t.actors) > MaxActors {
		t.trim()
	}
}

func (t *Tally[ID]) count(r *record[ID], n uint64) {
	switch r.kind {
	case event:
		r.from.sends(n)
	case input:
		t.countInput(r, n)
	case output:
		r.from.sends(n)
		r.from.app.cause(r.in).effect(r.typ, n)
		if r.to != nil {
			r.from.peers.with(r.to, n).Sent += n
			if !r.remote {
				t.local += n
				r.to.gets(r.from, n)
			}
		}
	case forwarded:
		r.from.peers.with(r.to, n).Sent += n
	case accepted:
		r.to.gets(r.from, n)
	}
}

func (t *Tally[ID]) countInput(r *record[ID], n uint64) {
	a := r.to
	a.app.cause(r.typ).handled(a, r.from, n)
	if r.from == nil || r.from == a {
		a.counts.Inputs += n
		a.score += scoreOfMessage * n
		return
	}
	a.gets(r.from, n)
	if !r.remote {
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

// Failed counts that an actor has failed on an input of a type. It is not undone by Abort, and stands for itself only.
func (t *Tally[ID]) Failed(a *Actor[ID], typ Type) {
	a.counts.Failures++
	a.app.cause(typ).failures++
}

// Refused counts that an actor does not handle a message now, because it has handled too many: the message is dropped,
// or waits, and is an Input later. It is not undone by Abort, and stands for itself only.
func (t *Tally[ID]) Refused(a *Actor[ID], drop bool) {
	if drop {
		a.counts.Dropped++
	} else {
		a.counts.Late++
	}
}
