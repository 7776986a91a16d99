package path

// A path is written when a route begins to be installed for it, and once more, as a number, when its first switch is
// asked to let frames enter. What the switches have confirmed in between is not counted: the ops of a switch are
// confirmed in their order, so it is enough to know in which rows of ops a path waits.

// load returns a copy of a path.
func (v *visit) load(id uint64) (r row, there bool) {
	stored, there := v.paths.Get(v.tx, id)
	if there {
		r = *stored
		v.advance(id, &r)
	}
	return r, there
}

// advance makes a path as it is stored what it was when the handler began.
func (v *visit) advance(id uint64, r *row) {
	if r.Phase != laying {
		return
	}
	at, entering := v.enters.Get(v.tx, id)
	switch {
	case !entering:
	case v.line(r.Next.Hops[0].Switch).was.First > at:
		r.Live, r.Next, r.Lays, r.Phase = r.Next, nil, nil, steady
	default:
		r.enter(at)
	}
}

// enter notes that the first switch is asked to let frames take Next, by an op in a row.
func (r *row) enter(at uint64) { r.Phase, r.entersAt = entering, at }

// laidAll reports whether all hops of Next behind the first one are confirmed.
func (v *visit) laidAll(r *row) bool {
	for i, at := range r.Lays {
		if v.line(r.Next.hopBehind(i).Switch).First <= at {
			return false
		}
	}
	return true
}

// store writes a path.
func (v *visit) store(id uint64, r *row) {
	as := *r
	if as.Phase == entering {
		as.Phase = laying
		v.enters.Put(v.tx, id, r.entersAt)
	} else {
		v.enters.Delete(v.tx, id)
	}
	v.paths.Put(v.tx, id, &as)
}
