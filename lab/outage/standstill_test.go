package outage

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spans makes spans of milliseconds: from, to, from, to, …
func spans(edges ...int) (all []span) {
	for i := 0; i+1 < len(edges); i += 2 {
		all = append(all, span{at(time.Duration(edges[i]) * ms), at(time.Duration(edges[i+1]) * ms)})
	}
	return all
}

func TestLongEnough(t *testing.T) {
	for _, c := range []struct {
		name string
		late [][]span
		want []span
	}{
		{"no processor", nil, nil},
		{"one processor", [][]span{spans(0, 5, 10, 11, 20, 22)}, spans(0, 5, 20, 22)},
		{"the other is never late", [][]span{spans(0, 5), nil}, spans(0, 5)},
		{"one after the other", [][]span{spans(0, 5, 20, 25), spans(10, 15)}, spans(0, 5, 10, 15, 20, 25)},
		{"one within the other", [][]span{spans(2, 6), spans(0, 10)}, spans(0, 10)},
		{"one goes on where the other ends", [][]span{spans(0, 10), spans(9, 16)}, spans(0, 16)},
		{"short ones are not counted together", [][]span{spans(0, 1), spans(1, 2)}, nil},
	} {
		if got := longEnough(c.late); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A moment is in a standstill if it is in a long span of some processor, whatever the order of the spans.
func TestLongEnoughProperty(t *testing.T) {
	list := rapid.Custom(func(t *rapid.T) []span {
		edges := rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 0, 12, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		return spans(edges...)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		short := func(s span) bool { return s.length() < shortestStop }
		all := slices.DeleteFunc(slices.Concat(a, b), short)
		stops := longEnough([][]span{a, b})
		for i := range 60 {
			moment := at(time.Duration(i)*ms + ms/2)
			if inside(moment, stops) != inside(moment, all) {
				t.Fatalf("%v: the stops of %v and %v are %v", moment, a, b, stops)
			}
		}
		for i := 1; i < len(stops); i++ {
			if !stops[i].from.After(stops[i-1].to) {
				t.Fatalf("not apart: %v", stops)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	alarms := []time.Time{at(0), at(9 * ms), at(10 * ms), at(17 * ms), at(18 * ms), at(31 * ms), at(100 * ms)}
	stops := []span{{at(10*ms + ms/2), at(12 * ms)}, {at(30 * ms), at(33 * ms)}, {at(35 * ms), at(40 * ms)}}
	got := judge(stops, alarms, 220*ms)
	// The windows are 10 to 17 and 30 to 45: logs may report at 10 what happened just before 11.
	want := Stops{Count: 3, Longest: 5 * ms, FalseAlarms: 3, Chance: 0.1}
	if math.Abs(got.Chance-want.Chance) > 1e-9 {
		t.Errorf("chance %v, want %v", got.Chance, want.Chance)
	}
	if got.Chance = want.Chance; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := judge(nil, alarms, time.Second); got != (Stops{}) {
		t.Errorf("without stops: %+v", got)
	}
}

// It watches each processor, ends, and records in order.
func TestStandstill(t *testing.T) {
	s, err := watchStandstill()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * ms)
	stops := s.close()
	if len(s.late) == 0 {
		t.Error("no processor was watched")
	}
	for _, all := range append(s.late, stops) {
		for i, stop := range all {
			if stop.length() < watchEvery || i > 0 && stop.from.Before(all[i-1].to) {
				t.Errorf("stop %d of %v", i, all)
			}
		}
	}
}
