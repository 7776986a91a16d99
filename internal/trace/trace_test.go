package trace

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestIDs: other events have other ids, and none is zero, which OpenTelemetry does not accept.
func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		event := rapid.Custom(func(t *rapid.T) Event {
			return Event{openflow.DatapathID(rapid.Uint64().Draw(t, "switch")), rapid.Uint64().Draw(t, "epoch"),
				rapid.Uint64Range(1, 1<<40).Draw(t, "event")}
		})
		a, b := event.Draw(t, "a"), event.Draw(t, "b")
		if a.ID() == [16]byte{} || a.root() == [8]byte{} {
			t.Fatalf("%+v has no id", a)
		}
		if (a == b) != (a.ID() == b.ID()) || (a == b) != (a.root() == b.root()) {
			t.Fatalf("%+v and %+v: %x and %x", a, b, a.ID(), b.ID())
		}
	})
}

// TestSampling: of consecutive events of a switch, about as many are followed as asked for.
func TestSampling(t *testing.T) {
	const oneIn, events = 100, 200_000
	tracer := &Tracer{oneIn: oneIn}
	for sw := range openflow.DatapathID(3) {
		n := 0
		for seq := range uint64(events) {
			if tracer.Takes(Event{sw, 1_790_000_000_000_000_000, seq + 1}) {
				n++
			}
		}
		if want := events / oneIn; n < want*9/10 || n > want*11/10 {
			t.Errorf("switch %v: %d of %d events, one in %d", sw, n, events, oneIn)
		}
	}
	var none *Tracer
	if none.Takes(Event{}) || none.Dropped() != 0 {
		t.Error("a tracer that is not there follows events")
	}
	none.Put(Span{})
	none.Close()
}

// TestCollectorFails: a collector that refuses, and one that hangs, hold up nobody, and what they do not take counts as
// dropped.
func TestCollectorFails(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	tracer, err := New(Config{Endpoint: server.URL, OneIn: 1, Role: "controller", Name: "c1",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	const sent = 3 * MaxQueued
	for i := range uint64(sent) {
		tracer.Put(Span{Event: Event{1, 2, i}, Name: "event", Root: true, Start: now, End: now})
	}
	await.Until(t, "spans to be dropped", func() bool { return tracer.Dropped() > 0 })
	close(hang)
	await.Until(t, "all spans to be dropped", func() bool { return tracer.Dropped() == sent })
	tracer.Close()
}

func TestBadEndpoint(t *testing.T) {
	if tracer, err := New(Config{Endpoint: "http://[::1", OneIn: 1,
		Logger: slog.New(slog.DiscardHandler)}); err == nil {
		tracer.Close()
		t.Error("no error")
	}
}
