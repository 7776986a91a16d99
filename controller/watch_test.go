package controller

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
)

// A watch begins with everything, and tells of an event. It ends, with a code that says so, when the controller stops.
func TestWatch(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	c := s.controllers[id]
	ending, end := context.WithCancel(t.Context())
	with := &Controller{cfg: c.cfg, log: c.log, journal: newJournal(c.cfg.Name), assigned: c.assigned, ending: ending}
	with.groups.add(c.system())
	a := newAPI(with)
	defer a.inquiry.http.CloseIdleConnections()
	var sampling sync.WaitGroup
	defer sampling.Wait()
	defer end()
	sampling.Go(func() { a.sample(ending) })
	server := httptest.NewServer(a.routes())
	defer server.Close()
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
