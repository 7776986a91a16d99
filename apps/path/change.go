package path

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// phase is what a path waits for.
type phase uint8

const (
	laying   phase = iota + 1 // the switches of Next behind the first one
	entering                  // the first switch, to let frames take Next
	steady                    // nothing: frames take Live
	leaving                   // the first switch, to let no more frames take the path
	refused                   // nothing of it is installed
)

// row is a path. While Next is being installed it does not change: see load.
type row struct {
	_          struct{} `cbor:",toarray"`
	Path       model.Path
	Phase      phase // as it is stored, entering is laying
	Live, Next *route
	Lays       []uint64 // the rows of ops in which the hops of Next wait, as behind has them
	Why        string   // it is refused, or Live is broken

	entersAt uint64 // the row of ops in which its first hop waits, while it is entering
}

// retired is a route that no more frames take.
type retired struct {
	_     struct{} `cbor:",toarray"`
	Path  uint64
	Route route
	Due   int64 // when no frame is on it any more
}

// install installs a route for a path, beside the one that it has.
func (v *visit) install(id uint64, r *row, next *route) {
	ops := next.behind(lay, id)
	r.Next, r.Phase, r.Lays = next, laying, make([]uint64, 0, len(ops))
	for i := range ops {
		r.Lays = append(r.Lays, v.push(&ops[i]))
	}
	if len(ops) == 0 {
		r.enter(v.pushEnter(id, next))
	}
}

// op is what is done at hop i of Hops.
func (r *route) op(k kind, path uint64, i int) op {
	o := op{Kind: k, Path: path, Route: r.Number, Hop: r.Hops[i], Tag: r.Tag, Last: i == len(r.Hops)-1}
	if r.Backup != nil && !o.Last {
		o.Backup, o.BackupTag = o.Hop.In, r.BackupTag
		if i == 0 {
			o.Backup = r.Backup[len(r.Hops)-2].Out
		}
	}
	return o
}

// behind is what is done behind the entry of the first switch: from the far end on, then along the backup.
func (r *route) behind(k kind, path uint64) []op {
	ops := make([]op, 0, len(r.Hops)-1+len(r.Backup))
	for i := len(r.Hops) - 1; i > 0; i-- {
		ops = append(ops, r.op(k, path, i))
	}
	for i, h := range r.Backup {
		ops = append(ops, op{Kind: k, Path: path, Route: r.Number, Hop: h, Tag: r.BackupTag,
			Last: i == len(r.Backup)-1})
	}
	return ops
}

// hopBehind is the hop of an op of behind.
func (r *route) hopBehind(i int) *hop {
	if last := len(r.Hops) - 1; i < last {
		return &r.Hops[last-i]
	}
	return &r.Backup[i-len(r.Hops)+1]
}

// pushEnter lets frames take the route that is complete, and returns the row in which that waits.
func (v *visit) pushEnter(id uint64, next *route) uint64 {
	o := next.op(enter, id, 0)
	return v.push(&o)
}

// laid goes on with a path when a switch has executed a lay. That is most of what is confirmed, so it copies nothing.
func (v *visit) laid(o *op) {
	r, there := v.paths.Get(v.tx, o.Path)
	if !there || r.Phase != laying { // of a route before it does not matter: its rows come first
		return
	}
	if !v.laidAll(r) {
		return
	}
	if _, entering := v.enters.Get(v.tx, o.Path); !entering {
		v.enters.Put(v.tx, o.Path, v.pushEnter(o.Path, r.Next))
	}
}

// done goes on with a path when a switch has executed something for it, or has not: why says why.
func (v *visit) done(o *op, why string) {
	switch {
	case o.Kind == erase:
		v.tags.Delete(v.tx, o.Hop.entrance(), uint32(o.Tag))
		return
	case o.Kind == lay && why == "":
		v.laid(o)
		return
	}
	r, there := v.load(o.Path)
	next := there && r.Next != nil && r.Next.Number == o.Route
	switch {
	case o.Kind == leave && there:
		v.left(o.Path, &r)
	case o.Kind == lay && next && r.Phase == laying:
		v.giveUp(o.Path, &r, why)
	case o.Kind == enter && next && r.Phase == entering && why == "":
		v.entered(o.Path, &r)
	case o.Kind == enter && next && r.Phase == entering && r.Live == nil:
		v.takeBack(o.Path, &r, why)
	case o.Kind == enter && next && r.Phase == entering:
		v.giveUp(o.Path, &r, why)
	case why != "" && there && r.Phase == steady && r.Live.Number == o.Route: // it was to be installed again
		v.takeBack(o.Path, &r, why)
	}
}

// entered: every new frame takes Next.
func (v *visit) entered(id uint64, r *row) {
	was := r.Live
	r.Live, r.Next, r.Lays, r.Phase, r.Why = r.Next, nil, nil, steady, ""
	if was != nil { // else the row of the first switch says it
		v.retire(id, was)
		v.store(id, r)
	}
	v.tell(r)
	if !v.complete(r.Live) { // a link may have gone, or come, meanwhile
		v.look(id)
	}
}

// giveUp removes the route that a path was to have.
func (v *visit) giveUp(id uint64, r *row, why string) {
	next := r.Next
	r.Next, r.Lays, r.Why, r.Phase = nil, nil, why, steady
	switch {
	case r.Live == nil:
		r.Phase = refused
	case v.complete(r.Live):
		r.Why = ""
	case v.intact(r.Live): // it needed another backup only
		live := *r.Live // which others may read
		live.Bare = why
		r.Live, r.Why = &live, ""
		v.broken.Put(v.tx, all, id, true)
	default:
		v.broken.Put(v.tx, all, id, true)
	}
	v.retire(id, next) // a few frames may have taken it
	v.store(id, r)
	v.tell(r)
}

// takeBack ends a path at its first switch. The other ones follow when that is confirmed.
func (v *visit) takeBack(id uint64, r *row, why string) {
	r.Phase, r.Why = leaving, why
	v.store(id, r)
	first := r.Live
	if first == nil {
		first = r.Next
	}
	o := first.op(leave, id, 0)
	v.push(&o)
}

// left: no more frames take the path.
func (v *visit) left(id uint64, r *row) {
	for _, old := range []*route{r.Live, r.Next} {
		if old != nil {
			v.retire(id, old)
		}
	}
	r.Live, r.Next, r.Lays, r.Phase = nil, nil, nil, refused
	if r.Why == "" {
		v.forget(id, r)
		return
	}
	v.store(id, r)
	v.tell(r)
}

// forget deletes a path of which nothing is left.
func (v *visit) forget(id uint64, r *row) {
	v.paths.Delete(v.tx, id)
	v.enters.Delete(v.tx, id)
	v.names.Delete(v.tx, all, r.Path.Name)
	v.todo.Delete(v.tx, all, id)
	v.broken.Delete(v.tx, all, id)
	v.c.Paths--
	v.fail(app.Emit(v.tx, model.PathState{Name: r.Path.Name, State: model.Gone}))
}

// retire removes a route when no frame can be on it any more.
func (v *visit) retire(id uint64, r *route) {
	if len(r.Hops) == 1 {
		return
	}
	first := true
	for range v.drains.All(v.tx, all) {
		first = false // the timer is set
		break
	}
	v.drains.Put(v.tx, all, v.number(), retired{Path: id, Route: *r, Due: v.tx.Now().Add(drain).UnixNano()})
	if first {
		v.set(timerDrain, drain)
	}
}

// drained removes routes that have been retired for long enough.
func (v *visit) drained() {
	n, now := 0, v.tx.Now().UnixNano()
	for number, d := range v.drains.All(v.tx, all) {
		if n++; n > maxTurn || len(v.lines) > maxLines || d.Due > now {
			v.set(timerDrain, time.Duration(max(1, d.Due-now)))
			return
		}
		v.drains.Delete(v.tx, all, number)
		v.erase(d.Path, &d.Route)
	}
}

// erase removes the entries for the tag of a route, which no frame has.
func (v *visit) erase(id uint64, r *route) {
	ops := r.behind(erase, id)
	for i := range ops {
		v.push(&ops[i])
	}
}

// look has a path looked at soon.
func (v *visit) look(id uint64) {
	v.todo.Put(v.tx, all, id, true)
	v.await(quiet)
}

// await has a turn follow, unless one is to come: so what happens all the time does not postpone it for ever. One that
// is long overdue has failed.
func (v *visit) await(after time.Duration) {
	now := v.tx.Now()
	if v.c.Turn == 0 || now.UnixNano() > v.c.Turn+int64(time.Second) {
		v.c.Turn = now.Add(after).UnixNano()
		v.set(timerTurn, after)
	}
}

// turn looks at paths whose links have changed, and at those that wait for a change. It reports whether there are more.
func (v *visit) turn() (more bool) {
	if !v.abandon() {
		return true
	}
	n := 0
	for id := range v.todo.All(v.tx, all) {
		if n++; n > maxTurn || len(v.lines) > maxLines {
			return true
		}
		v.todo.Delete(v.tx, all, id)
		v.broken.Delete(v.tx, all, id)
		if r, there := v.load(id); there {
			v.review(id, &r)
		}
	}
	return false
}

// review finds another route for a path if its own is broken.
func (v *visit) review(id uint64, r *row) {
	switch {
	case r.Phase == laying && !v.intact(r.Next):
		v.giveUp(id, r, "a link went down meanwhile")
		v.look(id)
		return
	case r.Phase != steady:
		return
	case v.forgotten(r.Live.Hops[0].Switch):
		r.Why = fmt.Sprintf("switch %v, where it begins, is forgotten", r.Live.Hops[0].Switch)
		v.left(id, r)
		return
	}
	was := r.Why
	if r.Why = ""; !v.complete(r.Live) {
		next, err := v.find(&r.Path)
		if err == nil && !(v.intact(r.Live) && r.Live.Bare != "" && next.Bare != "") { // which would be no better
			if err = v.reserve(id, &next); err == nil {
				v.install(id, r, &next)
				v.store(id, r)
				return
			}
		}
		if err != nil && !v.intact(r.Live) {
			r.Why = err.Error()
		}
		v.broken.Put(v.tx, all, id, true)
	}
	if r.Why != was {
		v.store(id, r)
		v.tell(r)
	}
}

// removed has a switch install again what somebody else has removed there.
func (v *visit) removed(m model.Removed) error {
	r, there := v.load(m.ID)
	if m.Owner != Name || !there {
		return nil
	}
	for _, way := range []*route{r.Next, r.Live} {
		if way == nil {
			continue
		}
		ops := way.behind(lay, m.ID)
		for i := range ops {
			if ops[i].Hop.Switch != m.Switch {
				continue
			}
			if at := v.push(&ops[i]); way == r.Next && r.Phase == laying {
				r.Lays = slices.Clone(r.Lays) // which others may read
				r.Lays[i] = at
				v.store(m.ID, &r)
			}
		}
		if way == r.Live && r.Phase == steady && way.Hops[0].Switch == m.Switch { // else frames do not enter
			o := way.op(enter, m.ID, 0)
			v.push(&o)
		}
	}
	return nil
}

// state is what a path is for frames.
func (r *row) state() model.State {
	switch {
	case r.Phase == refused:
		return model.Refused
	case r.Phase == leaving:
		return model.Removing
	case r.Live == nil:
		return model.Installing
	case r.Why != "":
		return model.Broken
	case r.Live.Bare != "":
		return model.Bare
	}
	return model.Up
}

func (v *visit) tell(r *row) {
	v.fail(app.Emit(v.tx, model.PathState{Name: r.Path.Name, State: r.state(), Why: r.reason()}))
}

// reason is why a path is not as it is to be.
func (r *row) reason() string {
	if r.state() == model.Bare {
		return r.Live.Bare
	}
	return r.Why
}

// waits reports whether an op waits for a switch that is down, unless that is forgotten: removals do, and what a path
// is to have that is there. Nobody knows whether the switch has executed what it did not confirm.
func (v *visit) waits(o *op) bool {
	if v.forgotten(o.Hop.Switch) {
		return false
	}
	if o.Kind == erase || o.Kind == leave {
		return true
	}
	r, there := v.load(o.Path)
	return there && r.Live != nil && (o.Kind == enter || r.Live.Number == o.Route)
}

// add begins to install a path that is valid. The error says why that is not possible, and nothing has happened then.
func (v *visit) add(asked *model.Path) (*row, error) {
	r := &row{Path: *asked}
	p := &r.Path
	if p.Priority == 0 {
		p.Priority = model.DefaultPriority
	}
	before, there := v.names.Get(v.tx, all, p.Name)
	if there {
		old, _ := v.load(before)
		if old.Phase != refused {
			if same(&old.Path, p) && old.Phase != leaving {
				return &old, nil
			}
			return nil, fmt.Errorf("path %s has another definition, or is being removed: delete it, and wait until it "+
				"is gone", p.Name)
		}
	} else if v.c.Paths >= MaxPaths {
		return nil, fmt.Errorf("there are %d paths, and at most %d are possible: delete some", v.c.Paths, MaxPaths)
	}
	if len(v.lines) > maxLines {
		return nil, fmt.Errorf("the paths before it cross %d switches: put it in another request", len(v.lines))
	}
	next, err := v.find(p)
	if err != nil {
		return nil, err
	}
	for _, hops := range [...][]hop{next.Hops, next.Backup} {
		for _, h := range hops {
			l := v.line(h.Switch)
			if n := l.Waiting + len(l.fresh); n >= MaxQueue {
				return nil, fmt.Errorf("switch %v has %d changes to confirm: try again later", h.Switch, n)
			}
		}
	}
	id := v.number()
	if err := v.reserve(id, &next); err != nil {
		return nil, err
	}
	if there {
		v.paths.Delete(v.tx, before)
	} else {
		v.c.Paths++
	}
	v.names.Put(v.tx, all, p.Name, id)
	if v.install(id, r, &next); r.Phase == entering {
		v.store(id, r)
	} else {
		v.paths.Put(v.tx, id, r) // that is store, without a copy
	}
	return r, nil
}

// remove ends a path, and reports whether there is one.
func (v *visit) remove(name string) bool {
	id, there := v.names.Get(v.tx, all, name)
	if !there {
		return false
	}
	r, _ := v.load(id)
	switch {
	case r.Phase == refused:
		v.forget(id, &r)
	case r.Phase == laying && r.Live == nil:
		v.erase(id, r.Next)
		v.forget(id, &r)
	case r.Phase == leaving:
		r.Why = ""
		v.store(id, &r)
	default:
		v.takeBack(id, &r, "")
	}
	return true
}
