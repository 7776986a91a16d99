package history

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

func TestLogIsOneForAll(t *testing.T) {
	rewritten := func(change func(*ledger.Header)) func(entry) []byte {
		return func(e entry) []byte {
			change(&e.header)
			return append(header(e.header), e.data[e.body:]...)
		}
	}
	testCorruptions(t, []corruption{
		{"other bytes", changed("committed", 5, lastByte), "controller 1 is handed entry 4 with"},
		{"other bytes, of the one that is ahead", changed("committed", 26, func(c *call) {
			c.data = ops(doneOp(1, 20, 3))(entry{header: ledger.Header{Term: 2, Batch: 7, Time: 1 << 62}})
		}),
			"controller 1 is handed entry 16 with"},
		{"another term", changed("committed", 5, func(c *call) { c.term = 2 }),
			"controller 1 is handed entry 4 with term 2; others with 1"},
		{"an entry is left out", without("committed", 5), "controller 1 is handed entry 5 where 4 is next"},
		{"an entry comes twice", twice("committed", 5), "controller 1 is handed entry 4 after 4"},
		{"an old entry comes", func(tp tape) tape {
			return slices.Insert(tp, tp.find("committed", 13),
				tp[tp.find("committed", 5)])
		}, "controller 1 is handed entry 4 where 8 is next"},
		{"entries are swapped", swapped("committed", 25),
			"entry 16 of term 2: switch 0000000000000001, epoch 20: command 3 is logged as done; the switch has " +
				"executed 1"},
		{"nobody leads", without("leading", 1), "entry 10 has term 2, in which nobody leads"},
		{"a term has two leaders", changed("leading", 1, func(c *call) { c.term = 1 }),
			"term 1 is led twice: by controller 0, and by controller 1"},
		{"the term falls", func(tp tape) tape {
			return forged(8, rewritten(func(h *ledger.Header) { h.Term, h.Batch = 1, 8 }))(changed("committed", 16,
				func(c *call) { c.term = 1 })(tp))
		}, "entry 11 has term 1; entry 10 has 2"},
		{"an entry of another term", forged(7, rewritten(func(h *ledger.Header) { h.Term = 1 })),
			"entry 10 was cut in term 1 and is committed in term 2"},
		{"a batch is lost", forged(8, rewritten(func(h *ledger.Header) { h.Batch++ })),
			"entry 11 is batch 3 of term 2; entry 10 is 1"},
		{"the first batch is lost", forged(7, rewritten(func(h *ledger.Header) { h.Batch++ })),
			"entry 10 is batch 2 of term 2, whose first it is"},
		{"time goes back", forged(7, rewritten(func(h *ledger.Header) { h.Time -= 61e6 })),
			"entry 10: ledger time goes back by 61000000 ns since entry 8"},
		{"no entry", forged(7, func(entry) []byte { return []byte{6, 0, 2} }),
			"controller 0 is handed entry 10: ledger: entry header: ends within a field"},
		{"nonsense", forged(7, with([]byte{99})), "entry 10 of term 2: ledger: entry (term 2, batch 1), operation 99"},
		{"a replica stays behind", changed("finish", 0,
			func(c *call) { c.replicas[1] = Replica{Applied: 15, Snapshot: c.replicas[1].Snapshot} }),
			"controller 1 ends at entry 15; the log ends at 16"},
	})
}

// A controller that starts again is handed the log from its beginning, or a snapshot and the rest.
func TestRestartedController(t *testing.T) {
	restart := func(from int) tape {
		tp := plainRun(t)
		end := len(tp) - 1
		for _, c := range slices.Clone(tp)[:end] {
			if c.what == "committed" && c.node == 1 {
				if from--; from < 0 {
					tp = slices.Insert(tp, len(tp)-1, c)
				}
			}
		}
		return tp
	}
	if found := restart(0).play(echoers, ledger.Limits{}); len(found) > 0 {
		t.Errorf("from the beginning: %q", found)
	}
	if found := restart(3).play(echoers, ledger.Limits{}); len(found) == 0 {
		t.Error("it may begin anywhere")
	}
	tp := restart(3)
	at := tp.find("finish", 0)
	for tp[at-1].what == "committed" {
		at--
	}
	for tp[at].seq != 5 {
		at++
	}
	tp = slices.Insert(tp, at, call{what: "restored", node: 1, seq: 4, data: stateAfter(t, tp, 3)})
	if found := tp.play(echoers, ledger.Limits{}); len(found) > 0 {
		t.Errorf("from a Snapshot: %q", found)
	}
}
