package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/southbound"
)

// A switch that its leader reaches through a follower moves, after some time, to a group whose leader it is connected
// to. One without an agent stays.
func TestMoveProxied(t *testing.T) {
	for _, c := range []struct {
		name   string
		peer   southbound.Peer
		groups []Led
		want   uint64 // 0: it stays
	}{
		{"the follower leads a group", southbound.Agent, []Led{{2, 2}}, 2},
		{"it leads two", southbound.Agent, []Led{{4, 3}, {3, 2}, {2, 2}}, 3},
		{"it leads none", southbound.Agent, []Led{{2, 1}, {3, 3}}, 0},
		{"no agent", southbound.Bundles, []Led{{2, 2}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t)
			l := p.l.core
			p.f.core.Attached(p.f.fake(1, c.peer, 5))
			p.pass(time.Millisecond)
			p.pass(pathDelay + pathEvery)
			if l.remote(1) == nil {
				t.Fatal("it is not reached through the follower")
			}
			for _, d := range []time.Duration{0, proxiedAfter - time.Second} {
				if l.MoveProxied(p.l.now.Add(d), c.groups); len(l.moves) > 0 {
					t.Fatalf("after %v it moves: %v", d, l.moves)
				}
			}
			now := p.l.now.Add(proxiedAfter)
			l.MoveProxied(now, c.groups)
			l.MoveProxied(now.Add(proxiedAgain-time.Second), c.groups)
			switch {
			case c.want == 0 && len(l.moves) > 0:
				t.Errorf("it moves: %v", l.moves)
			case c.want > 0 && (len(l.moves) != 1 || l.moves[0] != move{actor: theSwitch(1), to: c.want}):
				t.Errorf("it moves: %v, want to group %d", l.moves, c.want)
			}
			l.moves = nil
			if l.MoveProxied(now.Add(proxiedAgain), c.groups); len(l.moves) == 0 != (c.want == 0) {
				t.Errorf("the next time it moves: %v", l.moves)
			}
		})
	}
}
