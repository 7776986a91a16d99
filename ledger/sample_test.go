package ledger

import (
	"errors"
	"testing"

	"github.com/holdfast-sdn/holdfast/tally"
)

// lacks is how many transactions of a switch a report may lack; see tally.Sampling.
const lacks = 2*tally.SampleEvery - 2

// countsOf returns what a leader has counted of an actor.
func countsOf(t *testing.T, c *Core, id Actor) tally.Counts {
	t.Helper()
	r, ok := c.Report()
	if !ok {
		t.Fatal("nothing is counted")
	}
	for _, a := range r.Actors {
		if a.ID == id {
			return a.Counts
		}
	}
	return tally.Counts{}
}

// TestReportOfSample: of a busy switch a sample is counted, which stands for all of its events; failures and messages
// that are refused are counted one by one, whether their transactions are in the sample or not.
func TestReportOfSample(t *testing.T) {
	const events, failEvery = 5000, 50
	n := 0
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message || !tx.Enter(AtSwitch(in.Switch)) {
			return nil
		}
		switch n++; n % failEvery {
		case 1:
			return errors.New("fails")
		case 2:
			tx.Refused(true)
		case 3:
			tx.Refused(true)
			return errors.New("what it did is undone")
		}
		tx.Send(in.Switch, simCommand("x"))
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	for seq := range uint64(events) {
		p.event(1, 1, seq+2, packetIn("1"))
		if seq%500 == 0 {
			p.commit()
		}
	}
	p.commit()
	sw, got := countsOf(t, p.leader, theSwitch(1)), countsOf(t, p.leader, Actor{App: "a", Shard: AtSwitch(1)})
	if sw.Outputs > events+1 || sw.Outputs < events+1-lacks {
		t.Errorf("%d events of %d are counted", sw.Outputs, events+1)
	}
	if got.Inputs != sw.Outputs-1 { // but for SWITCH_UP
		t.Errorf("%d inputs of %d events", got.Inputs, sw.Outputs)
	}
	if sum := got.Outputs + got.Inputs/(failEvery/2); sum > got.Inputs*105/100 || sum < got.Inputs*95/100 {
		t.Errorf("%d commands for %d inputs, of which 2 in %d fail", got.Outputs, got.Inputs, failEvery)
	}
	if got.Failures != 2*events/failEvery || got.Dropped != events/failEvery {
		t.Errorf("%d failed and %d were dropped, want %d and %d", got.Failures, got.Dropped, 2*events/failEvery,
			events/failEvery)
	}
}

// TestHeldSample: an event that is undone and comes again, because another group does not take what it causes, counts
// once.
func TestHeldSample(t *testing.T) {
	c := mustNew(t, Limits{OutboxItems: 64}, &script{name: "a", do: func(tx *Tx, in *Input) error {
		tx.Enter(Shard{}) // in another group
		return nil
	}})
	c.Join(0, func(a Actor) (Assignment, bool) {
		if a.Switch != 0 {
			return Assignment{Group: 0, Version: 1}, true
		}
		return Assignment{Group: 1, Version: 1}, true
	})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Lead(1, 1000))
	must(c.Event(1, 1, 1, switchUp()))
	events, undone := uint64(1), 0
	for events < 3000 {
		if events == 2999 {
			c.Tick(2e9) // so that the last one is the first of a second, and stands for all before it
		}
		switch err := c.Event(1, 1, events+1, packetIn("x")); {
		case err == nil:
			events++
			continue
		case !errors.Is(err, ErrFull):
			t.Fatal(err)
		}
		if undone++; undone%100 > 0 {
			continue // it is tried in vain
		}
		for entry, ok := c.Cut(); ok; entry, ok = c.Cut() {
			must(c.Commit(entry))
		}
		k := Link{theSwitch(1), Actor{App: "a"}}
		c.Frames(func(uint64, []byte) {})
		must(c.Acknowledged(k, c.state.links.out[k].outbox.Last(), false))
	}
	if got := countsOf(t, c, theSwitch(1)).Outputs; got != events {
		t.Errorf("%d events are counted of %d, %d were undone", got, events, undone)
	}
}
