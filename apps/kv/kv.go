// Package kv is a key-value store over HTTP: GET, PUT and DELETE of /apps/kv/KEY at any controller. Each key is an
// actor, so with several groups the keys are spread over them, and can move. It is an example of an application over
// HTTP; it has no transactions over several keys, and no versions.
package kv

import (
	"fmt"
	"net/http"

	"github.com/holdfast-sdn/holdfast/app"
)

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
	values := app.NewTable[string, []byte](a, "values", app.Sharded)
	key := func(r app.Request) app.Cells { return app.Need(values.Cell(r.Values["key"])) }

	app.HandleHTTP(a, "GET /{key}", key, func(tx *app.Tx, r app.Request) (app.Response, error) {
		value, there := values.Get(tx, r.Values["key"])
		if !there {
			return none(r), nil
		}
		return app.Response{Type: "application/octet-stream", Body: value}, nil
	})
	app.HandleHTTP(a, "PUT /{key}", key, func(tx *app.Tx, r app.Request) (app.Response, error) {
		values.Put(tx, r.Values["key"], r.Body)
		return app.Response{Status: http.StatusNoContent}, nil
	})
	app.HandleHTTP(a, "DELETE /{key}", key, func(tx *app.Tx, r app.Request) (app.Response, error) {
		if _, there := values.Get(tx, r.Values["key"]); !there {
			return none(r), nil
		}
		values.Delete(tx, r.Values["key"])
		return app.Response{Status: http.StatusNoContent}, nil
	})
	app.HandleEmitted(a, func(p Put) app.Cells { return app.Need(values.Cell(p.Key)) },
		func(tx *app.Tx, p Put) error {
			values.Put(tx, p.Key, p.Value)
			return nil
		})
	return a
}

func none(r app.Request) app.Response {
	return app.Response{Status: http.StatusNotFound, Body: fmt.Appendf(nil, "there is no key %q\n", r.Values["key"])}
}
