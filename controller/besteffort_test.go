package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// relaxed uses one level for all messages of switches.
type relaxed struct {
	*echoer
	level ledger.Level
}

func (r relaxed) Level(uint8) (ledger.Level, bool) { return r.level, true }

// relaxedStand returns a stand that leads, with the level l. Switch 1 is up, and switch 2 is not attached.
func relaxedStand(t *testing.T, l ledger.Level, limits ledger.Limits) (*stand, *fake) {
	s := newStand(t, CoreConfig{})
	cfg := s.core.cfg
	cfg.Applications, cfg.Limits = []ledger.Application{relaxed{s.app, l}}, limits
	var err error
	if s.core, err = NewCore(cfg, s); err != nil {
		t.Fatal(err)
	}
	s.lead(3)
	return s, s.up(1, 5)
}

// Commands below exactly once are sent without a number: at once, or when their event is committed.
func TestBestEffortCommands(t *testing.T) {
	for l, want := range map[ledger.Level][]string{
		ledger.Unordered: {"1: 2 best-effort commands of 5 in 3", "1: taken", "1: ack 5/3"},
		ledger.Reliable:  {"1: 2 best-effort commands of 5 in 3", "1: taken", "1: ack 5/3"},
		ledger.Ordered:   {"1: taken", "1: ack 5/3", "1: 2 best-effort commands of 5 in 3"},
	} {
		t.Run(l.String(), func(t *testing.T) {
			s, one := relaxedStand(t, l, ledger.Limits{})
			one.events(5, 2, packetIn, packetIn)
			s.turn()
			if l == ledger.Unordered && len(s.proposed) != 0 {
				t.Error("an entry at once, for events whose bytes are not logged")
			}
			s.pass(5 * time.Millisecond)
			s.commit()
			s.said(want...)
		})
	}
}

// Commands that are sent at once do not wait for room in the ledger, nor for the end of the turn.
func TestImmediateMakesRoom(t *testing.T) {
	s, one := relaxedStand(t, ledger.Unordered, ledger.Limits{BatchBytes: 64}) // room for 8 barriers
	one.events(5, 2, packetIns(20)...)
	s.turn()
	s.said("1: 8 best-effort commands of 5 in 3", "1: 8 best-effort commands of 5 in 3",
		"1: 4 best-effort commands of 5 in 3",
		"1: taken")
}
