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

// record is a message. Records of equal messages that follow each other are one.
type record[ID comparable] struct {
	from, to *Actor[ID] // may be nil
	n        uint32
	typ, in  Type
	kind     kind
	remote   bool // the other end lives in another group, and is not counted
	failed   bool
}

func (t *Tally[ID]) record(r record[ID]) {
	if last := len(t.pending) - 1; last >= 0 && r.kind == output {
		if p := &t.pending[last]; p.kind == output && p.to == r.to && p.from == r.from && p.typ == r.typ &&
			p.in == r.in && p.remote == r.remote {
			p.n++
			return
		}
	}
	r.n = 1
	t.pending = append(t.pending, r)
}

// Event records that a switch has sent an event. Input says who handles it.
func (t *Tally[ID]) Event(from *Actor[ID]) { t.record(record[ID]{from: from, kind: event}) }

// Input records that an actor handles a message of another one: nil for none. remote: it comes from another group.
func (t *Tally[ID]) Input(a, from *Actor[ID], typ Type, remote bool) {
	t.record(record[ID]{from: from, to: a, typ: typ, remote: remote, kind: input})
}

// Output records that an actor sends a message because of another one, whose type is in. to is its receiver, which is
// nil if Input will say who handles it. remote: the receiver lives in another group.
func (t *Tally[ID]) Output(a, to *Actor[ID], typ, in Type, remote bool) {
	t.record(record[ID]{from: a, to: to, typ: typ, in: in, remote: remote, kind: output})
}

// Forwarded records that a message, which was counted as an event or an output of its sender, goes to an actor in
// another group.
func (t *Tally[ID]) Forwarded(from, to *Actor[ID]) {
	t.record(record[ID]{from: from, to: to, kind: forwarded})
}

// Accepted records that a switch accepts a command of an actor in another group.
func (t *Tally[ID]) Accepted(a, from *Actor[ID]) {
	t.record(record[ID]{from: from, to: a, kind: accepted})
}

// Mark returns a point within a transaction, for Failed.
func (t *Tally[ID]) Mark() int { return len(t.pending) }

// Failed undoes what was recorded since a mark, because a handler failed. What remains is the input that it failed on,
// the last one since the mark.
func (t *Tally[ID]) Failed(mark int) {
	for i := len(t.pending) - 1; i >= mark; i-- {
		if r := t.pending[i]; r.kind == input {
			r.failed = true
			t.pending = append(t.pending[:mark], r)
			return
		}
	}
	t.pending = t.pending[:mark]
}

// Rewind forgets what was recorded since a mark.
func (t *Tally[ID]) Rewind(mark int) { t.pending = t.pending[:mark] }

// Abort forgets what was recorded since the last Commit or Abort.
func (t *Tally[ID]) Abort() { t.pending = t.pending[:0] }

// maxPending bounds the space for records that is kept for the next transaction.
const maxPending = 4096

// Commit counts what was recorded since the last Commit or Abort. Actors that were looked up may be Gone after it.
func (t *Tally[ID]) Commit() {
	for i := range t.pending {
		t.count(&t.pending[i])
	}
	if cap(t.pending) > maxPending {
		t.pending = nil
	}
	t.pending = t.pending[:0]
	t.trim()
}

func (t *Tally[ID]) count(r *record[ID]) {
	n := uint64(r.n)
	switch r.kind {
	case event:
		r.from.sends(n)
	case input:
		t.countInput(r)
	case output:
		r.from.sends(n)
		r.from.app.cause(r.in).effect(r.typ, n)
		if r.to != nil {
			r.from.peers.with(r.to).Sent += n
			if !r.remote {
				t.local += n
				r.to.gets(r.from, n)
			}
		}
	case forwarded:
		r.from.peers.with(r.to).Sent++
	case accepted:
		r.to.gets(r.from, 1)
	}
}

func (t *Tally[ID]) countInput(r *record[ID]) {
	a := r.to
	cause := a.app.cause(r.typ)
	cause.handled(a, r.from)
	if r.failed {
		a.counts.Failures++
		cause.failures++
	}
	if r.from == nil || r.from == a {
		a.counts.Inputs++
		a.score += scoreOfMessage
		return
	}
	a.gets(r.from, 1)
	if !r.remote {
		t.local++
		r.from.peers.with(a).Sent++
	}
}

func (a *Actor[ID]) sends(n uint64) {
	a.counts.Outputs += n
	a.score += scoreOfMessage * n
}

func (a *Actor[ID]) gets(from *Actor[ID], n uint64) {
	a.counts.Inputs += n
	a.score += scoreOfMessage * n
	a.peers.with(from).Received += n
}
