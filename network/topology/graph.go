package topology

import (
	"crypto/rand"
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
)

// endRow is a port as the graph knows it, and the links from and to it. The other end of a link stays recorded when it
// is down.
type endRow struct {
	_       struct{} `cbor:",toarray"`
	Up      bool
	Since   uint64 // see portRow
	Changed int64  // when the port or a link of it came up or went down

	To        app.PortOf // where the link that leaves here arrives
	ToUp      bool
	ToChanged int64
	ToReason  Reason // of its being down
	// Counted is the number of the last probe that is known to have counted for a link that leaves here; while that is
	// up, it is the one by which it was found.
	Counted uint64

	From   app.PortOf // where the link that arrives here comes from
	FromUp bool

	// Silent is set when probes of a link here are lost, or the switch at its other end is down, until a link is found
	// or the port changes its state. The link may be restored up to an interval before a probe shows it, and a switch
	// that has only lost its controllers goes on to forward: frames that arrive here meanwhile are not from hosts of
	// this port.
	Silent bool

	Hosts uint32 // number of hosts learned here
}

// link reports whether the port is one between switches.
func (e *endRow) link() bool { return e.ToUp || e.FromUp }

// joined records a switch, or more ports of it, and tells it the key.
func (t *topology) joined(tx *app.Tx, m joined) error {
	key, ok := t.key.Get(tx, all)
	if !ok {
		key = make([]byte, 32)
		rand.Read(key) // never fails
		t.key.Put(tx, all, key)
	}
	ports := make([]app.Port, len(m.Ports))
	for i, p := range m.Ports {
		ports[i] = p.Port
		t.addEnd(tx, app.PortOf{Switch: m.Switch, Port: p.Port}, p)
	}
	return errors.Join(app.Emit(tx, SwitchUp{m.Switch, ports}), app.Emit(tx, welcome{Switch: m.Switch, Key: key}))
}

// addEnd records a port, unless it is known.
func (t *topology) addEnd(tx *app.Tx, at app.PortOf, p portNews) {
	if _, known := t.ends.Get(tx, all, at); !known {
		t.ends.Put(tx, all, at, endRow{Up: p.Up, Since: p.Since, Changed: tx.Now().UnixNano()})
	}
}

func (t *topology) left(tx *app.Tx, m left) error {
	ch := changes{reason: SwitchIsDown}
	if slices.ContainsFunc(m.Ports, func(p portNews) bool {
		e, _ := t.ends.Get(tx, all, app.PortOf{Switch: m.Switch, Port: p.Port})
		return e.Hosts > 0
	}) {
		t.forget(tx, &ch, func(h hostRow) bool { return h.At.Switch == m.Switch }) // those of all its ports at once
	}
	for _, p := range m.Ports {
		t.removeEnd(tx, app.PortOf{Switch: m.Switch, Port: p.Port}, p, &ch)
	}
	return errors.Join(ch.emit(tx), app.Emit(tx, SwitchDown{m.Switch}))
}

func (t *topology) changed(tx *app.Tx, m changed) error {
	at, p := app.PortOf{Switch: m.Switch, Port: m.Port.Port}, m.Port
	now, known := t.ends.Get(tx, all, at)
	ch := changes{reason: PortDown}
	switch {
	case p.Removed:
		t.removeEnd(tx, at, p, &ch)
	case !known:
		t.addEnd(tx, at, p)
	default:
		t.portDown(tx, at, &now, p, &ch) // so that nothing has to be taken down if it comes up
		now.Up, now.Since, now.Changed, now.Silent = p.Up, p.Since, tx.Now().UnixNano(), false
		t.ends.Put(tx, all, at, now)
	}
	return ch.emit(tx)
}

func (t *topology) removeEnd(tx *app.Tx, at app.PortOf, p portNews, ch *changes) {
	if row, known := t.ends.Get(tx, all, at); known {
		t.portDown(tx, at, &row, p, ch)
		t.ends.Delete(tx, all, at)
	}
}

// portDown takes down the links of a port, and forgets its hosts. The caller writes row.
func (t *topology) portDown(tx *app.Tx, at app.PortOf, row *endRow, p portNews, ch *changes) {
	if row.ToUp {
		ch.dismiss(dismissed{From: at, To: row.To, Seq: row.Counted})
		t.linkDown(tx, at, row, ch)
	}
	if row.FromUp {
		from := row.From
		origin, _ := t.ends.Get(tx, all, from)
		if from == p.From {
			origin.Counted = max(origin.Counted, p.Seq)
		}
		t.linkDown(tx, from, &origin, ch)
		t.ends.Put(tx, all, from, origin)
		row.FromUp = false
	}
	t.forgetHosts(tx, at, row, ch)
}

// heard asks the sending switch. It does so whatever the graph knows, so that answers arrive in the order of questions.
func (t *topology) heard(tx *app.Tx, h heard) error { return app.Emit(tx, asked(h)) }

// unsure tells the receiver to listen on.
func (t *topology) unsure(tx *app.Tx, u unsure) error {
	return app.Emit(tx, dismissed{From: u.From, To: u.To, Seq: u.Seq, Again: true})
}

// objection is why what was heard is no new link.
func objection(h heard, from, to endRow) (r Rejected) {
	switch {
	case h.Seq <= from.Counted:
		r.Replayed++
	case from.ToUp, to.FromUp: // the other link stays until it is down or has been silent for long
		r.Contested++
	}
	return r
}

// found records one direction of a link.
func (t *topology) found(tx *app.Tx, f found) error {
	h := heard(f)
	from, _ := t.ends.Get(tx, all, h.From)
	to, _ := t.ends.Get(tx, all, h.To)
	switch r := objection(h, from, to); {
	case !to.Up || to.Since != h.ToSince: // it has changed since, and has forgotten this
		return nil
	case from.ToUp && from.To == h.To:
		return nil
	case r != (Rejected{}):
		return dismiss(tx, h, r)
	}
	now := tx.Now().UnixNano()
	from.To, from.ToUp, from.ToChanged, from.Changed, from.Silent = h.To, true, now, now, false
	from.Counted = h.Seq
	to.From, to.FromUp, to.Changed, to.Silent = h.From, true, now, false
	var ch changes
	t.forgetHosts(tx, h.From, &from, &ch) // those learned there before the link was known
	t.forgetHosts(tx, h.To, &to, &ch)
	t.ends.Put(tx, all, h.From, from)
	t.ends.Put(tx, all, h.To, to)
	both := to.ToUp && to.To == h.From
	return errors.Join(app.Emit(tx, LinkUp{Link{h.From, h.To}, both}), ch.emit(tx))
}

// lost takes down a link whose probes are lost, or which cannot be confirmed.
func (t *topology) lost(tx *app.Tx, l lost) error {
	ch, r := changes{reason: ProbesLost}, Rejected{}
	if !l.Silent {
		r.Stale++
	}
	if from, _ := t.ends.Get(tx, all, l.From); from.ToUp && from.To == l.To {
		from.Counted = max(from.Counted, l.Seq)
		t.linkDown(tx, l.From, &from, &ch)
		t.ends.Put(tx, all, l.From, from)
	}
	return errors.Join(ch.emit(tx), dismiss(tx, heard(l), r))
}

// linkDown takes down the link from a port. The caller writes row.
func (t *topology) linkDown(tx *app.Tx, at app.PortOf, row *endRow, ch *changes) {
	now := tx.Now().UnixNano()
	silent := ch.reason != PortDown
	row.ToUp, row.ToChanged, row.ToReason, row.Changed, row.Silent = false, now, ch.reason, now, silent
	if to, known := t.ends.Get(tx, all, row.To); known {
		to.FromUp, to.Changed, to.Silent = false, now, silent
		t.ends.Put(tx, all, row.To, to)
	}
	ch.down = append(ch.down, Link{at, row.To})
}
