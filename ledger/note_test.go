package ledger

import (
	"strings"
	"testing"
)

// Who follows an event is told which actors have handled it, for how long, and which of them failed. Others are not
// noted, and nothing is while nobody follows.
func TestTurns(t *testing.T) {
	p := newPair(t, Limits{}, &forwarder{}, &script{name: "idle"}, &failing{})
	p.up(1)
	p.leader.Note(true)
	p.event(1, 1, 2, packetIn(strings.Repeat("x", 80)))
	if list, logged := p.leader.Noted(); len(list) != 1 || !logged {
		t.Errorf("commands %v, logged %v", list, logged)
	}
	turns := p.leader.Turns()
	if len(turns) != 2 || turns[0].Actor != (Actor{"forwarder", AtSwitch(1)}) || turns[0].Failed ||
		turns[1].Actor.App != "failing" || !turns[1].Failed {
		t.Fatalf("%+v", turns)
	}
	for i, turn := range turns {
		if turn.Ended <= turn.Began || i > 0 && turn.Began < turns[i-1].Ended {
			t.Errorf("%+v", turns)
		}
	}
	p.leader.Note(false)
	p.event(1, 1, 3, packetIn(strings.Repeat("x", 80)))
	if turns := p.leader.Turns(); len(turns) > 0 {
		t.Errorf("nobody follows the event, and there are %+v", turns)
	}
	p.commit()
}

// failing fails on each packet-in.
type failing struct{}

func (*failing) Name() string { return "failing" }
func (*failing) Handle(tx *Tx, in *Input) error {
	if in.Kind == Message && tx.Enter(AtSwitch(in.Switch)) {
		panic("it fails")
	}
	return nil
}
