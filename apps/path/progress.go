package path

// progress is that of a path whose row is laying: the number of Next, and how many hops of it are not confirmed, or
// that it has entered, if there was no Live before. If there is none, or one of another route, all hops wait.
type progress uint64

const (
	waitingBits = 20 // of a progress; a route and its backup have less than 200 hops, which may wait more than once
	hasEntered  = 1<<waitingBits - 1
)

func progressOf(route uint64, waiting int) uint64 { return route<<waitingBits | uint64(waiting) }

func (p progress) route() uint64 { return uint64(p) >> waitingBits }
func (p progress) waiting() int  { return int(p & hasEntered) }

// behindFirst is how many hops are confirmed before frames enter.
func (r *route) behindFirst() int { return len(r.Hops) - 1 + len(r.Backup) }

// load returns a copy of a path.
func (v *visit) load(id uint64) (r row, there bool) {
	stored, there := v.paths.Get(v.tx, id)
	if there {
		r = *stored
		v.advance(id, &r)
	}
	return r, there
}

// advance adds its progress to a path as it is stored.
func (v *visit) advance(id uint64, r *row) {
	if r.Phase != laying {
		return
	}
	r.waiting = v.unconfirmed(id, r.Next)
	switch r.waiting {
	case hasEntered:
		r.Live, r.Next, r.Phase = r.Next, nil, steady
	case 0:
		r.Phase = entering
	}
}

// unconfirmed returns how many hops of a route wait: all, as long as none is counted.
func (v *visit) unconfirmed(id uint64, next *route) int {
	if waiting, counted := v.counted(id, next); counted {
		return waiting
	}
	return next.behindFirst()
}

// counted returns how many hops of a route wait, if the progress of the path is that of the route.
func (v *visit) counted(id uint64, next *route) (waiting int, is bool) {
	p, there := v.progress.Get(v.tx, id)
	return progress(p).waiting(), there && progress(p).route() == next.Number
}

// store writes a path.
func (v *visit) store(id uint64, r *row) {
	as := *r
	if as.Phase == entering {
		as.Phase = laying
	}
	if as.Phase != laying {
		v.progress.Delete(v.tx, id)
	} else if _, counted := v.counted(id, r.Next); counted || r.waiting != r.Next.behindFirst() {
		v.progress.Put(v.tx, id, progressOf(r.Next.Number, r.waiting))
	}
	v.paths.Put(v.tx, id, &as)
}
