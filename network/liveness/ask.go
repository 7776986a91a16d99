package liveness

import (
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	askEvery = 10 * time.Second
	// maxMissed is how many questions go without an answer before it is told: a minute's, from the first.
	maxMissed = 6
)

// Echo tells of a link to a switch that is down whether frames come back from there, and so whether both still carry them. Take it with app.HandleEmitted.
// That they do is told each time; that they do not when none has come for a minute, and then each time, and only of a switch that has sent frames back before.
type Echo struct {
	A, B app.PortOf
	Came bool
}

// side tells whose answers a frame from an end asks for: 0, the upper end's, or 1, the lower's.
func side(from, lower app.PortOf) int {
	if from == lower {
		return 0
	}
	return 1
}

// ask lets a frame leave from the end that is up. Nobody is asked if none is, or both are: then topology finds the link again, or not.
func (l *liveness) ask(tx *app.Tx, at app.PortOf, row *linkRow) error {
	a, b := l.isUp(tx, at.Switch), l.isUp(tx, row.To.Switch)
	if a == b {
		row.Missed = 0
		return nil
	}
	from := at
	if b {
		from = row.To
	}
	if !row.Returns[side(from, at)] {
		row.Missed = 0 // it may never have been able to
	}
	row.renew(tx)
	l.out(tx, frame{from, row.Seq, true}, from.Port, 0)
	if row.Missed++; row.Missed <= maxMissed {
		return nil
	}
	row.Missed = maxMissed
	return app.Emit(tx, Echo{A: at, B: row.To})
}

// answer takes a frame that has come back from a switch that is down.
func (l *liveness) answer(tx *app.Tx, at app.PortOf, row linkRow) error {
	row.Missed = 0
	l.links.Put(tx, all, at, row)
	return app.Emit(tx, Echo{A: at, B: row.To, Came: true})
}

func (l *liveness) isUp(tx *app.Tx, s app.Switch) bool {
	_, up := l.up.Get(tx, all, s)
	return up
}
