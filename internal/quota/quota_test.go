package quota

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever peers do, no more places are taken than there are; a peer loses one only to one that has fewer, and the
// newest; and a peer with fewer than its share is never refused.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(1, 20).Draw(t, "bound")
		p := New[int](bound)
		held := map[string][]*Place[int]{} // by peer, oldest first
		used, next := 0, 0
		drop := func(it *Place[int]) {
			list := held[it.peer]
			for i, h := range list {
				if h == it {
					held[it.peer] = append(list[:i:i], list[i+1:]...)
					used--
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				peer := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "peer"))
				peers := 0
				for name, list := range held {
					if len(list) > 0 || name == peer {
						peers++
					}
				}
				if len(held[peer]) == 0 && held[peer] == nil {
					peers++
				}
				next++
				mine, lost := p.Take(peer, next)
				if lost != nil {
					list := held[lost.peer]
					if used < bound || len(list) < len(held[peer])+2 || list[len(list)-1] != lost {
						t.Fatalf("peer %s has lost place %d of %d to %s, which has %d", lost.peer, lost.For, len(list), peer,
							len(held[peer]))
					}
					drop(lost)
				}
				if mine == nil {
					if used < bound || (len(held[peer])+1)*peers <= bound {
						t.Fatalf("peer %s, which has %d of %d places, is refused; %d peers, %d taken", peer,
							len(held[peer]), bound, peers, used)
					}
					return
				}
				held[peer], used = append(held[peer], mine), used+1
				if mine.For != next || used > bound {
					t.Fatalf("%d places of %d are taken", used, bound)
				}
			},
			"leave": func(t *rapid.T) {
				for _, list := range held {
					if len(list) > 0 {
						it := list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
						p.Leave(it)
						p.Leave(it) // a second time has no effect
						drop(it)
						return
					}
				}
			},
			"": func(t *rapid.T) {
				if p.used != used {
					t.Fatalf("%d places are taken, and it counts %d", used, p.used)
				}
			},
		})
	})
}

// A peer that takes all places keeps nobody out, and those that were there before stay.
func TestOnePeerTakesAll(t *testing.T) {
	p := New[string](100)
	honest := make([]*Place[string], 3)
	for i := range honest {
		honest[i], _ = p.Take(fmt.Sprint("honest ", i), "before")
	}
	refused := 0
	for range 1000 {
		if mine, lost := p.Take("attacker", "x"); mine == nil {
			refused++
		} else if lost != nil {
			t.Fatalf("%s has lost a place", lost.peer)
		}
	}
	if refused != 1000-97 {
		t.Errorf("the attacker got %d places", 1000-refused)
	}
	for i := range 40 {
		mine, lost := p.Take(fmt.Sprint("late ", i), "y")
		if mine == nil || lost == nil || lost.peer != "attacker" {
			t.Fatalf("honest peer %d: %v, %v", i, mine, lost)
		}
	}
}
