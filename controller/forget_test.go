package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// forgets asks to forget switch 1, in a call with an id, and commits.
func (s *stand) forgets(id uint64) {
	s.t.Helper()
	s.core.called(CallPayload(ledger.Call{Actor: theSwitch(1), Forgets: true, Caller: 3, ID: id}))
	s.turn()
	s.settle()
}

// TestForgetSwitch: a switch that is connected is not forgotten, nor one whose timeout has not passed. One that comes
// back with events of before is told to begin anew, in a claim above all of before.
func TestForgetSwitch(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(1)
	f := s.up(1, 5)
	s.app.seen = nil
	s.forgets(1)
	s.said("answer 1 to 3: 1 " + ledger.ErrConnected.Error())
	s.core.Detached(s.now, f)
	s.forgets(2)
	s.said("answer 2 to 3: 1 forget switch 0000000000000001: " + ledger.ErrConnected.Error())
	s.pass(timeout)
	s.settle()
	s.app.seen, s.trace = nil, nil
	s.forgets(3)
	s.said("answer 3 to 3: 0 ")
	s.saw("forgotten 1")
	if len(s.core.ledger.Switches()) > 0 || len(s.core.left)+len(s.core.absent)+len(s.core.claims) > 0 {
		t.Error("there is still something of the switch")
	}
	f = s.attached(1, 5)
	s.said("1: master in 1, path 1")
	if f.resume.Epoch != 6 || f.resume.Live || f.resume.Events != 0 {
		t.Errorf("the agent is told %+v", f.resume)
	}
	f.events(5, 2, packetIn)
	s.turn()
	s.said("1: refused, stale epoch 5", "1: not taken, switch 0000000000000001: epoch 5, and it was forgotten, or "+
		"another one with that epoch or a later one: stale epoch")
	f.events(7, 1, switchUp)
	s.settle()
	s.saw("up 1")
}

// TestSwitchExpires: switches that have been down for as long as the cluster file says are forgotten by themselves, and
// others are not. A new leader waits as long again.
func TestSwitchExpires(t *testing.T) {
	const expiry = time.Hour
	s := newStand(t, CoreConfig{SwitchExpiry: expiry})
	s.lead(1)
	s.up(1, 1)
	gone := s.up(2, 1)
	s.core.Detached(s.now, gone)
	wait := func(d time.Duration) {
		for end := s.now.Add(d); s.now.Before(end); {
			s.pass(time.Minute)
			s.settle()
		}
	}
	wait(expiry - 10*time.Minute)
	s.follow(2)
	s.lead(3)
	wait(expiry - 10*time.Minute)
	if n := len(s.core.ledger.Switches()); n != 2 {
		t.Errorf("%d switches before the time is over", n)
	}
	wait(20 * time.Minute)
	if list := s.core.ledger.Switches(); len(list) != 1 || list[0].Switch != 1 {
		t.Errorf("switches %+v after it", list)
	}
}
