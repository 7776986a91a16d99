package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// metered notes, for each key, the packets that its actor handles: their first byte is the key. It handles ten a second
// of each key, and two at once. Another handler of the application counts them at the switch.
func metered(byHand bool, level app.Level) (a *app.App, handled map[string][]string, counted *int) {
	a = app.New("metered").RateLimit(10, 2)
	seen := app.NewTable[string, string](a, "seen", app.Sharded)
	counts := app.NewTable[app.Switch, uint64](a, "counts")
	handled, counted = map[string][]string{}, new(int)
	cells := func(in app.PacketIn) app.Cells {
		if len(in.Data) == 0 {
			return app.Drop()
		}
		return app.Need(seen.Cell(string(in.Data[:1])))
	}
	if !byHand {
		cells = nil
	}
	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		key := string(in.Data[:1])
		before, _ := seen.Get(tx, key)
		seen.Put(tx, key, before+string(in.Data[1:]))
		if strings.HasSuffix(string(in.Data), "?") {
			return fmt.Errorf("%s fails", in.Data)
		}
		handled[key] = append(handled[key], string(in.Data[1:]))
		return nil
	}, app.At(level))
	app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
		_, _ = seen.Get(tx, string(in.Data[:1]))
		*counted++
		return nil
	}, app.At(level))
	app.Handle(a, func(in app.SwitchDown) app.Cells { return app.Need(counts.Cell(in.Switch)) },
		func(tx *app.Tx, in app.SwitchDown) error { counts.Put(tx, in.Switch, 1); return nil })
	return a, handled, counted
}

// What is above the rate of an actor waits, in order, while other actors go on. All handlers of a message count once.
func TestRateLimit(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		for _, byHand := range []bool{true, false} {
			a, handled, counted := metered(byHand, app.ExactlyOnce)
			n := apptest.NewOf(t, groups, a)
			n.SwitchUp(1)
			expect := func(when string, want ...string) {
				t.Helper()
				if !slices.Equal(handled["x"], want) || *counted != len(handled["x"])+len(handled["y"]) {
					t.Fatalf("%d groups, by hand %v, %s: %q, and the second handler ran %d times; want %q", groups,
						byHand, when, handled["x"], *counted, want)
				}
			}
			for _, data := range []string{"x1", "x2", "x3", "x4", "x5", "y1"} {
				n.PacketIn(1, 1, of13.NoBuffer, data)
			}
			if byHand {
				expect("at once", "1", "2")
			}
			handled["x"], *counted = []string{"1", "2"}, 3 // handlers without a map function run to find out
			n.Advance(99 * time.Millisecond)
			expect("after 99 ms", "1", "2")
			n.Advance(time.Millisecond)
			expect("after 100 ms", "1", "2", "3")
			n.PacketIn(1, 1, of13.NoBuffer, "x6")
			handled["x"], *counted = []string{"1", "2", "3"}, 4
			n.Advance(250 * time.Millisecond)
			expect("after 350 ms", "1", "2", "3", "4", "5")
			n.Advance(time.Hour)
			expect("in the end", "1", "2", "3", "4", "5", "6")
			if len(handled["y"]) != 1 {
				t.Errorf("%d groups: the other actor has %q", groups, handled["y"])
			}
			for _, r := range n.Rows("metered") {
				if r.Table == "seen" && r.Cell.S == "x" && string(r.Value) != "123456" {
					t.Errorf("%d groups: the actor has %q", groups, r.Value)
				}
			}
		}
	}
}

// A message below exactly once is dropped and not kept.
func TestRateLimitDrops(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a, handled, _ := metered(true, app.Reliable)
		n := apptest.NewOf(t, groups, a)
		n.SwitchUp(1)
		for i := range 5 {
			n.PacketIn(1, 1, of13.NoBuffer, fmt.Sprint("b", i))
		}
		n.Advance(time.Hour)
		n.PacketIn(1, 1, of13.NoBuffer, "b5")
		if got := handled["b"]; !slices.Equal(got, []string{"0", "1", "5"}) {
			t.Errorf("%d groups: %q", groups, got)
		}
	}
}

// What waits fails alone, and does not count; and SwitchDown waits for it.
func TestRateLimitFails(t *testing.T) {
	a := app.New("a").RateLimit(1, 1)
	log := app.NewTable[app.Switch, string](a, "log")
	note := func(tx *app.Tx, s app.Switch, what string) {
		before, _ := log.Get(tx, s)
		log.Put(tx, s, before+what)
	}
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(log.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			note(tx, in.Switch, string(in.Data))
			if string(in.Data) == "?" {
				panic("?")
			}
			return nil
		})
	app.Handle(a, func(in app.SwitchDown) app.Cells { return app.Need(log.Cell(in.Switch)) },
		func(tx *app.Tx, in app.SwitchDown) error { note(tx, in.Switch, "down"); return nil })
	n := apptest.New(t, a)
	failed := n.MayFail()
	n.SwitchUp(1)
	for _, data := range []string{"1", "?", "2", "3"} {
		n.PacketIn(1, 1, of13.NoBuffer, data)
	}
	n.SwitchDown(1)
	for range 6 {
		n.Advance(time.Second)
	}
	rows := n.Rows("a")
	i := slices.IndexFunc(rows, func(r ledger.Row) bool { return r.Table == "log" })
	if i < 0 || string(rows[i].Value) != "123down" || len(*failed) != 1 {
		t.Errorf("rows %v, failures %q", rows, *failed)
	}
	n.SwitchUp(1)
	for range 1200 {
		n.PacketIn(1, 1, of13.NoBuffer, "")
	}
	if len(*failed) != 1200-1024 { // one was handled, and one failed before
		t.Errorf("%d messages fail", len(*failed))
	}
}

// A request of an HTTP client that waits is answered when it is handled, with a map function and without.
func TestRateLimitHTTP(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		a := app.New("a").RateLimit(1, 1)
		hosts := app.NewTable[string, uint64](a, "hosts", app.Sharded)
		cells := func(app.Request) app.Cells { return app.Need(hosts.Cell("h")) }
		if !sharded {
			cells = nil
		}
		app.HandleHTTP(a, "GET /", cells, func(*app.Tx, app.Request) (app.Response, error) {
			return app.Response{Body: []byte("yes")}, nil
		})
		core, err := ledger.New([]ledger.Application{a}, ledger.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		shard, err := a.Callee("GET /", httpcall.Encode(app.Request{}))
		if err != nil {
			t.Fatal(err)
		}
		var answers []ledger.Answer
		commit := func() {
			if entry, ok := core.Cut(); ok {
				if err := core.Commit(entry); err != nil {
					t.Fatal(err)
				}
			}
			answers = append(answers, core.Answers()...)
		}
		core.Instrument(func() time.Duration { return 0 })
		if err := core.Lead(1, 1); err != nil {
			t.Fatal(err)
		}
		for id := range uint64(2) {
			err := core.Call(ledger.Call{Actor: ledger.Actor{App: "a", Shard: shard}, Name: "GET /",
				Message: httpcall.Encode(app.Request{}), Caller: 7, ID: id})
			if err != nil {
				t.Fatal(err)
			}
		}
		commit()
		if len(answers) != 1 {
			t.Fatalf("answers %v at once", answers)
		}
		core.Tick(1 + int64(time.Second))
		commit()
		if len(answers) != 2 || answers[1].ID != 1 || answers[1].Failed ||
			!strings.Contains(string(answers[1].Message), "yes") {
			t.Errorf("sharded %v: answers %v", sharded, answers)
		}
		r, _ := core.Report()
		if len(r.Actors) != 1 || r.Actors[0].Late != 1 || r.Actors[0].Dropped != 0 || r.Actors[0].Inputs != 3 {
			t.Errorf("sharded %v: counted %+v; two requests and a timer are handled, and one was late", sharded, r.Actors)
		}
	}
}

// What waits moves with the actor, in order, and is handled once in the other group.
func TestRateLimitMoves(t *testing.T) {
	a := app.New("a").RateLimit(10, 1)
	got := app.NewTable[string, string](a, "got", app.Sharded)
	var order []string
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(got.Cell("k")) },
		func(tx *app.Tx, in app.PacketIn) error {
			before, _ := got.Get(tx, "k")
			got.Put(tx, "k", before+string(in.Data))
			order = append(order, string(in.Data))
			return nil
		})
	n := apptest.NewOf(t, 3, a)
	actor := ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: "k"}}}
	n.SwitchUp(1)
	n.SwitchUp(2)
	for i := range 5 {
		n.PacketIn(app.Switch(1+i%2), 1, of13.NoBuffer, fmt.Sprint(i))
	}
	n.Move(actor, 1)
	n.PacketIn(1, 1, of13.NoBuffer, "5")
	for range 6 {
		n.Advance(100 * time.Millisecond)
	}
	if !slices.Equal(order, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("handled %q", order)
	}
}

// A replica that leads next goes on with what waits, and all replicas agree.
func TestRateLimitFailover(t *testing.T) {
	apps := func() []*app.App {
		a, _, _ := metered(true, app.ExactlyOnce)
		return []*app.App{a}
	}
	g := apptest.NewGroup(t, 1, apps, func(ledger.Release) {})
	seq := uint64(0)
	event := func(msg []byte) {
		seq++
		n := seq
		g.Input(func(c *ledger.Core) {
			if err := c.Event(1, 1, n, msg); err != nil {
				t.Fatal(err)
			}
		})
	}
	event(apptest.Up(1))
	packet := func(data string) []byte {
		return (&of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(data)), Match: of13.Match(nil).WithInPort(1),
			Data: []byte(data)}).Append(nil, 0)
	}
	for i := range 6 {
		g.Crash = apptest.Crash(i % 3)
		event(packet(fmt.Sprint("x", i)))
	}
	for range 10 {
		g.Failover()
		g.Input(g.Until(g.Now + int64(100*time.Millisecond)))
	}
	g.Agree()
	rows := g.Rows("metered")
	i := slices.IndexFunc(rows, func(r ledger.Row) bool { return r.Table == "seen" })
	if i < 0 || string(rows[i].Value) != "012345" || len(rows) != 2 {
		t.Errorf("rows %v", rows)
	}
}
