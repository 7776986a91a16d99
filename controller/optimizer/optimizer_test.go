package optimizer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at makes actors in groups, from "a" on.
func at(groups ...uint64) (list []Actor) {
	for i, g := range groups {
		list = append(list, Actor{Name: string(rune('a' + i)), Group: g, Load: 10})
	}
	return list
}

func loads(actors []Actor, groups ...uint64) map[uint64]float64 {
	m := map[uint64]float64{}
	for _, g := range groups {
		m[g] = 0
	}
	for _, a := range actors {
		m[a.Group] += a.Load
	}
	return m
}

func TestDecide(t *testing.T) {
	now := Config{Threshold: 10, Windows: 1, Load: 1000}
	for name, c := range map[string]struct {
		actors    []Actor
		exchanges []Exchange
		groups    []uint64
		cfg       Config
		want      []string // "actor from to verdict"
	}{
		"to its only peer":         {at(1, 2), []Exchange{{"a", "b", 20}}, nil, now, []string{"a 1 2 moves", "b 2 1 no longer"}},
		"below the threshold":      {at(1, 2), []Exchange{{"a", "b", 9}}, nil, now, nil},
		"less than the margin":     {at(1, 1, 2), []Exchange{{"a", "b", 200}, {"a", "c", 220}, {"b", "c", 0}}, nil, now, []string{"c 2 1 moves"}},
		"to the group of the most": {at(1, 2, 3), []Exchange{{"a", "b", 50}, {"a", "c", 40}}, nil, now, []string{"a 1 2 moves", "b 2 1 no longer", "c 3 1 no longer"}},
		"not to a dead group":      {at(1, 2, 3), []Exchange{{"a", "b", 50}}, []uint64{1, 3}, now, []string{"b 2 1 moves"}},
		"a group that is full":     {at(1, 2), []Exchange{{"a", "b", 50}}, nil, Config{Threshold: 10, Windows: 1, Load: 19}, []string{"a 1 2 overload", "b 2 1 overload"}},
		"too early":                {at(1, 2), []Exchange{{"a", "b", 50}}, nil, Config{Threshold: 10, Windows: 2, Load: 1000}, []string{"a 1 2 waits", "b 2 1 waits"}},
		"nobody knows the peer":    {at(1), []Exchange{{"a", "z", 50}}, []uint64{1, 2}, now, nil},
	} {
		t.Run(name, func(t *testing.T) {
			all := loads(c.actors, 1, 2, 3)
			if c.groups != nil {
				all = loads(nil, c.groups...)
			}
			var got []string
			for _, d := range New(c.cfg).Decide(Window{Actors: c.actors, Exchanges: c.exchanges, Loads: all}) {
				got = append(got, fmt.Sprintf("%s %d %d %s", d.Actor, d.From, d.To, d.Verdict))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An actor that stays is never in a decision, and others move to it.
func TestStays(t *testing.T) {
	actors := at(1, 2)
	actors[0].Stays = true
	got := New(Config{Threshold: 1, Windows: 1, Load: 1000}).Decide(Window{Actors: actors,
		Exchanges: []Exchange{{"a", "b", 20}}, Loads: loads(actors)})
	if len(got) != 1 || got[0].Actor != "b" || got[0].To != 1 || got[0].Verdict != Moves {
		t.Errorf("got %+v", got)
	}
}

// An actor moves after enough windows with the same preference, and then not before the cool-down has ended, whoever
// moved it.
func TestWindowsAndCooldown(t *testing.T) {
	o := New(Config{Threshold: 1, Windows: 3, Cooldown: 10 * time.Second, Load: 1000})
	actors := at(1, 2, 3)
	actors[1].Stays, actors[2].Stays = true, true
	second := time.Duration(0)
	decide := func(peer string) (list []Verdict) {
		second++
		for _, d := range o.Decide(Window{Now: second * time.Second, Actors: actors,
			Exchanges: []Exchange{{"a", peer, 20}}, Loads: loads(actors)}) {
			list = append(list, d.Verdict)
		}
		return list
	}
	expect := func(peer string, want ...Verdict) {
		t.Helper()
		if got := decide(peer); !slices.Equal(got, want) {
			t.Fatalf("second %d: %q, want %q", second, got, want)
		}
	}
	expect("b", Waits)
	expect("c", Waits) // another group: it begins again
	expect("b", Waits)
	expect("b", Waits)
	expect("b", Moves)
	actors[0].Group = 2
	expect("b")
	expect("c", Waits)
	expect("c", Waits)
	for range 7 {
		expect("c", Cools)
	}
	expect("c", Moves)
}

// A constant matrix: each placement has less traffic between groups than all before it, no move makes a group exceed
// its load, actors that stay do, and moves end.
func TestConstantMatrix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 5).Draw(t, "groups")
		w := Window{Loads: map[uint64]float64{}}
		for g := range groups {
			w.Loads[uint64(g)+1] = float64(rapid.IntRange(0, 50).Draw(t, "other load"))
		}
		n := rapid.IntRange(1, 20).Draw(t, "actors")
		for i := range n {
			a := Actor{Name: fmt.Sprint(i), Group: uint64(rapid.IntRange(1, groups).Draw(t, "group")),
				Load:  float64(rapid.IntRange(0, 30).Draw(t, "load")),
				Stays: rapid.IntRange(0, 3).Draw(t, "stays") == 0}
			w.Actors = append(w.Actors, a)
			w.Loads[a.Group] += a.Load
		}
		for range rapid.IntRange(0, 60).Draw(t, "exchanges") {
			w.Exchanges = append(w.Exchanges, Exchange{fmt.Sprint(rapid.IntRange(0, n).Draw(t, "a")),
				fmt.Sprint(rapid.IntRange(0, n).Draw(t, "b")), float64(rapid.IntRange(0, 100).Draw(t, "rate"))})
		}
		cfg := Config{Threshold: float64(rapid.IntRange(1, 20).Draw(t, "threshold")),
			Windows: rapid.IntRange(1, 3).Draw(t, "windows"), Load: float64(rapid.IntRange(10, 300).Draw(t, "cap")),
			Cooldown: time.Duration(rapid.IntRange(0, 5).Draw(t, "cooldown")) * time.Second}
		o := New(cfg)
		quiet := 0
		for quiet <= cfg.Windows+5 {
			w.Now += time.Second
			before, moved := crossing(w), false
			for _, d := range o.Decide(w) {
				if d.Verdict != Moves {
					continue
				}
				moved = true
				i := slices.IndexFunc(w.Actors, func(a Actor) bool { return a.Name == d.Actor })
				a := &w.Actors[i]
				if a.Stays || a.Group != d.From || d.From == d.To {
					t.Fatalf("%+v of %+v", d, *a)
				}
				w.Loads[a.Group] -= a.Load
				a.Group = d.To
				if w.Loads[a.Group] += a.Load; w.Loads[a.Group] > cfg.Load {
					t.Fatalf("%+v: group %d has to handle %v, the limit is %v", d, d.To, w.Loads[d.To], cfg.Load)
				}
				after := crossing(w)
				if after > before-cfg.Threshold {
					t.Fatalf("%+v: %v messages between groups, before %v", d, after, before)
				}
				before = after
			}
			if quiet++; moved {
				quiet = 0
			}
		}
	})
}

// crossing returns how many messages go between groups.
func crossing(w Window) (all float64) {
	group := map[string]uint64{}
	for _, a := range w.Actors {
		group[a.Name] = a.Group
	}
	for _, e := range w.Exchanges {
		if group[e.A] != 0 && group[e.B] != 0 && group[e.A] != group[e.B] {
			all += e.Rate
		}
	}
	return all
}

// At most MaxMoves actors move after one window, and the others after the next ones.
func TestManyMoves(t *testing.T) {
	o := New(Config{Threshold: 1, Windows: 1, Load: 1e9})
	w := Window{Loads: map[uint64]float64{1: 0, 2: 0}}
	for i := range 100 {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		w.Actors = append(w.Actors, Actor{Name: a, Group: 1}, Actor{Name: b, Group: 2, Stays: true})
		w.Exchanges = append(w.Exchanges, Exchange{a, b, 10})
	}
	for _, want := range []int{MaxMoves, 100 - MaxMoves, 0} {
		moves := 0
		for _, d := range o.Decide(w) {
			if d.Verdict == Moves {
				moves++
				i := slices.IndexFunc(w.Actors, func(a Actor) bool { return a.Name == d.Actor })
				w.Actors[i].Group = d.To
			}
		}
		if moves != want {
			t.Errorf("%d moves, want %d", moves, want)
		}
	}
}

// Memory is that of the actors of the last windows.
func TestForgets(t *testing.T) {
	o := New(Config{Threshold: 1, Windows: 2, Cooldown: 5 * time.Second, Load: 100})
	for i := range 1000 {
		a := fmt.Sprint(i)
		o.Decide(Window{Now: time.Duration(i) * time.Second, Loads: map[uint64]float64{1: 0, 2: 0},
			Actors: []Actor{{Name: a, Group: 1}, {Name: "x", Group: 2}}, Exchanges: []Exchange{{a, "x", 5}}})
	}
	if len(o.seen) > 7 || len(o.prefers) > 2 {
		t.Errorf("%d actors and %d preferences are kept", len(o.seen), len(o.prefers))
	}
}
