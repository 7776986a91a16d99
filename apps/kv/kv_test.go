package kv

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
)

// Keys are in several groups, and each has its value.
func TestStore(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		store := New()
		net := apptest.NewOf(t, groups, store)
		call := func(method, key, body string) (int, string) {
			t.Helper()
			r := net.Call(store, method+" /{key}", app.Request{Method: method,
				Values: map[string]string{"key": key}, Body: []byte(body)})
			return r.Status, string(r.Body)
		}
		want := func(method, key, body string, status int, text string) {
			t.Helper()
			if got, answer := call(method, key, body); got != status || answer != text {
				t.Errorf("%s %s: %d %q, want %d %q", method, key, got, answer, status, text)
			}
		}
		for i := range 5 {
			key := fmt.Sprint("key", "0123456789"[:i])
			want("GET", key, "", http.StatusNotFound, fmt.Sprintf("there is no key %q\n", key))
			want("PUT", key, "", http.StatusNoContent, "")
			want("GET", key, "", 0, "")
			want("PUT", key, "value of "+key, http.StatusNoContent, "")
		}
		for i := range 5 {
			key := fmt.Sprint("key", "0123456789"[:i])
			want("GET", key, "", 0, "value of "+key)
			want("DELETE", key, "", http.StatusNoContent, "")
			want("DELETE", key, "", http.StatusNotFound, fmt.Sprintf("there is no key %q\n", key))
		}
		if rows := net.Rows(Name); len(rows) > 0 {
			t.Errorf("rows %+v", rows)
		}
	}
}

// Another application puts values with messages.
func TestPut(t *testing.T) {
	store, other := New(), app.New("other")
	app.HandleHTTP(other, "POST /", nil, func(tx *app.Tx, _ app.Request) (app.Response, error) {
		return app.Response{}, app.Emit(tx, Put{"k", []byte("v")})
	})
	net := apptest.NewOf(t, 3, store, other)
	net.Call(other, "POST /", app.Request{})
	r := net.Call(store, "GET /{key}", app.Request{Values: map[string]string{"key": "k"}})
	if string(r.Body) != "v" {
		t.Errorf("%+v", r)
	}
}
