package ledger_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/app"
	. "github.com/holdfast-sdn/holdfast/ledger"
)

// errand tells an actor of the application "caller" to call one of "callee". Chaos emits it.
type errand struct {
	ID       string // of the call; unique
	From, To uint64 // keys of the actors
	Limit    time.Duration
	Ask      bool
	Waits    time.Duration // how long the callee postpones the request
}

const errandName = "github.com/holdfast-sdn/holdfast/ledger_test.errand"

// done is the answer.
type done struct{ ID string }

// newCaller makes the caller, which notes how each call has ended.
func newCaller(c *cluster) *app.App {
	a := app.New("caller")
	ended := app.NewMap[uint64, string, string](a, "ended", app.Sharded)
	cells := func(e errand) app.Cells { return app.Need(ended.Cell(e.From)) }
	end := func(tx *app.Tx, e errand, d done, err error) {
		if how, _ := ended.Get(tx, e.From, e.ID); how != "called" {
			c.fatalf("call %s ends twice: %s, and then %v", e.ID, how, err)
		}
		switch failed := app.CallError(""); {
		case errors.Is(err, app.ErrLate):
			ended.Put(tx, e.From, e.ID, "late")
		case errors.As(err, &failed):
			ended.Put(tx, e.From, e.ID, "failed")
		case err != nil || d.ID != e.ID:
			c.fatalf("call %s is answered with %v (%v)", e.ID, d, err)
		default:
			ended.Put(tx, e.From, e.ID, "answered")
		}
	}
	fails := func() error {
		switch c.rng.IntN(16) {
		case 0:
			panic("caller")
		case 1:
			return errors.New("caller")
		}
		return nil
	}
	app.HandleEmitted(a, cells, func(tx *app.Tx, e errand) error {
		ended.Put(tx, e.From, e.ID, "called")
		if !e.Ask {
			return errors.Join(fails(), app.Call(tx, e, e.Limit))
		}
		d, err := app.Ask[done](tx, e, e.Limit)
		if err != nil && !errors.Is(err, app.ErrLate) && !errors.As(err, new(app.CallError)) {
			return err
		}
		end(tx, e, d, err)
		return nil
	})
	app.HandleAnswer(a, cells, func(tx *app.Tx, m app.Answer[errand, done]) error {
		end(tx, m.Request, m.Value, m.Err)
		return nil
	})
	return a
}

// newCallee makes the callee, which counts how often it has executed each request.
func newCallee(c *cluster) *app.App {
	a := app.New("callee")
	times := app.NewMap[uint64, string, uint64](a, "times", app.Sharded)
	cells := func(e errand) app.Cells { return app.Need(times.Cell(e.To)) }
	app.HandleCall(a, cells, func(tx *app.Tx, e errand) (done, error) {
		n, _ := times.Get(tx, e.To, e.ID)
		times.Put(tx, e.To, e.ID, n+1)
		switch p := c.rng.IntN(8); {
		case e.Waits > 0 && p < 3:
			return done{}, app.Later(e.Waits)
		case e.Waits > 0 && p < 6:
			return done{}, app.Later(e.Waits, times.Cell(e.To))
		case p == 6:
			return done{}, errors.New("callee")
		case p == 7:
			panic("callee")
		}
		return done{e.ID}, nil
	})
	return a
}

// errand emits an errand.
func (a *chaos) errand(tx *Tx, text func(string) string) {
	rng := a.c.rng
	e := errand{ID: text(fmt.Sprint("errand ", a.c.unique())), From: 1 + rng.Uint64N(3), To: 1 + rng.Uint64N(3),
		Limit: time.Duration(1 + rng.IntN(30_000)), Ask: rng.IntN(2) == 0, Waits: time.Duration(rng.IntN(10_000))}
	if a.c.site != nil && rng.IntN(4) > 0 {
		e.Limit *= 1000 // else nobody answers in time
	}
	if rng.IntN(3) > 0 {
		e.Waits = 0
	}
	body, err := cbor.Marshal(e)
	if err != nil {
		a.c.fatalf("%v", err)
	}
	_ = tx.Emit(errandName, body) // an error means that the bound is reached
}

// callCounts says how calls have ended.
type callCounts struct{ Answered, Failed, Late, Executed int }

func (k *callCounts) add(o callCounts) {
	*k = callCounts{k.Answered + o.Answered, k.Failed + o.Failed, k.Late + o.Late, k.Executed + o.Executed}
}

// checkCalls checks, when nothing is in flight, that each call has ended, and that its request was executed once if it
// was answered, and not at all if it failed.
func checkCalls(clusters ...*cluster) (sum callCounts) {
	calls, times := map[string]string{}, map[string]string{}
	for _, c := range clusters {
		for name, to := range map[string]map[string]string{"caller": calls, "callee": times} {
			rows, err := c.nodes[c.leader].core.Rows(name, 1<<30)
			if err != nil {
				c.fatalf("%v", err)
			}
			for _, r := range rows {
				if to[r.Field.S] != "" {
					c.fatalf("%s: call %s is there twice", name, r.Field.S)
				}
				to[r.Field.S] = string(r.Value)
			}
		}
	}
	c := clusters[0]
	for id, n := range times {
		if sum.Executed++; n != "\x01" || calls[id] == "" || calls[id] == "failed" {
			c.fatalf("call %s was executed %x times and has ended as %q", id, n, calls[id])
		}
	}
	for id, how := range calls {
		switch {
		case how == "answered" && times[id] != "":
			sum.Answered++
		case how == "failed":
			sum.Failed++
		case how == "late":
			sum.Late++
		default:
			c.fatalf("call %s is %s, and was executed %x times", id, how, times[id])
		}
	}
	return sum
}
