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

// Echo tells of a link to a switch that is down whether frames come back from there, and so whether both still carry
// them. Take it with app.HandleEmitted. That they do is told each time; that they do not when none has come for a
// minute, and then each time, and only of a switch that has sent frames back before.
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

// echoRow is what is known of the frames that a link's two ends send back.
type echoRow struct {
	_       struct{} `cbor:",toarray"`
	Came    [2]bool  // from the upper end, from the lower: in the measurement that goes on
	Returns [2]bool  // and in the last one that is over, or since
	Missed  uint8    // questions to an end that is down, without an answer
}

// ask lets a frame leave from the end that is up, and returns when to ask again. Nobody is asked if both are up, since
// topology finds the link again then, or not; nor while both are down.
func (l *liveness) ask(tx *app.Tx, at app.PortOf, row *linkRow) (again time.Duration, err error) {
	echo, _ := l.echoes.Get(tx, all, at)
	defer func() { l.echoes.Put(tx, all, at, echo) }()
	from := at
	switch a, b := l.isUp(tx, at.Switch), l.isUp(tx, row.To.Switch); {
	case a && b:
		echo.Missed = 0
		return 0, nil
	case !a && !b:
		echo.Missed = 0
		return askEvery, nil
	case b:
		from = row.To
	}
	if !echo.Returns[side(from, at)] {
		echo.Missed = 0 // it may never have been able to
	}
	row.renew(tx)
	l.out(tx, frame{from, row.Seq, true}, from.Port, 0)
	if echo.Missed++; echo.Missed <= maxMissed {
		return askEvery, nil
	}
	echo.Missed = maxMissed
	return askEvery, app.Emit(tx, Echo{A: at, B: row.To})
}

// cameBack takes a frame that has come back to an end that it left.
func (l *liveness) cameBack(tx *app.Tx, from, lower app.PortOf, row linkRow) error {
	echo, _ := l.echoes.Get(tx, all, lower)
	defer func() { l.echoes.Put(tx, all, lower, echo) }()
	if row.Up {
		echo.Came[side(from, lower)] = true
		return nil
	}
	echo.Missed, echo.Returns[side(from, lower)] = 0, true
	return app.Emit(tx, Echo{A: lower, B: row.To, Came: true})
}

// learn takes over what a measurement has shown.
func (l *liveness) learn(tx *app.Tx, at app.PortOf) {
	echo, _ := l.echoes.Get(tx, all, at)
	l.echoes.Put(tx, all, at, echoRow{Returns: echo.Came})
}

func (l *liveness) isUp(tx *app.Tx, s app.Switch) bool {
	_, up := l.up.Get(tx, all, s)
	return up
}
