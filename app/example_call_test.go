package app_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// example is the Tester of examples.
type example struct{}

func (example) Helper()                           {}
func (example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// PortOfHost is a request to the application of the examples, and Spike a message.
type (
	PortOfHost struct{ Host app.MAC }
	Spike      struct{ Flow string }
	Reroute    struct {
		Flow  string
		Times uint64
	}
)

// Each switch has an actor that tells another one of a spike, which replies to that actor only.
func ExampleTx_Reply() {
	a := app.New("traffic")
	flows := app.NewTable[app.Switch, string](a, "flows")
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(flows.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			flows.Put(tx, in.Switch, string(in.Data))
			return app.Emit(tx, Spike{string(in.Data)})
		})
	matrix := app.NewTable[string, uint64](a, "matrix")
	app.HandleEmitted(a, func(s Spike) app.Cells { return app.Need(matrix.Cell("spikes")) },
		func(tx *app.Tx, s Spike) error {
			n, _ := matrix.Get(tx, "spikes")
			matrix.Put(tx, "spikes", n+1)
			return tx.Reply(Reroute{s.Flow, n + 1})
		})
	app.HandleReply(a, nil, func(_ *app.Tx, r Reroute) error {
		fmt.Println("reroute", r.Flow)
		return nil
	})
	net := apptest.New(example{}, a)
	net.SwitchUp(1)
	net.PacketIn(1, 1, of13.NoBuffer, "elephant")
	// Output: reroute elephant
}

// hosts is an application that others call.
func hosts() *app.App {
	a := app.New("hosts")
	ports := app.NewTable[app.MAC, app.Port](a, "ports", app.Sharded)
	app.HandleCall(a, func(q PortOfHost) app.Cells { return app.Need(ports.Cell(q.Host)) },
		func(tx *app.Tx, q PortOfHost) (app.Port, error) {
			port, known := ports.Get(tx, q.Host)
			if !known {
				return 0, errors.New("unknown host")
			}
			return port, nil
		})
	return a
}

// A call is answered by a message.
func ExampleCall() {
	a := app.New("routes")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		return app.Call(tx, PortOfHost{in.EthDst()}, time.Second)
	})
	app.HandleAnswer(a, nil, func(_ *app.Tx, m app.Answer[PortOfHost, app.Port]) error {
		fmt.Println(m.Request.Host, m.Value, m.Err)
		return nil
	})
	net := apptest.New(example{}, a, hosts())
	net.SwitchUp(1)
	net.PacketIn(1, 1, of13.NoBuffer, "\x02\x00\x00\x00\x00\x01")
	// Output: 02:00:00:00:00:01 0 unknown host
}

// A handler asks, returns the error of the first run, and is run again with the answer.
func ExampleAsk() {
	a := app.New("routes")
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		port, err := app.Ask[app.Port](tx, PortOfHost{in.EthDst()}, time.Second)
		if failed := app.CallError(""); errors.As(err, &failed) || errors.Is(err, app.ErrLate) {
			port = 1
		} else if err != nil {
			return err // the answer is not there yet
		}
		fmt.Println("send the packet to", port)
		return nil
	})
	net := apptest.New(example{}, a, hosts())
	net.SwitchUp(1)
	net.PacketIn(1, 1, of13.NoBuffer, "\x02\x00\x00\x00\x00\x01")
	// Output: send the packet to 1
}

// A packet waits until another handler has found the route.
func ExampleLater() {
	a := app.New("routes")
	routes := app.NewTable[app.Switch, app.Port](a, "routes")
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(routes.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			port, known := routes.Get(tx, in.Switch)
			if !known {
				return app.Later(time.Second, routes.Cell(in.Switch))
			}
			fmt.Println("send the packet to", port)
			return nil
		})
	app.Handle(a, func(p app.PortStatus) app.Cells { return app.Need(routes.Cell(p.Switch)) },
		func(tx *app.Tx, p app.PortStatus) error {
			routes.Put(tx, p.Switch, p.Port.Port)
			return nil
		})
	net := apptest.New(example{}, a)
	net.SwitchUp(1)
	net.PacketIn(1, 1, of13.NoBuffer, "frame")
	net.Message(1, &of13.PortStatus{Port: of13.PortDesc{Port: 7}}, 0)
	net.Advance(time.Millisecond)
	// Output: send the packet to 7
}

// A part of a handler is undone alone.
func ExampleTx_Try() {
	a := app.New("paths")
	used := app.NewTable[app.Switch, uint64](a, "used")
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(used.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			err := tx.Try(func() error {
				n, _ := used.Get(tx, in.Switch)
				used.Put(tx, in.Switch, n+1)
				tx.FlowMod(in.Switch, of13.FlowMod{})
				return errors.New("no capacity")
			})
			n, _ := used.Get(tx, in.Switch)
			fmt.Println(err, n)
			return nil
		})
	net := apptest.New(example{}, a)
	net.SwitchUp(1)
	fmt.Println(net.PacketIn(1, 1, of13.NoBuffer, "frame"))
	// Output:
	// no capacity 0
	// []
}

// A goroutine tells the application what it reads outside of the network.
func ExampleDetach() {
	a := app.New("billing")
	last := app.NewTable[string, uint64](a, "last")
	type record struct {
		Number uint64
		Text   string
	}
	app.Detach(a, func(ctx context.Context, d *app.Detached) {
		for i, text := range []string{"one", "two", "two again"} { // read from a socket until ctx ends
			if err := d.Emit(ctx, record{uint64(min(i, 1)), text}); err != nil {
				return // the next leader reads it again
			}
		}
	})
	app.HandleEmitted(a, func(record) app.Cells { return app.Need(last.Cell("")) }, func(tx *app.Tx, r record) error {
		if n, begun := last.Get(tx, ""); begun && r.Number <= n {
			return nil // it was emitted before
		}
		last.Put(tx, "", r.Number)
		fmt.Println(r.Text)
		return nil
	})
	apptest.New(example{}, a).Detached(context.Background(), a)
	// Output:
	// one
	// two
}

// Handlers that several applications need are a function that adds them to one. They share its tables.
func Example_composition() {
	countFrames := func(a *app.App) app.Table[app.Switch, uint64] {
		frames := app.NewTable[app.Switch, uint64](a, "frames")
		app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(frames.Cell(in.Switch)) },
			func(tx *app.Tx, in app.PacketIn) error {
				n, _ := frames.Get(tx, in.Switch)
				frames.Put(tx, in.Switch, n+1)
				return nil
			})
		return frames
	}
	a := app.New("hub")
	frames := countFrames(a)
	app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(frames.Cell(in.Switch)) },
		func(tx *app.Tx, in app.PacketIn) error {
			n, _ := frames.Get(tx, in.Switch) // the handler before has counted this one
			fmt.Println("frame", n)
			return nil
		})
	net := apptest.New(example{}, a)
	net.SwitchUp(1)
	net.PacketIn(1, 1, of13.NoBuffer, "frame")
	// Output: frame 1
}
