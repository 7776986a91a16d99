package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// transfer is what the goroutine of the bank emits.
type transfer struct{ From, To, ID uint64 }

// The accounts of the bank, and its transfers.
const (
	bankAccounts  = 6
	bankTransfers = 60
)

// newBank makes an application with an actor for each account, and handlers that need two of them.
func newBank(next *atomic.Uint64) []ledger.Application {
	a := app.New("bank")
	accounts := app.NewTable[uint64, int64](a, "accounts", app.Sharded)
	done := app.NewMap[uint64, uint64, uint64](a, "done", app.Sharded)
	app.Detach(a, func(ctx context.Context, d *app.Detached) {
		for n := next.Add(1); n <= bankTransfers && ctx.Err() == nil; n = next.Add(1) {
			m := transfer{1 + n%bankAccounts, 1 + n*n%bankAccounts, n}
			for ctx.Err() == nil && d.Emit(ctx, m) != nil {
			}
		}
		<-ctx.Done()
	})
	app.HandleEmitted(a, func(m transfer) app.Cells {
		return app.Need(accounts.Cell(m.From), done.Cell(m.From), accounts.Cell(m.To))
	}, func(tx *app.Tx, m transfer) error {
		times, _ := done.Get(tx, m.From, m.ID)
		done.Put(tx, m.From, m.ID, times+1)
		for account, amount := range map[uint64]int64{m.From: -1, m.To: 1} {
			v, _ := accounts.Get(tx, account)
			accounts.Put(tx, account, v+amount)
		}
		return nil
	})
	return []ledger.Application{a}
}

// Actors whose cells a handler needs together come to one group of a running cluster. The optimizer leaves them there,
// and an operator sees which handler brings them together.
func TestBonds(t *testing.T) {
	next := new(atomic.Uint64)
	s := startTestCluster(&testCluster{t: t, apps: func() []ledger.Application { return newBank(next) }, several: true,
		optimizer: &OptimizerConfig{Window: time.Hour}}) // so that actors are counted
	handled := func() (times, most uint64) {
		for _, c := range s.controllers {
			for _, g := range c.groups.all() {
				err := g.inLoop(t.Context(), func() {
					if !g.led.here.Load() {
						return
					}
					rows, _ := g.core.ledger.Rows("bank", 1<<20)
					for _, r := range rows {
						if r.Table == "done" {
							times, most = times+uint64(r.Value[0]), max(most, uint64(r.Value[0]))
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return times, most
	}
	await.Until(t, "all transfers", func() bool { times, _ := handled(); return times >= bankTransfers })
	if times, most := handled(); times != bankTransfers || most != 1 {
		t.Errorf("%d transfers were done %d times, one of them %d times", bankTransfers, times, most)
	}
	of := map[uint64]uint64{} // the root of each account
	for n := uint64(1); n <= bankAccounts; n++ {
		of[n] = n
	}
	for n := uint64(1); n <= bankTransfers; n++ {
		from, to := of[1+n%bankAccounts], of[1+n*n%bankAccounts]
		for account, root := range of {
			if root == max(from, to) {
				of[account] = min(from, to)
			}
		}
	}
	c := s.controllers[1]
	actor := func(n uint64) ledger.Actor {
		return ledger.Actor{App: "bank", Shard: ledger.Shard{Key: ledger.Key{A: n}}}
	}
	for n, root := range of {
		await.Until(t, "the accounts to be together", func() bool {
			at, known := c.lives(actor(n))
			with, _ := c.lives(actor(root))
			return known && at.Group == with.Group
		})
	}
	var list []answered[Tally]
	for _, c := range s.controllers {
		tally, err := c.Tally(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, answered[Tally]{value: &tally})
	}
	all := joinActors("c1", list)
	if len(all.Bonds) == 0 {
		t.Fatalf("no bonds are shown: %+v", all.Actors)
	}
	if b := all.Bonds[0]; b.Actors < 2 || b.Of > bankAccounts+1 || !strings.Contains(b.Handler, "bond_test.go:") {
		t.Errorf("bond %+v", b)
	}
	for i := range all.Actors {
		if a := &all.Actors[i]; a.Bond != nil && c.stays(&a.ActorTally) != staysBonded {
			t.Errorf("%s stays because of %q", a.Actor, c.stays(&a.ActorTally))
		}
	}
}
