package controller

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
)

// startAPI serves the API of the leader of a cluster. The others are asked by dial, unless that is nil.
func startAPI(t *testing.T, dial func(context.Context, string) (net.Conn, error)) (with *Controller,
	server *httptest.Server, end func()) {
	t.Helper()
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	c := s.controllers[id]
	ending, end := context.WithCancel(t.Context())
	with = &Controller{cfg: c.cfg, log: c.log, journal: newJournal(c.cfg.Name), assigned: c.assigned, ending: ending}
	if dial != nil {
		with.cfg.DialAPI = dial
	}
	with.groups.add(c.system())
	a := newAPI(with)
	var sampling sync.WaitGroup
	sampling.Go(func() { a.sample(ending) })
	sampling.Go(func() { a.wake(ending) })
	server = httptest.NewServer(a.routes())
	t.Cleanup(func() {
		end()
		sampling.Wait()
		server.Close()
		a.inquiry.http.CloseIdleConnections()
	})
	return with, server, end
}

// A watch begins with everything, and tells of an event. It ends, with a code that says so, when the controller stops.
func TestWatch(t *testing.T) {
	with, server, end := startAPI(t, nil)
	client := api.NewClusterClient(server.Client(), server.URL)
	watch, err := client.Watch(t.Context(), &api.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if !watch.Receive() {
		t.Fatal(watch.Err())
	}
	kinds := map[string]int{}
	for _, change := range watch.Msg().Changes {
		switch {
		case change.GetController() != nil:
			kinds["controller"]++
		case change.GetGroup() != nil:
			kinds["group"]++
		}
	}
	if kinds["controller"] != 3 || kinds["group"] != 1 || !watch.Msg().Snapshot {
		t.Errorf("the watch begins with %v", watch.Msg())
	}
	with.journal.add(&api.Event{Kind: api.EventKind_EVENT_KIND_FAILED, Text: "it failed", Traceback: "line 1"})
	for told := false; !told && watch.Receive(); {
		for _, change := range watch.Msg().Changes {
			told = told || change.GetEvent().GetTraceback() == "line 1"
		}
	}
	if watch.Err() != nil {
		t.Error(watch.Err())
	}
	end()
	for watch.Receive() {
	}
	if code := connect.CodeOf(watch.Err()); code != connect.CodeUnavailable {
		t.Errorf("the watch ends with %v", watch.Err())
	}
	if _, err := client.ListEvents(t.Context(), &api.ListEventsRequest{After: with.journal.number()}); err != nil {
		t.Error(err)
	}
}

// A watch tells of events while another controller hangs, and texts that are none are in the way of nobody.
func TestWatchBesideHungController(t *testing.T) {
	with, server, _ := startAPI(t, func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	watch, err := api.NewClusterClient(server.Client(), server.URL).Watch(t.Context(), &api.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if !watch.Receive() {
		t.Fatal(watch.Err())
	}
	began := time.Now()
	with.journal.add(&api.Event{Kind: api.EventKind_EVENT_KIND_FAILED, Text: "\xff" + strings.Repeat("é", maxText)})
	for told := false; !told; {
		if !watch.Receive() {
			t.Fatal(watch.Err())
		}
		for _, change := range watch.Msg().Changes {
			told = told || strings.HasPrefix(change.GetEvent().GetText(), "\uFFFDé")
		}
	}
	if took := time.Since(began); took > 8*time.Second { // a rest of 20 looks would be ten
		t.Errorf("the event was told after %v", took)
	}
}

// Requests that are not as usual: JSON by its longer name, and a small one that becomes a large one.
func TestUnusualRequests(t *testing.T) {
	_, server, _ := startAPI(t, nil)
	ask := func(path, kind, encoding string, body []byte) (status int, answer string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", kind)
		if encoding != "" {
			q.Header.Set("Content-Encoding", encoding)
		}
		r, err := server.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	const jsonUTF8 = "application/json; charset=utf-8"
	if status, answer := ask(api.ClusterGetControllerProcedure, jsonUTF8, "", []byte("{}")); status != http.StatusOK ||
		!strings.Contains(answer, `"last_index"`) {
		t.Errorf("JSON by its longer name: %d %.200s", status, answer)
	}
	if status, answer := ask(api.ClusterListRowsProcedure, jsonUTF8, "", []byte(`{"nonsense":1}`)); status !=
		http.StatusBadRequest {
		t.Errorf("a field that is not known: %d %.200s", status, answer)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 64<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/grpc.health.v1.Health/Check", api.ClusterListRowsProcedure} {
		if status, answer := ask(path, "application/proto", "gzip", bomb.Bytes()); status != http.StatusTooManyRequests ||
			!strings.Contains(answer, "resource_exhausted") {
			t.Errorf("%s of 64 MiB: %d %.200s", path, status, answer)
		}
	}
}
