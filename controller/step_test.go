package controller

import (
	"testing"
	"time"
)

// A controller that could miss events of a switch defers its election, for a bounded time.
func TestDeferElectionOutOfSync(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.follow(3)
	s.pass(stepEvery)
	s.said()
	one := s.attached(1, 0)
	one.st.InSync = false
	s.pass(stepEvery)
	s.said("defer election true")
	one.st.InSync = true
	s.pass(stepEvery)
	s.said("defer election false")
	one.st.InSync = false
	for passed := time.Duration(0); passed <= stepPatience+stepEvery; passed += stepEvery {
		s.pass(stepEvery)
	}
	s.said("defer election true", "defer election false")
	s.lead(4)
	s.trace = nil
	one.st.InSync = true
	s.pass(stepEvery)
	one.st.InSync = false // a leader does not defer
	s.pass(stepEvery)
	s.said()
}

// A controller defers its election while a switch is not connected to it yet.
func TestDeferElectionNotConnected(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	s.pass(stepEvery)
	s.follow(4)
	s.trace = nil
	s.pass(stepEvery)
	s.said()
	s.core.Detached(s.now, one)
	s.pass(stepEvery)
	s.said("defer election true")
	s.attached(1, 5)
	s.pass(stepEvery)
	s.said("defer election false")
}
