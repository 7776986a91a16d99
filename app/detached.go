package app

import (
	"context"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Detached is a goroutine of an application beside its handlers, for what comes from outside of the network.
type Detached struct{ emit emit }

// emit has a handler of the application run on a message, and returns when that is committed.
type emit = func(ctx context.Context, name string, message []byte) error

// emitPrefix precedes the type of what a detached goroutine emits.
const emitPrefix = "emit "

// Detach adds a goroutine to an application. It runs where the actor lives that has the application's undivided cells,
// at the controller that leads that group: run is called when the leadership begins, and ctx ends when the leadership
// ends, the actor moves away, or the controller stops. run must return soon after that. If it returns earlier, it is
// called again only by the next leader. If it panics, it is called again after a second.
//
// run has no transaction. What it wants the application to do it emits. What is in its variables is lost with the
// leader, and so is what it has read from outside and not emitted: ask the source again, or have it number its items
// and let a handler drop those that a table says it has.
func Detach(a *App, run func(ctx context.Context, d *Detached)) {
	a.detached = append(a.detached, func(ctx context.Context, emit emit) { run(ctx, &Detached{emit}) })
	a.inputs[ledger.Called] = []handler{a.serve}
}

// Emit hands m to the handlers of its type in all applications, as the function Emit does, in a transaction of its own.
// After nil that is committed, and happened once. After an error it happened once or not at all: the leadership has
// ended, or too much waits, or nothing was possible before ctx ended. A message has at most 256 KiB. It is safe for
// concurrent use.
func (d *Detached) Emit(ctx context.Context, m any) error {
	name := codec.NameOf(reflect.TypeOf(m))
	data, err := cbor.Marshal(m)
	if err != nil {
		return fmt.Errorf("emit %s: %w", name, err)
	}
	if len(data) > maxCall {
		return fmt.Errorf("emit %s: the message has %d bytes, %d are possible", name, len(data), maxCall)
	}
	if err := d.emit(ctx, emitPrefix+name, data); err != nil {
		return fmt.Errorf("emit %s: %w", name, err)
	}
	return nil
}

// Detached implements controller.Detached.
func (a *App) Detached() []func(context.Context, func(context.Context, string, []byte) error) {
	return a.detached
}
