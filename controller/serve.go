package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Bounds of requests to handlers over HTTP, besides those of all requests.
const (
	maxCallBody = 512 << 10       // so that what it causes fits into an entry
	maxCallKey  = 1 << 10         // of the key of an actor, which the directory keeps
	callTimeout = 5 * time.Second // until the application answers
)

// appsPath is where the handlers of applications are served.
const appsPath = "/apps/"

// Frontend is an application that serves a path itself.
type Frontend interface {
	ledger.Application
	// Serve returns a handler for what is below a path, which begins and ends with "/".
	Serve(behind ledger.Backend) (path string, h http.Handler)
}

// Follower is an application that follows the changes of its tables at each controller.
type Follower interface {
	ledger.Application
	// Follow returns a function for the changes in the log of a group (ledger.Core.ObserveTables), which is called in
	// the loop of that group.
	Follow(group uint64) func(ledger.Change)
}

// follow makes the applications that follow their tables follow those of a group.
func (g *group) follow(apps Served) {
	for _, a := range apps {
		if f, is := a.(Follower); is {
			g.core.ledger.ObserveTables(f.Name(), f.Follow(g.number()))
		}
	}
}

// serveApplications adds what applications serve over HTTP to mux, and reports whether there is anything.
func (c *Controller) serveApplications(mux *http.ServeMux) (some bool) {
	for _, a := range c.cfg.Served {
		if f, is := a.(Frontend); is {
			path, h := f.Serve(backend{c})
			mux.Handle(path, h)
			some = true
		}
		s, is := a.(ledger.Server)
		if !is {
			continue
		}
		for _, route := range s.Routes() {
			method, path, _ := strings.Cut(route, "/")
			mux.HandleFunc(method+appsPath+s.Name()+"/"+path, func(w http.ResponseWriter, r *http.Request) {
				c.serveCall(w, r, s, route)
			})
			some = true
		}
	}
	return some
}

// wildcard matches those of a route.
var wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)

// serveCall answers a request to a handler of an application.
func (c *Controller) serveCall(w http.ResponseWriter, r *http.Request, s ledger.Server, route string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallBody))
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), bodyStatus(err, http.StatusBadRequest))
		return
	}
	q := httpcall.Request{Method: r.Method, Values: map[string]string{}, Query: r.URL.Query(), Body: body}
	for _, name := range wildcard.FindAllStringSubmatch(route, -1) {
		q.Values[name[1]] = r.PathValue(name[1])
	}
	if !isText(q) {
		http.Error(w, "the path and the query have to be UTF-8", http.StatusBadRequest)
		return
	}
	call := ledger.Call{Name: route, Message: httpcall.Encode(q)}
	shard, err := s.Callee(route, call.Message)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if len(shard.Key.S) > maxCallKey {
		http.Error(w, fmt.Sprintf("a key has at most %d bytes", maxCallKey), http.StatusRequestURITooLong)
		return
	}
	call.Actor = ledger.Actor{App: s.Name(), Shard: shard}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	reply, err := c.call(ctx, call)
	if err != nil {
		http.Error(w, err.Error(), callStatus(err))
		return
	}
	writeReply(w, reply)
}

// isText reports whether what a request names is UTF-8. Applications store names as text.
func isText(q httpcall.Request) bool {
	for _, text := range q.Values {
		if !utf8.ValidString(text) {
			return false
		}
	}
	for name, list := range q.Query {
		if !utf8.ValidString(name + strings.Join(list, "")) {
			return false
		}
	}
	return true
}

// callStatus returns the status that says why a call was not answered.
func callStatus(err error) int {
	if errors.Is(err, ledger.ErrCallFailed) {
		return http.StatusInternalServerError
	}
	if errors.Is(err, ledger.ErrNoActor) {
		return http.StatusNotFound
	}
	if errors.Is(err, errCallLate) {
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable
}

// writeReply writes the answer of an application.
func writeReply(w http.ResponseWriter, reply []byte) {
	a, err := httpcall.Decode[httpcall.Response](reply)
	if err != nil || a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		http.Error(w, fmt.Sprintf("the application answers with status %d (%v)", a.Status, err), http.StatusBadGateway)
		return
	}
	if a.Type == "" {
		a.Type = "text/plain; charset=utf-8"
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	if len(a.Body) > 0 {
		w.Header().Set("Content-Type", a.Type)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone
}
