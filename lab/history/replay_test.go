package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Applications that do something else, or an input that was not due, are noticed: Ravana, section 4.
func TestRunIsThatOfASingleController(t *testing.T) {
	other := func(a echoer) func() []ledger.Application {
		return func() []ledger.Application { return []ledger.Application{a} }
	}
	for _, tc := range []struct {
		name string
		apps func() []ledger.Application
		want string
	}{
		{"other commands", other(echoer{"Re ", 50 * ms}),
			"entry 3 of term 1: a single controller makes something else of its inputs: operation 5 is command 1 " +
				"of switch 0000000000000001"},
		{"other timers", other(echoer{"re ", 51 * ms}),
			"entry 2 of term 1: a single controller makes something else of its inputs: operation 4 is set timer"},
		{"no applications", func() []ledger.Application { return nil },
			"operation 2 is table echoer/seen, not event 1 of switch 0000000000000002"},
		{"one more", func() []ledger.Application { return append(echoers(), failing{}) },
			"not failure of one more: always"},
	} {
		found := plainRun(t).play(tc.apps, ledger.Limits{})
		if len(found) != 1 || !strings.Contains(found[0], tc.want) {
			t.Errorf("%s: found %q\nwanted %s", tc.name, found, tc.want)
		}
	}
	timer := sized([]byte{byte(ledger.OpTimer)}, []byte("echoer"))
	timer = sized(append(binary.BigEndian.AppendUint64(timer, 1), 0, 0, 0), []byte("t0000000000000001"))
	testCorruptions(t, []corruption{
		{"a timer that is not due", forged(6, ops(timer)),
			"entry 8 of term 1: a single controller does not take its input: ledger: entry (term 1, batch 7), " +
				"operation 3 at byte 13: timer t0000000000000001 of application echoer at switch 0000000000000001 is not due"},
		{"a message in place of its digest", forged(12, func(e entry) []byte {
			event := seenOp(1, 20, 3, message("eight"))
			at := bytes.Index(e.data, event)
			return slices.Concat(e.data[:at], eventOp(1, 20, 3, message("eight")), e.data[at+len(event):])
		}), "operation 1 is event 3 of switch 0000000000000001, epoch 20: a message of type 10, xid 0x0, 13 bytes, " +
			"not event 3 of switch 0000000000000001, epoch 20: a message of type 10, digest"},
		{"an operation more", forged(6, with(timer)), "is not due"},
		{"an operation less", forged(3, ops(doneOp(2, 11, 4), commandOp(1, 5, message("x")))), "a single controller"},
		{"a switch that is there is said to be there", forged(6, ops(ofSwitch(ledger.OpReachable, 1, 10))),
			"operation 1 is switch 0000000000000001, epoch 10, operation 5, not the end"},
	})
}

// failing is an application that always does.
type failing struct{}

func (failing) Name() string                           { return "one more" }
func (failing) Handle(*ledger.Tx, *ledger.Input) error { return errors.New("always") }

// A leader that logs one time after the other, and lets no timer go off, is broken; one whose batches
// are full may not get to it.
func TestTimersGoOff(t *testing.T) {
	for _, tc := range []struct {
		name       string
		times      int
		step       int64
		full, late bool
	}{
		{"a moment", patience, 100e6, false, false},
		{"for ever", patience + 2, 100e6, false, true},
		{"the clock stands still", 50, 0, false, false},
		{"full batches", 50, 100e6, true, false},
	} {
		limits := ledger.Limits{BatchBytes: 50}
		tp := runWithin(t, limits)
		tp = tp[:len(tp)-1]
		last := tp[len(tp)-1] // an entry that says what is done
		h, err := ledger.Walk(last.data, func(*ledger.Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		h.Time += 1e9
		failed := sized(sized([]byte{byte(ledger.OpFailure)}, []byte("echoer")), []byte("bad message"))
		for i := range tc.times {
			h.Batch++
			h.Time += tc.step
			last.seq++
			last.data = header(h)
			if tc.full && i%4 == 0 {
				tp = append(tp, call{what: "read", id: 2, epoch: 11, data: message("bad")})
				last.data = slices.Concat(last.data, seenOp(2, 11, uint64(5+i/4), message("bad")), failed)
			}
			tp = append(tp, last)
		}
		found := tp.play(echoers, limits)
		if len(found) > 0 != tc.late || tc.late && !strings.Contains(found[0], "a timer was due") {
			t.Errorf("%s: %q", tc.name, found)
		}
	}
}

// The ledger closes an epoch for what it has not yet forgotten, which is more than what the log says is
// not done; the replay finds out how much that was.
func TestOverflowIsReplayed(t *testing.T) {
	limits := ledger.Limits{QueueCommands: 6}
	for held := range 4 { // entries in flight, of which the first says that a command is done
		b := newBed(t, limits)
		b.up(1, 10)
		b.up(2, 11)
		b.commitAll()
		b.say(2, "first")
		b.cut()
		b.commitOne()
		for range held {
			b.say(2, "more")
			b.cut()
		}
		for b.core().Switches()[0].Live {
			b.say(2, "too much")
		}
		for id, s := range b.switches {
			b.see(call{what: "lost", id: id, epoch: s.epoch})
			s.epoch = 0
		}
		tp := b.finish()
		if found := tp.play(echoers, limits); len(found) > 0 {
			t.Errorf("%d held: %q", held, found)
		}
		if found := tp.play(echoers, ledger.Limits{QueueCommands: 7}); len(found) != 1 ||
			!strings.Contains(found[0], "the ledger closes epoch 10 when 6 commands are not done; the bound is 7") {
			t.Errorf("%d held, with another bound: %q", held, found)
		}
		if found := tp.play(echoers, ledger.Limits{QueueCommands: 4}); len(found) != 1 ||
			!strings.Contains(found[0], "the bound is 4") {
			t.Errorf("%d held, with a smaller bound: %q", held, found)
		}
	}
}

// Any run of a ledger that loses nothing passes.
func TestAnyRunPasses(t *testing.T) {
	closed, entries := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		limits := ledger.Limits{QueueCommands: 3 + r.IntN(20), BatchInputs: 1 + r.IntN(6),
			BatchBytes: 1 << (5 + r.IntN(8))}
		b := newBed(t, limits)
		for i := range 400 {
			id := openflow.DatapathID(1 + r.IntN(3))
			b.step(r, id, uint64(i))
		}
		b.rest()
		tp := b.finish()
		if found := tp.play(echoers, limits); len(found) > 0 {
			t.Fatalf("seed %d: %s", seed, found)
		}
		for _, c := range tp {
			if c.what == "committed" && c.node == 0 {
				entries++
				closed += strings.Count(strings.Join(operations(c.data), "\n"),
					fmt.Sprintf("operation %d", ledger.OpCloseEpoch))
			}
		}
	}
	if closed < 100 {
		t.Errorf("%d epochs were closed in %d entries: that is little", closed, entries)
	}
}

// alive says whether a switch has an epoch, and lets it hear that the ledger has closed it.
func (b *bed) alive(id openflow.DatapathID) bool {
	live := slices.ContainsFunc(b.core().Switches(),
		func(st ledger.SwitchStatus) bool { return st.Switch == id && st.Live })
	if s := b.switches[id]; s != nil && s.epoch != 0 && !live {
		b.see(call{what: "lost", id: id, epoch: s.epoch})
		s.epoch = 0
	}
	return live
}

// rest lets all switches execute what they have.
func (b *bed) rest() {
	for id := openflow.DatapathID(1); int(id) <= len(b.switches); id++ {
		if b.switches[id].stuck = false; b.alive(id) {
			b.execute(id)
		}
	}
}

// step does one thing.
func (b *bed) step(r *rand.Rand, id openflow.DatapathID, number uint64) {
	b.t.Helper()
	if !b.alive(id) {
		b.up(id, 1000+number)
		return
	}
	switch n := r.IntN(20); {
	case n < 8 && b.core().Room():
		b.say(id, []string{"one", "two", "bad"}[r.IntN(3)]+strings.Repeat("x", r.IntN(9)))
	case n < 11:
		b.cut()
	case n < 14 && len(b.inFlight) > 0:
		b.commitOne()
	case n == 14:
		b.pass(30 * ms)
	case n == 15:
		b.core().Unreachable(id)
	case n == 16 && r.IntN(4) == 0:
		b.down(id)
	case n == 17 && r.IntN(4) == 0:
		b.failover()
	case n == 18:
		s := b.switches[id]
		if s.stuck = !s.stuck; !s.stuck {
			b.execute(id)
		}
	}
}

// The cost of one event that two applications' worth of operations come from, at three controllers.
func BenchmarkHistory(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("events=%d", batch), func(b *testing.B) {
			bed := newBed(b, ledger.Limits{})
			bed.up(1, 10)
			for range 2048 / batch {
				for range batch {
					bed.say(1, "a frame of a usual length, that is about sixty bytes or so .")
				}
				bed.commitAll()
			}
			tp := bed.finish()
			events := 0
			b.ReportAllocs()
			for b.Loop() {
				if found := tp.play(echoers, ledger.Limits{}); len(found) > 0 {
					b.Fatal(found)
				}
				events += 2048
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}
