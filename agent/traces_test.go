package agent

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// traced returns a device all of whose events are followed, with its switch up, and what closes the tracer and returns
// whether it has exported a span.
func traced(t *testing.T) (d *device, exported func() bool) {
	t.Helper()
	var exports atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exports.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(collector.Close)
	tracer, err := trace.New(trace.Config{Endpoint: collector.URL, OneIn: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tracer.Close)
	a, err := New(Config{Controllers: []string{"127.0.0.1:1"}, Tracer: tracer, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d = newDevice(a, 1)
	if _, err := d.session.Up(&plainLine{}, 100, shaken(4)); err != nil {
		t.Fatal(err)
	}
	d.look()
	if len(d.traces.open) != 1 {
		t.Fatalf("%d events are followed, want SWITCH_UP", len(d.traces.open))
	}
	return d, func() bool { tracer.Close(); return exports.Load() > 0 }
}

// An event that is discarded is no longer followed, and gets no span. One that is logged gets one.
func TestDiscardedEventIsNotTraced(t *testing.T) {
	for _, refused := range []bool{true, false} {
		d, exported := traced(t)
		l := d.links[0]
		connect(t, l.Controller)
		err := io.EOF
		if refused {
			err = refuse(experimenter.ReasonStaleEpoch, 500)
		}
		l.ended(err)
		if open := len(d.traces.open); (open == 0) != refused {
			t.Errorf("refused %v: %d events are followed", refused, open)
		}
		if !refused {
			connect(t, l.Controller)
			takes(t, l.Controller, roleRequest(1), eventAck(100, 1))
		}
		d.look()
		if got := exported(); got == refused {
			t.Errorf("refused %v: exported %v", refused, got)
		}
	}
}
