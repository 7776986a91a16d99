package history

import "github.com/holdfast-sdn/holdfast/openflow"

// forgotten is the last command that a leader has discarded.
type forgotten struct {
	id         openflow.DatapathID
	epoch, seq uint64
}

// replayQueue counts the commands of a switch that a leader still has.
type replayQueue struct {
	id          openflow.DatapathID
	open        bool
	epoch       uint64
	first, next uint64
	dones       fifo[replayDone] // that the replay has not reached
}

// replayDone is a watermark of commands that are done.
type replayDone struct {
	epoch, seq uint64
	position   int
	term       uint64
}

func (r *replay) queue(id openflow.DatapathID) *replayQueue {
	q := r.queues[id]
	if q == nil {
		q = &replayQueue{id: id}
		r.queues[id] = q
		r.order = append(r.order, q)
	}
	return q
}

// reset ends an epoch and sets its queue.
func (r *replay) reset(id openflow.DatapathID, to replayQueue) {
	q := r.queue(id)
	to.id = id
	*q = to
}

// arrives sets the queue of a switch that has moved here.
func (r *replay) arrives(id openflow.DatapathID) {
	sw := r.model.switches[id]
	first := sw.queue.acked + 1
	r.reset(id, replayQueue{open: sw.live, epoch: sw.epoch, first: first, next: first + uint64(len(sw.queue.items))})
}

func (r *replay) pop(q *replayQueue) {
	done := q.dones.pop()
	q.first = max(q.first, done.seq+1)
	r.forget = append(r.forget, forgotten{q.id, done.epoch, done.seq})
}

// makeRoom decides how much of a queue was discarded by now, so that a command had room.
func (r *replay) makeRoom(q *replayQueue) error {
	for q.dones.len() > 0 && q.len() >= r.bound {
		r.pop(q)
	}
	if n := q.len() + 1; n > r.bound {
		return violated("switch %s, epoch %d: %d commands are logged and not done; the bound is %d", q.id, q.epoch, n,
			r.bound)
	}
	return nil
}

// full checks that a queue had no room when its epoch was closed.
func (r *replay) full(q *replayQueue) error {
	if n := q.len(); n < r.bound {
		return violated("switch %s: the ledger closes epoch %d when %d commands are not done; the bound is %d", q.id,
			q.epoch, n, r.bound)
	}
	return nil
}

func (q *replayQueue) len() int { return int(q.next - q.first) }
