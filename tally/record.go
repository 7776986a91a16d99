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
	typ, in  Type
	kind     kind
	remote   bool // the other end lives in another group, and is not counted
	failed   bool
}

// records is equal messages that follow each other.
type records[ID comparable] struct {
	record[ID]
	n uint64
}

// transactions counts the transactions that are finished. Often one is like the last: then it is only compared, and the
// last one counts as often.
type transactions[ID comparable] struct {
	last  []records[ID] // of the last one
	times uint64        // it was finished, and is not counted
	// The present one. Until it differs from the last one, it is so many records of that, and of the next one so many
	// messages. Then it is pending.
	same    int
	within  uint64
	differs bool
	pending []records[ID]
	marked  int // the records before are not added to
}

func (t *transactions[ID]) record(r record[ID]) {
	if !t.differs {
		if t.same < len(t.last) && t.last[t.same].record == r {
			if t.within++; t.within == t.last[t.same].n {
				t.same, t.within = t.same+1, 0
			}
			return
		}
		t.differ()
	}
	if last := len(t.pending) - 1; last >= t.marked && r.kind == output && t.pending[last].record == r {
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
	t.pending = append(t.pending[:0], t.last[:t.same]...)
	if t.within > 0 {
		t.pending = append(t.pending, records[ID]{t.last[t.same].record, t.within})
	}
}

// begin begins the next transaction.
func (t *transactions[ID]) begin() { t.same, t.within, t.differs, t.marked = 0, 0, false, 0 }

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

// Refused records that an actor does not handle a message now, because it has handled too many: the message is dropped,
// or waits, and is an Input later.
func (t *Tally[ID]) Refused(a *Actor[ID], drop bool) {
	k := late
	if drop {
		k = dropped
	}
	t.record(record[ID]{to: a, kind: k})
}

// Mark returns a point within a transaction, for Failed.
func (t *Tally[ID]) Mark() int {
	if t.within > 0 {
		t.differ()
	}
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
		if r := t.pending[i]; r.kind == input {
			r.failed = true
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
	switch {
	case !t.differs && t.same == len(t.last) && t.within == 0:
		t.times++
	case t.differs || t.same > 0 || t.within > 0:
		t.differ()
		t.flush()
		t.last, t.pending, t.times = t.pending, t.last, 1
		if cap(t.pending) > maxPending {
			t.pending = nil
		}
	}
	t.begin()
	t.trim()
}

// flush counts the transactions that were only compared.
func (t *Tally[ID]) flush() {
	for i := range t.last {
		t.count(&t.last[i].record, t.last[i].n*t.times)
	}
	t.times = 0
}

func (t *Tally[ID]) count(r *record[ID], n uint64) {
	if n == 0 {
		return
	}
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
	case late:
		r.to.counts.Late += n
	case dropped:
		r.to.counts.Dropped += n
	}
}

func (t *Tally[ID]) countInput(r *record[ID], n uint64) {
	a := r.to
	cause := a.app.cause(r.typ)
	cause.handled(a, r.from, n)
	if r.failed {
		a.counts.Failures += n
		cause.failures += n
	}
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
