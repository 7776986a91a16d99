package app_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

type (
	lookup struct{ Host string }
	found  struct {
		Port  app.Port
		Times uint64
	}
)

// inventory answers lookups: of hosts whose name begins with x with an error, of "panic" not at all, and of "wait" when
// it has been put.
func inventory(options ...app.TableOption) *app.App {
	a := app.New("inventory")
	times := app.NewTable[string, uint64](a, "times", options...)
	cells := func(host string) app.Cells { return app.Need(times.Cell(host)) }
	app.HandleCall(a, func(q lookup) app.Cells { return cells(q.Host) }, func(tx *app.Tx, q lookup) (found, error) {
		n, known := times.Get(tx, q.Host)
		if q.Host == "wait" && !known {
			return found{}, app.Later(time.Second, times.Cell(q.Host))
		}
		times.Put(tx, q.Host, n+1)
		switch {
		case q.Host == "panic":
			panic("lookup")
		case strings.HasPrefix(q.Host, "x"):
			return found{}, errors.New("no host " + q.Host)
		}
		return found{app.Port(len(q.Host)), n + 1}, nil
	})
	app.HandleEmitted(a, func(m whereIs) app.Cells { return cells(m.Host) }, func(tx *app.Tx, m whereIs) error {
		times.Put(tx, m.Host, 100)
		return nil
	})
	return a
}

// asker calls the inventory for each packet, which has the name of a host, and notes what it hears.
func asker(heard map[app.Switch][]string) *app.App {
	a := app.New("asker")
	last := app.NewTable[app.Switch, string](a, "last")
	cell := func(s app.Switch) app.Cells { return app.Need(last.Cell(s)) }
	note := func(tx *app.Tx, s app.Switch, f found, err error) {
		text := fmt.Sprintf("%d %d %v", f.Port, f.Times, err)
		before, _ := last.Get(tx, s)
		last.Put(tx, s, before+text+";")
		heard[s] = append(heard[s], text)
	}
	app.Handle(a, func(in app.PacketIn) app.Cells { return cell(in.Switch) }, func(tx *app.Tx, in app.PacketIn) error {
		switch in.InPort {
		case 1:
			return app.Call(tx, lookup{string(in.Data)}, time.Second)
		case 2:
			f, err := app.Ask[found](tx, lookup{string(in.Data)}, time.Second)
			if err != nil && !errors.Is(err, app.ErrLate) && !errors.As(err, new(app.CallError)) {
				return err
			}
			note(tx, in.Switch, f, err)
			return nil
		}
		return app.Emit(tx, whereIs{string(in.Data)})
	})
	app.HandleAnswer(a, nil, func(tx *app.Tx, m app.Answer[lookup, found]) error {
		tx.PacketOut(1, of13.PacketOut{Data: fmt.Appendf(nil, "%s%d %d %v", m.Request.Host, m.Value.Port, m.Value.Times,
			m.Err)})
		return nil
	})
	return a
}

// A call is answered once: with the answer, the error, or after its time, in the same group or another one.
func TestCall(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		heard := map[app.Switch][]string{}
		inv := inventory(app.Sharded)
		n := apptest.NewOf(t, groups, inv, asker(heard))
		n.SwitchUp(1)
		n.SwitchUp(2)
		var sent []string
		collect := func(list []apptest.Sent) {
			for _, s := range list {
				sent = append(sent, string(s.Message.(*of13.PacketOut).Data))
			}
		}
		for _, host := range []string{"a", "a", "bcd", "xy", "wait"} {
			collect(n.PacketIn(2, 1, of13.NoBuffer, host))
		}
		want := []string{"a1 1 <nil>", "a1 2 <nil>", "bcd3 1 <nil>", "xy0 0 no host xy"}
		if !slices.Equal(sent, want) {
			t.Fatalf("%d groups: answers %q", groups, sent)
		}
		sent = nil
		collect(n.Advance(time.Second)) // the time limit of the last
		collect(n.PacketIn(2, 3, of13.NoBuffer, "wait"))
		collect(n.Advance(time.Hour)) // its answer is dropped
		if len(sent) != 1 || !strings.HasPrefix(sent[0], "wait0 0 no answer in time") {
			t.Errorf("%d groups: answers %q", groups, sent)
		}
		if rows := n.Rows("inventory"); len(rows) != 3 { // nothing of xy
			t.Errorf("%d groups: rows %v", groups, rows)
		}
	}
}

// The answer to a question is that of a call, and the handler takes effect once.
func TestAsk(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		heard := map[app.Switch][]string{}
		n := apptest.NewOf(t, groups, inventory(app.Sharded), asker(heard))
		n.SwitchUp(1)
		n.SwitchUp(2)
		for id := app.Switch(1); id <= 2; id++ {
			for _, host := range []string{"a", "xy", "wait"} {
				n.PacketIn(id, 2, of13.NoBuffer, host)
			}
			n.PacketIn(id, 3, of13.NoBuffer, "wait") // it has what the question waits for
			n.Advance(time.Millisecond)
		}
		n.Advance(time.Hour)
		want := map[app.Switch][]string{1: {"1 1 <nil>", "0 0 no host xy", "4 101 <nil>"},
			2: {"1 2 <nil>", "0 0 no host xy", "4 102 <nil>"}}
		if fmt.Sprint(heard) != fmt.Sprint(want) {
			t.Errorf("%d groups: heard %q, want %q", groups, heard, want)
		}
		for _, r := range n.Rows("asker") {
			if id := app.Switch(r.Cell.A); string(r.Value) != strings.Join(want[id], ";")+";" {
				t.Errorf("%d groups: switch %d has %q", groups, id, r.Value)
			}
		}
	}
}

// A handler over HTTP may ask, and wait: its client is answered when it has been run again.
func TestHTTPWaits(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := app.New("web")
		app.HandleHTTP(a, "GET /{host}", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
			f, err := app.Ask[found](tx, lookup{r.Values["host"]}, time.Second)
			if err != nil {
				return app.Response{}, err
			}
			again, err := app.Ask[found](tx, lookup{r.Values["host"] + "again"}, time.Second)
			return app.Response{Body: fmt.Appendf(nil, "%d %d", f.Port, again.Port)}, err
		})
		n := apptest.NewOf(t, groups, inventory(app.Sharded), a)
		r := n.Call(a, "GET /{host}", app.Request{Values: map[string]string{"host": "abc"}})
		if string(r.Body) != "3 8" {
			t.Errorf("%d groups: %+v", groups, r)
		}
	}
}

// What is wrong with a call is told where it is made.
func TestCallFails(t *testing.T) {
	type unknown struct{}
	a := app.New("a")
	other := app.NewTable[app.Switch, string](a, "other")
	questions := 0
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		switch in.InPort {
		case 1:
			return app.Call(tx, unknown{}, time.Second)
		case 2:
			return app.Call(tx, lookup{"a"}, time.Second) // is answered with the cells of another actor
		case 3:
			return app.Call(tx, lookup{strings.Repeat("a", 300<<10)}, time.Second)
		case 5:
			return tx.SetTimer("wait:1", time.Second, nil)
		case 6:
			questions++
			_, err := app.Ask[found](tx, lookup{fmt.Sprint(questions)}, time.Second)
			return err
		case 7:
			_, _ = app.Ask[found](tx, lookup{"panic"}, time.Second) // its error is ignored
		}
		return nil
	})
	app.HandleAnswer(a, func(lookup) app.Cells { return app.Need(other.Cell(7)) },
		func(*app.Tx, app.Answer[lookup, found]) error { return nil })
	b := newBench(t, a, inventory())
	b.event(switchUp())
	b.fine()
	for port, want := range map[app.Port]string{1: "no application handles calls with",
		2: "cells of another actor (other[7])",
		3: "the request has", 5: "names like this are used", 6: "may ask 16",
		7: "panic: lookup"} {
		b.event(packetIn(port, ""))
		if f := b.failures(); !strings.Contains(f, want) {
			t.Errorf("port %d: %q, want %q", port, f, want)
		}
	}
	twice := func(f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("two handlers of one type are accepted")
			}
		}()
		f()
	}
	twice(func() {
		app.HandleCall(a, nil, func(*app.Tx, unknown) (int, error) { return 0, nil })
		app.HandleCall(a, nil, func(*app.Tx, unknown) (int, error) { return 0, nil })
	})
	twice(func() { app.HandleAnswer(a, nil, func(*app.Tx, app.Answer[lookup, found]) error { return nil }) })
	if _, err := ledger.New([]ledger.Application{inventory(), app.New("x"), renamed{inventory()}},
		ledger.Limits{}); err == nil {
		t.Error("two applications handle calls of one type")
	}
}

// renamed is an application under another name.
type renamed struct{ *app.App }

func (renamed) Name() string { return "another" }

// A message that waits is handled again after its time, or when the cell that it waits for has changed. Until then
// nothing of it takes effect, and the handlers before it are not run again.
func TestLater(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := app.New("a")
		routes := app.NewTable[app.Switch, string](a, "routes")
		counts := app.NewTable[app.Switch, uint64](a, "counts")
		cells := func(in app.PacketIn) app.Cells {
			return app.Need(routes.Cell(in.Switch), counts.Cell(in.Switch))
		}
		firsts, runs := 0, 0
		app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
			if firsts++; in.InPort == 9 {
				routes.Put(tx, in.Switch, string(in.Data))
			}
			return nil
		})
		app.Handle(a, cells, func(tx *app.Tx, in app.PacketIn) error {
			if in.InPort == 9 {
				return nil
			}
			n, _ := counts.Get(tx, in.Switch)
			counts.Put(tx, in.Switch, n+1)
			tx.PacketOut(in.Switch, of13.PacketOut{InPort: in.InPort})
			runs++
			if _, known := routes.Get(tx, in.Switch); !known {
				return app.Later(time.Hour, routes.Cell(in.Switch))
			}
			return nil
		})
		n := apptest.NewOf(t, groups, a)
		n.SwitchUp(2)
		sent := append(n.PacketIn(2, 1, of13.NoBuffer, ""), n.PacketIn(2, 2, of13.NoBuffer, "")...)
		if len(sent) > 0 || runs != 2 || len(n.Rows("a")) > 2 {
			t.Fatalf("%d groups: sent %v after %d runs", groups, sent, runs)
		}
		sent = append(n.Advance(time.Minute), n.PacketIn(2, 9, of13.NoBuffer, "route")...)
		if sent = append(sent, n.Advance(1)...); len(sent) != 2 || runs != 4 || firsts != 3 {
			t.Errorf("%d groups: sent %v after %d and %d runs", groups, sent, firsts, runs)
		}
		if sent = n.Advance(24 * time.Hour); len(sent) > 0 {
			t.Errorf("%d groups: sent %v again", groups, sent)
		}
	}
}

// Handlers without map functions may call, be called and wait.
func TestCallsOfFoundActors(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		callee := app.New("callee")
		times := app.NewTable[string, uint64](callee, "times", app.Sharded)
		app.HandleCall(callee, nil, func(tx *app.Tx, q lookup) (found, error) {
			n, _ := times.Get(tx, q.Host)
			times.Put(tx, q.Host, n+1)
			return found{Times: n + 1}, nil
		})
		caller := app.New("caller")
		got := app.NewTable[string, uint64](caller, "got", app.Sharded)
		waited := false
		app.Handle(caller, nil, func(tx *app.Tx, in app.PacketIn) error {
			f, err := app.Ask[found](tx, lookup{string(in.Data)}, time.Second) // where the message is
			if err != nil {
				return err
			}
			return app.Emit(tx, isAt{string(in.Data), app.Port(f.Times)})
		})
		app.HandleEmitted(caller, nil, func(tx *app.Tx, m isAt) error {
			n, _ := got.Get(tx, m.Host) // in another group
			f, err := app.Ask[found](tx, lookup{m.Host + "again"}, time.Second)
			switch {
			case err != nil:
				return err
			case m.Host == "bb" && !waited:
				waited = true
				return app.Later(time.Second, got.Cell(m.Host))
			}
			got.Put(tx, m.Host, n*100+uint64(m.Port)*10+f.Times)
			return nil
		})
		n := apptest.NewOf(t, groups, callee, caller)
		for id := app.Switch(1); id <= 3; id++ {
			n.SwitchUp(id)
		}
		for i, host := range []string{"a", "bb", "a"} {
			n.PacketIn(app.Switch(i+1), 1, of13.NoBuffer, host)
		}
		n.Advance(time.Second)
		have := map[string]uint64{}
		for _, r := range n.Rows("caller") {
			have[r.Cell.S], _ = binary.Uvarint(r.Value)
		}
		if !maps.Equal(have, map[string]uint64{"a": 1122, "bb": 11}) {
			t.Errorf("%d groups: %v", groups, have)
		}
	}
}
