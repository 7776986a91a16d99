package monitor

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Whatever the clocks do, and when entries are replaced, a constant rate below the threshold never fires; one at the
// threshold does not fall.
func TestRateIsWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rate = 1_000_000 // bytes/s
		coarse := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Hour}).Draw(t, "clock of the switch")
		replaced := rapid.Bool().Draw(t, "entries are replaced")
		high := Trigger{Measure: Bandwidth, Above: rate * 11 / 10, Below: 1}
		var now, born time.Duration
		var before sample
		known, last := false, time.Duration(0)
		for range rapid.IntRange(2, 30).Draw(t, "polls") {
			now += time.Duration(rapid.Int64Range(int64(time.Second), int64(2*time.Second)).Draw(t, "gap"))
			if replaced && rapid.Bool().Draw(t, "replaced now") {
				born = now - time.Duration(rapid.Int64Range(0, int64(now-last)).Draw(t, "since"))
			}
			s := sample{age: (now - born) / coarse * coarse, now: int64(now),
				bytes: [2]uint64{uint64((now - born) / time.Microsecond)}}
			if is, v := high.judge(false, s, before, known); is {
				t.Fatalf("%v after %v fires with %d bytes/s", s, before, v)
			}
			if known && !replaced && coarse < time.Second {
				least, most, ok := s.rate(before)
				if !ok || least > rate+1000 || most < rate-1000 {
					t.Fatalf("rate between %d and %d (%v)", least, most, ok)
				}
			}
			before, known, last = s, true, now
		}
	})
}

// Delays of messages, which the clock of the ledger has in it, neither fire nor end a crossing.
// A reply is measured from the one before only where both requests, and the reply between them, were handled: a
// controller that has led before, and leads again, has samples from before what others have told.
func TestReadingsFollowEachOther(t *testing.T) {
	m := &monitor{readings: map[source]*reading{}}
	s := source{id, of13.PartPortStats}
	m.begin(s, 0, 1)
	if m.readings[s].before != nil {
		t.Error("the first reply is measured from another one")
	}
	m.begin(s, 1, 2)
	if m.readings[s].before == nil {
		t.Error("a reply is not measured from the one before")
	}
	for _, last := range []uint32{0, 1, 3} { // none that was answered, an older one, one at another controller
		m.readings[s] = &reading{xid: 2, now: map[thing]sample{}}
		m.begin(s, last, 4)
		if m.readings[s].before != nil {
			t.Errorf("a reply after the one to request %d is measured from the one to request 2", last)
		}
	}
}

func TestDelays(t *testing.T) {
	trigger := Trigger{Measure: Bandwidth, Above: 1000, Below: 800}
	at := func(age, ledger time.Duration, bytes uint64) sample {
		return sample{[2]uint64{bytes}, age, int64(ledger)}
	}
	for _, c := range []struct {
		why      string
		was      bool
		now, old sample
		is       bool
	}{
		{"at the threshold", false, at(2e9, 2e9, 2000), at(1e9, 1e9, 1000), true},
		{"the last reply was late", false, at(2e9, 2e9, 1900), at(1e9, 15e8, 1000), false},
		{"this reply is late", true, at(2e9, 3e9, 1900), at(1e9, 1e9, 1000), true},
		{"it has fallen", true, at(2e9, 2e9, 1700), at(1e9, 1e9, 1000), false},
		{"in between", true, at(2e9, 2e9, 1850), at(1e9, 1e9, 1000), true},
		{"no time has passed", true, at(1e9, 1e9, 1000), at(1e9, 1e9, 1000), true},
		{"the port has no clock", false, at(0, 2e9, 2000), at(0, 1e9, 1000), true},
		{"fewer bytes", true, at(2e9, 2e9, 900), at(1e9, 1e9, 1000), false},
		{"younger", false, at(5e8, 2e9, 90000), at(1e9, 1e9, 1000), false},
	} {
		if is, _ := trigger.judge(c.was, c.now, c.old, true); is != c.is {
			t.Errorf("%s: %v", c.why, is)
		}
	}
	if is, _ := trigger.judge(true, at(1, 1, 1), sample{}, false); !is {
		t.Error("without an earlier sample it falls")
	}
}

// The request of a switch asks for each entry that one of the triggers selects.
func TestRequestIsWideEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q of13.FlowStatsRequest
		var list []Trigger
		for i := range rapid.IntRange(1, 4).Draw(t, "triggers") {
			g := Trigger{Owner: "o", Name: "n", Of: Entries, Measure: Duration, Above: 1,
				Cookie: Cookie(rapid.Uint64Range(0, 7).Draw(t, "cookie")),
				Mask:   Cookie(rapid.Uint64Range(0, 7).Draw(t, "mask"))}
			if rapid.Bool().Draw(t, "in a table") {
				table := rapid.Uint8Range(0, 2).Draw(t, "table")
				g.Table = &table
			}
			if err := g.complete(); err != nil {
				t.Fatal(err)
			}
			g.widen(&q, i == 0)
			list = append(list, g)
		}
		for table := range uint8(3) {
			for cookie := range uint64(8) {
				asked := (q.TableID == table || q.TableID == of13.TableAll) && (cookie^q.Cookie)&q.CookieMask == 0
				for _, g := range list {
					if g.selects(table, cookie) && !asked {
						t.Fatalf("%+v selects cookie %d in table %d, which %+v does not", g, cookie, table, q)
					}
					if len(list) == 1 && asked != g.selects(table, cookie) {
						t.Fatalf("%+v asks for more than %+v", q, g)
					}
				}
			}
		}
	})
}
