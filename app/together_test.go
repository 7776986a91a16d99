package app_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// transfer moves money from an account to another one.
type transfer struct {
	From, To, Amount uint64
	ID               string
}

// opening is what an account has before its first transfer.
const opening = 100

// bank is an application with an actor for each account. Packets are transfers: FROM TO AMOUNT ID.
func bank(byHand bool) *app.App {
	a := app.New("bank")
	accounts := app.NewTable[uint64, uint64](a, "accounts", app.Sharded)
	done := app.NewMap[uint64, string, uint64](a, "done", app.Sharded)
	cells := func(m transfer) app.Cells {
		return app.Need(accounts.Cell(m.From), done.Cell(m.From), accounts.Cell(m.To))
	}
	if !byHand {
		cells = nil
	}
	app.Handle(a, func(app.PacketIn) app.Cells { return app.Need() }, func(tx *app.Tx, in app.PacketIn) error {
		var m transfer
		if _, err := fmt.Sscan(string(in.Data), &m.From, &m.To, &m.Amount, &m.ID); err != nil {
			return err
		}
		return app.Emit(tx, m)
	})
	balance := func(tx *app.Tx, account uint64) uint64 {
		if v, ok := accounts.Get(tx, account); ok {
			return v
		}
		return opening
	}
	app.HandleEmitted(a, cells, func(tx *app.Tx, m transfer) error {
		times, _ := done.Get(tx, m.From, m.ID)
		done.Put(tx, m.From, m.ID, times+1)
		from := balance(tx, m.From)
		if from < m.Amount {
			return errors.New("overdrawn")
		}
		accounts.Put(tx, m.From, from-m.Amount)
		accounts.Put(tx, m.To, balance(tx, m.To)+m.Amount)
		return nil
	})
	return a
}

func account(n uint64) ledger.Actor {
	return ledger.Actor{App: "bank", Shard: ledger.Shard{Key: ledger.Key{A: n}}}
}

// rest lets everything that waits for actors happen.
func rest(n *apptest.Net) {
	for range 3 {
		n.Advance(time.Millisecond)
	}
	for range 12 {
		n.Advance(time.Second)
	}
}

// balances returns what the accounts have, and how often each transfer was done.
func balances(t apptest.Tester, n *apptest.Net) (sum uint64, done map[string]uint64) {
	done = map[string]uint64{}
	accounts := uint64(0)
	for _, r := range n.Rows("bank") {
		v := uint64(0)
		for i, b := range r.Value {
			v |= uint64(b&0x7f) << (7 * i)
		}
		switch r.Table {
		case "accounts":
			sum, accounts = sum+v, accounts+1
		case "done":
			done[r.Field.S] += v
		}
	}
	if sum != accounts*opening {
		t.Errorf("%d accounts have %d", accounts, sum)
	}
	return sum, done
}

// A handler that needs cells of two actors brings them into one group, and finds them there from then on.
func TestTogether(t *testing.T) {
	for _, byHand := range []bool{true, false} {
		for _, groups := range []uint64{1, 3} {
			n := apptest.NewOf(t, groups, bank(byHand))
			n.SwitchUp(1)
			n.PacketIn(1, 1, of13.NoBuffer, "4 5 10 a")
			n.Advance(time.Millisecond)
			if _, done := balances(t, n); done["a"] != 1 {
				t.Fatalf("%d groups, by hand %v: done %v", groups, byHand, done)
			}
			if n.Lives(account(4)) != n.Lives(account(5)) {
				t.Fatalf("%d groups, by hand %v: the accounts are apart", groups, byHand)
			}
			passed := n.Passed
			n.PacketIn(1, 1, of13.NoBuffer, "4 5 10 b")
			if _, done := balances(t, n); done["b"] != 1 { // without time for anything to wait
				t.Errorf("%d groups, by hand %v: done %v", groups, byHand, done)
			}
			if groups > 1 && n.Passed-passed > 3 {
				t.Errorf("%d groups, by hand %v: %d frames for actors that are together", groups, byHand, n.Passed-passed)
			}
		}
	}
}

// Actors that are named together in any order, and moved meanwhile, end in one group, and stay there: those that are
// connected by transfers. Each transfer is done once, and no money is lost.
func TestTogetherAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := apptest.NewOf(t, 3, bank(rapid.Bool().Draw(t, "by hand")))
		for id := app.Switch(1); id <= 3; id++ {
			n.SwitchUp(id)
		}
		const accounts = 6
		pair := rapid.Uint64Range(1, accounts)
		root := [accounts + 1]uint64{}
		for i := range root {
			root[i] = uint64(i)
		}
		var pairs [][2]uint64
		count := rapid.IntRange(1, 12).Draw(t, "transfers")
		for i := range count {
			from, to := pair.Draw(t, "from"), pair.Draw(t, "to")
			pairs = append(pairs, [2]uint64{from, to})
			for j, r := range root {
				if r == root[from] {
					root[j] = root[to]
				}
			}
			n.PacketIn(app.Switch(1+i%3), 1, of13.NoBuffer, fmt.Sprintf("%d %d 1 t%d", from, to, i))
			n.Advance(time.Duration(rapid.IntRange(0, 3).Draw(t, "time")))
			if rapid.IntRange(0, 3).Draw(t, "moves") == 0 {
				n.Move(account(pair.Draw(t, "moves account")), rapid.Uint64Range(1, 3).Draw(t, "to group"))
			}
		}
		rest(n)
		for i := range count {
			if _, done := balances(t, n); done[fmt.Sprint("t", i)] != 1 {
				t.Fatalf("transfer %d: done %v", i, done)
			}
		}
		lives := func() (groups [accounts + 1]uint64) {
			for i := range groups {
				groups[i] = n.Lives(account(uint64(i)))
			}
			return groups
		}
		for before, round := lives(), 0; ; round++ {
			for i, p := range pairs {
				n.PacketIn(1, 1, of13.NoBuffer, fmt.Sprintf("%d %d 1 r%d-%d", p[0], p[1], round, i))
				for range 4 {
					n.Advance(time.Millisecond)
				}
				if round == accounts && lives() != before {
					t.Fatalf("after %d rounds of %v, accounts are in %v, and were in %v", round, pairs, lives(), before)
				}
				before = lives()
			}
			if round == accounts {
				break
			}
		}
		for a := uint64(1); a <= accounts; a++ {
			for b := a + 1; b <= accounts; b++ {
				if root[a] == root[b] && n.Lives(account(a)) != n.Lives(account(b)) {
					t.Fatalf("accounts %d and %d are in groups %d and %d", a, b, n.Lives(account(a)), n.Lives(account(b)))
				}
			}
		}
	})
}

// An actor comes to a switch whose cells are named with its own, and to the next one. Cells of two switches are
// refused.
func TestTogetherAtSwitch(t *testing.T) {
	for _, byHand := range []bool{true, false} {
		a := app.New("hosts")
		ports := app.NewTable[app.Switch, uint64](a, "ports")
		hosts := app.NewTable[string, uint64](a, "hosts", app.Sharded)
		cells := func(in app.PacketIn) app.Cells {
			c := app.Need(hosts.Cell("h"), ports.Cell(in.Switch))
			if in.InPort == 2 {
				c = c.With(ports.Cell(7))
			}
			return c
		}
		if !byHand {
			cells = nil
		}
		app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
			v, _ := hosts.Get(tx, "h")
			hosts.Put(tx, "h", v+1)
			w, _ := ports.Get(tx, in.Switch)
			ports.Put(tx, in.Switch, w+1)
			if in.InPort == 2 {
				ports.Put(tx, 7, 1)
			}
			return nil
		})
		n := apptest.NewOf(t, 3, a)
		for id := app.Switch(1); id <= 3; id++ {
			n.SwitchUp(id)
		}
		failures := n.MayFail()
		for i := range 6 {
			n.PacketIn(app.Switch(1+i%3), 1, of13.NoBuffer, "")
			for range 4 {
				n.Advance(time.Millisecond)
			}
		}
		rest(n)
		rows := n.Rows("hosts")
		sum := byte(0)
		for _, r := range rows {
			if r.Table == "ports" {
				sum += r.Value[0]
			} else if r.Table == "hosts" && r.Value[0] != 6 {
				t.Errorf("by hand %v: host h was counted %d times", byHand, r.Value[0])
			}
		}
		if sum != 6 || len(*failures) > 0 {
			t.Errorf("by hand %v: %d packets of 6 were counted at switches; failures %q", byHand, sum, *failures)
		}
		n.PacketIn(1, 2, of13.NoBuffer, "")
		rest(n)
		if got := strings.Join(*failures, "; "); !strings.Contains(got, "needs cells of 2 switches") {
			t.Errorf("by hand %v: failures %q", byHand, got)
		}
	}
}

// pairs is an application with values at keys. Packets of port 1 make the value of a key, and those of port 3 one
// that is too large to move. Packets of port 2 name two keys, and a call does.
func pairs() *app.App {
	a := app.New("pairs")
	values := app.NewTable[string, []byte](a, "values", app.Sharded)
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error { // "big" is its first cell on port 2
		key := strings.TrimSpace(string(in.Data[:8]))
		switch in.InPort {
		case 1:
			values.Put(tx, key, in.Data)
			return nil
		case 3:
			values.Put(tx, key, make([]byte, 1<<20+1))
			return nil
		}
		values.Put(tx, strings.TrimSpace(string(in.Data[8:])), in.Data)
		values.Put(tx, key, in.Data)
		return nil
	})
	type both struct{ A, B string }
	app.HandleCall(a, func(q both) app.Cells { return app.Need(values.Cell(q.A), values.Cell(q.B)) },
		func(tx *app.Tx, q both) (string, error) {
			v, _ := values.Get(tx, q.A)
			w, _ := values.Get(tx, q.B)
			return string(v) + string(w), nil
		})
	app.HandleHTTP(a, "GET /{a}/{b}", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		v, err := app.Ask[string](tx, both{r.Values["a"], r.Values["b"]}, time.Minute)
		return app.Response{Body: []byte(v)}, err
	})
	return a
}

// A message fails, and takes no effect, if an actor is too large to move, or does not come. The failure says so.
func TestTogetherFails(t *testing.T) {
	for _, c := range []struct {
		want  string
		port  app.Port // of the first packet
		delay bool
	}{
		{"one of them does not come: application pairs at large does not move to group 3: the actor cannot move",
			3, false},
		{"in 10s these did not come: application pairs at large", 1, true},
	} {
		n := apptest.NewOf(t, 3, pairs())
		failures := n.MayFail()
		n.SwitchUp(1)
		n.PacketIn(1, c.port, of13.NoBuffer, fmt.Sprintf("%-8s", "large"))
		if c.delay {
			n.Delay()
		}
		n.PacketIn(1, 2, of13.NoBuffer, fmt.Sprintf("%-8s%-8s", "large", "big"))
		if c.delay {
			n.Deliver(0) // it reaches its actor, and what that asks is lost
		}
		for range 11 {
			n.Advance(time.Second)
		}
		if got := strings.Join(*failures, "; "); strings.Count(got, c.want) != 1 {
			t.Errorf("failures %q, want %q", got, c.want)
		}
		for _, r := range n.Rows("pairs") {
			if r.Table == "values" && (r.Cell.S != "large" || len(r.Value) == 16) {
				t.Errorf("the message took effect: row %s has %d bytes", r.Cell, len(r.Value))
			}
		}
	}
}

// Who asks, and a client over HTTP, receive the answer of a handler whose actors come together, once they are.
func TestAskTogether(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := pairs()
		n := apptest.NewOf(t, groups, a)
		n.SwitchUp(1)
		for _, key := range []string{"large", "big"} {
			n.PacketIn(1, 1, of13.NoBuffer, fmt.Sprintf("%-8s", key))
		}
		r := n.Call(a, "GET /{a}/{b}", app.Request{Values: map[string]string{"a": "large", "b": "big"}})
		if string(r.Body) != "large   big     " {
			t.Errorf("%d groups: %+v", groups, r)
		}
	}
}
