// Package kv is a key-value store over HTTP: GET, PUT and DELETE of /apps/kv/KEY at any controller. Each key is an
// actor, so with several groups the keys are spread over them, and can move. It is an example of an application over
// HTTP; it has no transactions over several keys, and no versions.
package kv

import (
	"fmt"
	"net/http"

	"github.com/holdfast-sdn/holdfast/app"
)

//go:generate go run github.com/holdfast-sdn/holdfast/app/cellgen

// Name is the name of the application.
const Name = "kv"

// Put is a message with which another application stores a value.
type Put struct {
	Key   string
	Value []byte
}

// New returns the application.
func New() *app.App {
	a := app.New(Name)
	s := &store{app.NewTable[string, []byte](a, "values", app.Sharded)}
	app.HandleHTTP(a, "GET /{key}", s.getCells, s.get)
	app.HandleHTTP(a, "PUT /{key}", s.putCells, s.put)
	app.HandleHTTP(a, "DELETE /{key}", s.deleteCells, s.delete)
	app.HandleEmitted(a, s.storeCells, s.store)
	return a
}

type store struct{ values app.Table[string, []byte] }

func (s *store) get(tx *app.Tx, r app.Request) (app.Response, error) {
	value, there := s.values.Get(tx, r.Values["key"])
	if !there {
		return none(r), nil
	}
	return app.Response{Type: "application/octet-stream", Body: value}, nil
}

func (s *store) put(tx *app.Tx, r app.Request) (app.Response, error) {
	s.values.Put(tx, r.Values["key"], r.Body)
	return app.Response{Status: http.StatusNoContent}, nil
}

func (s *store) delete(tx *app.Tx, r app.Request) (app.Response, error) {
	if _, there := s.values.Get(tx, r.Values["key"]); !there {
		return none(r), nil
	}
	s.values.Delete(tx, r.Values["key"])
	return app.Response{Status: http.StatusNoContent}, nil
}

func (s *store) store(tx *app.Tx, p Put) error {
	s.values.Put(tx, p.Key, p.Value)
	return nil
}

func none(r app.Request) app.Response {
	return app.Response{Status: http.StatusNotFound, Body: fmt.Appendf(nil, "there is no key %q\n", r.Values["key"])}
}
