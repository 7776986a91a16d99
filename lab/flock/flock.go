// Package flock is an application that sends many messages at once, for the benchmarks kv and actors: it puts values of
// package kv, or makes actors, and counts these. Each request to it is one transaction. It does nothing for a network.
package flock

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/kv"
)

// Name is the name of the application.
const Name = "flock"

// Bounds of one request. A transaction emits 1,024 messages at most, and making an actor takes two.
const (
	MaxPuts   = 1024
	MaxActors = 512
)

// Keys is how many keys of package kv are used: the buckets of Beehive's benchmark.
const Keys = 1024

// create is the first message for an actor, and created its answer.
type (
	create  struct{ Number uint64 }
	created struct{}
)

// total is the key of the number of actors.
const total = uint64(0)

// New returns the application. POST /put/{n} puts n values, POST /create/{first}/{n} makes the actors first, first+1
// and so on, and GET /created returns how many were made.
func New() *app.App {
	a := app.New(Name)
	counts := app.NewTable[uint64, uint64](a, "counts")
	actors := app.NewTable[uint64, uint64](a, "actors", app.Sharded)
	count := func() app.Cells { return app.Need(counts.Cell(total)) }

	app.HandleHTTP(a, "POST /put/{n}", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		n, err := number(r, "n", MaxPuts)
		if err != nil {
			return app.Response{}, err
		}
		value := binary.BigEndian.AppendUint64(nil, uint64(tx.Now().UnixNano())) // another one each time
		for i := range n {
			if err := app.Emit(tx, kv.Put{Key: strconv.FormatUint(i%Keys, 10), Value: value}); err != nil {
				return app.Response{}, err
			}
		}
		return app.Response{Status: http.StatusNoContent}, nil
	})
	app.HandleHTTP(a, "POST /create/{first}/{n}", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		first, err := number(r, "first", 1<<32)
		if err != nil {
			return app.Response{}, err
		}
		n, err := number(r, "n", MaxActors)
		if err != nil {
			return app.Response{}, err
		}
		for i := range n {
			if err := app.Emit(tx, create{first + i}); err != nil {
				return app.Response{}, err
			}
		}
		return app.Response{Status: http.StatusNoContent}, nil
	})
	app.HandleEmitted(a, func(c create) app.Cells { return app.Need(actors.Cell(c.Number)) },
		func(tx *app.Tx, c create) error {
			actors.Put(tx, c.Number, c.Number)
			return app.Emit(tx, created{})
		})
	app.HandleEmitted(a, func(created) app.Cells { return count() }, func(tx *app.Tx, _ created) error {
		n, _ := counts.Get(tx, total)
		counts.Put(tx, total, n+1)
		return nil
	})
	app.HandleHTTP(a, "GET /created", func(app.Request) app.Cells { return count() },
		func(tx *app.Tx, _ app.Request) (app.Response, error) {
			n, _ := counts.Get(tx, total)
			return app.Response{Body: strconv.AppendUint(nil, n, 10)}, nil
		})
	return a
}

// number returns a number in the path of a request, from 1 to most.
func number(r app.Request, name string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(r.Values[name], 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s %q: use 1 to %d", name, r.Values[name], most)
	}
	return n, nil
}
