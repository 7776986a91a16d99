package liveness

import (
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	askEvery = 10 * time.Second
	// maxMissed is how many questions may stay unanswered before that is reported: those of a minute.
	maxMissed = 6
)

// Echo reports, about a link to a switch that is down, whether frames come back from there, and so whether link and
// switch still carry packets. Receive it with app.HandleEmitted. A success is reported each time. A failure is reported
// when no frame has come back for a minute, and each time after that, and only of a switch that has returned frames
// before.
type Echo struct {
	A, B app.PortOf
	Came bool
}

// side identifies the end that returns a frame: 0 is the upper end, 1 the lower.
func side(from, lower app.PortOf) int {
	if from == lower {
		return 0
	}
	return 1
}

// echoRow is what is known about the frames that the two ends of a link return.
type echoRow struct {
	_       struct{} `cbor:",toarray"`
	Came    [2]bool  // from the upper end, from the lower: in the current measurement
	Returns [2]bool  // and in the last finished one, or since
	Missed  uint8    // questions to an end that is down, without an answer
}

// ask sends a frame from the end that is up, and returns when to ask again. If both ends are up nothing is asked, since
// topology finds the link again; nor if both are down.
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

// cameBack handles a frame that has come back to the end that sent it.
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

// learn stores the results of a measurement.
func (l *liveness) learn(tx *app.Tx, at app.PortOf) {
	echo, _ := l.echoes.Get(tx, all, at)
	l.echoes.Put(tx, all, at, echoRow{Returns: echo.Came})
}

func (l *liveness) isUp(tx *app.Tx, s app.Switch) bool {
	_, up := l.up.Get(tx, all, s)
	return up
}
