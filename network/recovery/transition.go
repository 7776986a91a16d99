package recovery

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// changeRow is a change from one plan to the next.
type changeRow struct {
	_           struct{} `cbor:",toarray"`
	Began, Took int64    // ns since 1970; ns
	Compile     int64    // ns in the controller, for the plan and its rounds
	Rounds      int
	Why         string // the first change that led to it
	More        int    // changes beside that
}

// transition is the rounds between two plans, by their ids.
type transition struct {
	from, to uint64
	rounds   []protect.Round
}

// transition returns the rounds from the installed plan to the target.
func (v *visit) transition() ([]protect.Round, error) {
	t := &v.recovery.rounds
	from, to := v.st.Installed.ID, v.st.Target.ID
	if t.from == from && t.to == to {
		return t.rounds, nil
	}
	old, err := v.plan(installed)
	if err != nil {
		return nil, err
	}
	next, err := v.plan(target)
	if err != nil {
		return nil, err
	}
	*t = transition{from, to, next.plan.Rounds(old.plan)}
	return t.rounds, nil
}

// mostPause bounds the pause between two rounds.
const mostPause = time.Second

// advance sends switches their parts of the current round, a few at a time, and begins the next round when all have
// executed theirs, after a pause of twice the time that they took: Open vSwitch answers a barrier before its datapath
// forgets old entries, and a busy machine is late in both. Switches that are down, or may not hold their part of the
// plan, get nothing: they are repaired when the transition is over.
func (v *visit) advance() error {
	rounds, err := v.transition()
	if err != nil {
		return err
	}
	for v.st.Round < len(rounds) {
		round, busy := rounds[v.st.Round], v.countJobs()
		if v.st.RoundBegan == 0 {
			v.st.RoundBegan = v.now
		}
		for ; v.st.Next < len(round) && busy < maxJobs; v.st.Next++ {
			c := round[v.st.Next]
			if v.inSync(c.Switch) && v.send(c.Switch, job{}, c.Messages()) {
				busy++
			}
		}
		if busy > 0 {
			return nil
		}
		if v.st.PauseEnds == 0 {
			v.st.PauseEnds = v.now + min(2*(v.now-v.st.RoundBegan), int64(mostPause))
		}
		if wait := v.st.PauseEnds - v.now; wait > 0 {
			v.set(timerRound, time.Duration(wait))
			return nil
		}
		v.st.Round, v.st.Next, v.st.RoundBegan, v.st.PauseEnds = v.st.Round+1, 0, 0, 0
	}
	done, err := v.plan(target)
	if err != nil {
		return err
	}
	v.store(installed, done.network)
	v.st.Installed, v.st.Round, v.st.Next = v.st.Target, 0, 0
	v.st.Last, v.st.Change = v.st.Change, changeRow{}
	v.st.Last.Took = v.now - v.st.Last.Began
	v.recovery.rounds = transition{}
	return nil
}

// inSync reports whether a switch holds its part of the plan, as far as is known.
func (v *visit) inSync(s app.Switch) bool {
	row, _ := v.switches.Get(v.tx, all, s)
	_, behind := v.todo.Get(v.tx, all, s)
	return row.Up && !behind
}

// job is what a switch has been sent and has not answered. A part of a round, or the repairs of a check, may be so many
// messages that they go in several transactions, each with a barrier.
type job struct {
	_       struct{} `cbor:",toarray"`
	Check   bool
	Sent    int    // messages
	Barrier uint32 // xid; 0 while a check reads

	// Of a check.
	Requests [2]uint32 // xids
	ID       uint64    // of State, random
	State    []byte
	Removing bool // deletions have been sent
}

// send sends a switch the next messages of a job, and a barrier. It reports whether an answer will come.
func (v *visit) send(s app.Switch, j job, msgs []of13.Message) bool {
	part := msgs[min(j.Sent, len(msgs)):]
	part = part[:min(maxPart, len(part))]
	for _, m := range part {
		v.tx.Send(s, m)
	}
	j.Sent += len(part)
	if j.Barrier = v.tx.Send(s, &of13.BarrierRequest{}); j.Barrier == 0 { // it is down: SwitchDown follows
		v.endJob(s)
		return false
	}
	v.putJob(s, j)
	return true
}

func (v *visit) putJob(s app.Switch, j job) {
	v.jobs.Put(v.tx, all, s, j)
	v.set(timerLate+s.String(), answerIn)
}

func (v *visit) endJob(s app.Switch) {
	v.jobs.Delete(v.tx, all, s)
	v.tx.CancelTimer(timerLate + s.String())
}

func (v *visit) countJobs() (n int) {
	for range v.jobs.All(v.tx, all) {
		n++
	}
	return n
}

func (v *visit) barrierReply(m app.BarrierReply) error {
	j, busy := v.jobs.Get(v.tx, all, m.Switch)
	if !busy || j.Barrier == 0 || j.Barrier != m.XID {
		return nil
	}
	if j.Check {
		return v.repair(m.Switch, j)
	}
	rounds, err := v.transition()
	if err != nil {
		return err
	}
	round := rounds[v.st.Round]
	i, _ := slices.BinarySearchFunc(round, m.Switch, func(c protect.SwitchChange, s openflow.DatapathID) int {
		if c.Switch < s {
			return -1
		}
		return int(min(c.Switch-s, 1))
	})
	if msgs := round[i].Messages(); j.Sent < len(msgs) {
		v.send(m.Switch, j, msgs)
		return nil
	}
	v.endJob(m.Switch)
	return nil
}
