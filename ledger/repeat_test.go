package ledger

import (
	"slices"
	"testing"
	"time"
)

// A checker fires timers as a log has them, and is told if that is not their order. What waits is named as in the log.
func TestRepeatTimers(t *testing.T) {
	a := &script{name: "a"}
	var waits []string
	a.do = func(tx *Tx, in *Input) error {
		if in.Kind != SwitchUp {
			return nil
		}
		for i := range 2 {
			name, err := tx.Wait(time.Duration(10*(i+1)), nil, CellName{})
			if err != nil {
				return err
			}
			waits = append(waits, name)
		}
		return nil
	}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	h, err := Walk(p.entries[0][:headerLen(p.entries[0])], nil)
	p.must(err)
	again := mustNew(t, Limits{}, a)
	p.must(again.LeadAs(h))
	was := slices.Clone(waits)
	p.must(again.Event(1, 1, 1, switchUp()))
	if entry, ok := again.Cut(); !ok || !slices.Equal(entry, p.entries[0]) || !slices.Equal(waits[2:], was) {
		t.Fatalf("the entry is not the same, with timers %q and before %q", waits[2:], was)
	} else {
		p.must(again.Commit(entry))
	}
	fire := func(name string, now int64) (first bool, err error) {
		return again.Fire(&Record{Op: OpTimer, Actor: Actor{App: "a", Shard: AtSwitch(1)}, Name: name}, now)
	}
	h.Time += 100
	p.must(again.LeadAs(h))
	if first, err := fire(was[1], h.Time); err != nil || first {
		t.Errorf("the second timer: %v, first %v", err, first)
	}
	if _, err := fire(was[1], h.Time); err == nil {
		t.Error("a timer that has gone off is due")
	}
	if first, err := fire(was[0], h.Time); err != nil || !first {
		t.Errorf("the first timer: %v, first %v", err, first)
	}
}
