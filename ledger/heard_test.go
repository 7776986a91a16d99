package ledger

import (
	"fmt"
	"slices"
	"testing"
)

// A group that sends to an actor learns from the group in which it arrives where it lives, before the directory knows,
// and does not believe an older arrival that comes late.
func TestArrivalIsHeard(t *testing.T) {
	first := Assignment{2, 1}
	rows := map[Actor]Assignment{ofApp: first}
	var groups [4]*pair // by number; the switch lives in group 1
	var apps [4]*script
	for g := uint64(1); g <= 3; g++ {
		app := onPacket("a", func(*Tx, string) error { return nil })
		groups[g], apps[g] = newPair(t, Limits{}, app), &app.script
		for _, c := range []*Core{groups[g].leader, groups[g].follower} {
			c.Join(g, func(a Actor) (Assignment, bool) {
				if a.isSwitch() {
					return Assignment{1, 1}, true
				}
				at, known := rows[a]
				return at, known
			})
		}
		groups[g].must(groups[g].leader.Lead(2, 1000))
	}
	var arrivals [][]byte
	run := func() {
		t.Helper()
		for more := true; more; {
			more = false
			for _, p := range groups[1:] {
				p.leader.Moves()
				before := len(p.entries)
				p.commit()
				more = more || len(p.entries) > before
				p.leader.Frames(func(to uint64, frame []byte) {
					if to == 1 && NewFrame(frame).d.b[0] == frameArrived {
						arrivals = append(arrivals, slices.Clone(frame))
					}
					_, err := groups[to].leader.Execute(NewFrame(frame))
					p.must(err)
					more = true
				})
			}
		}
	}
	seq := uint64(1)
	event := func(in uint64) {
		t.Helper()
		seq++
		groups[1].event(1, 1, seq, packetIn(fmt.Sprint(seq)))
		run()
		for g := uint64(1); g <= 3; g++ {
			if n := len(apps[g].told); (n == 1) != (g == in) {
				t.Errorf("event %d: the application was told %d times in group %d, it lives in group %d", seq, n, g, in)
			}
			apps[g].told = nil
		}
	}
	groups[1].up(1)
	run()
	apps[2].told = nil
	event(2)
	groups[2].must(groups[2].leader.Move(ofApp, 3))
	run()
	event(3)
	groups[3].must(groups[3].leader.Move(ofApp, 2))
	run()
	event(2)
	if len(arrivals) != 2 {
		t.Fatalf("%d arrivals were told", len(arrivals))
	}
	_, err := groups[1].leader.Execute(NewFrame(arrivals[0]))
	groups[1].must(err)
	event(2)

	groups[1].leader.Relocated(ofApp) // by a directory that is behind
	if len(groups[1].leader.heard) != 1 {
		t.Error("the leader has forgotten what it has heard, and the directory does not know it")
	}
	rows[ofApp] = Assignment{2, 3}
	groups[1].leader.Relocated(ofApp)
	if n := len(groups[1].leader.heard); n != 0 {
		t.Errorf("%d arrivals are remembered although the directory knows", n)
	}
	event(2)
}
