package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	waiting "github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/metric"
)

func TestListenForScrapes(t *testing.T) {
	for _, c := range []struct {
		address string
		anybody bool
		want    string // of the error
	}{{"", false, ""}, {"127.0.0.1:0", false, ""}, {"0.0.0.0:0", true, ""}, {"0.0.0.0:0", false, "insecure"},
		{"nowhere", true, "write the address like"}} {
		l, err := listenForScrapes(c.address, c.anybody)
		if l != nil {
			l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, anybody %v: %v", c.address, c.anybody, err)
		}
		if (l == nil) != (c.address == "" || err != nil) {
			t.Errorf("%q, anybody %v: listener %v", c.address, c.anybody, l)
		}
	}
}

// Metrics are served for as long as what they are of runs, and its error is returned.
func TestBesideScrapes(t *testing.T) {
	l, err := listenForScrapes("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	h := metric.Handler(func(to metric.Sender) error {
		to.Put(metric.Gauge("test", "A test.", "of"), 7, "it")
		return nil
	})
	failed := errors.New("it has failed")
	err = besideScrapes(t.Context(), l, h, slog.New(slog.DiscardHandler), func(context.Context) error {
		r, err := http.Get(fmt.Sprintf("http://%s/metrics", l.Addr()))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if !strings.Contains(string(text), `holdfast_test{of="it"} 7`) || !strings.Contains(string(text), "go_goroutines") {
			t.Errorf("metrics:\n%s", text)
		}
		return errors.Join(err, failed)
	})
	if err == nil || err.Error() != failed.Error() {
		t.Errorf("error %v", err)
	}
	if _, err := http.Get(fmt.Sprintf("http://%s/metrics", l.Addr())); err == nil {
		t.Error("metrics are served though nothing runs")
	}
}

// What runs goes on without its metrics, and a warning says so, if their listener fails.
func TestScrapesFail(t *testing.T) {
	l, err := listenForScrapes("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log waiting.Log
	h := metric.Handler(func(metric.Sender) error { return nil })
	err = besideScrapes(t.Context(), l, h, log.Logger(), func(ctx context.Context) error {
		if line := log.Line(t, "metrics are no longer served"); !strings.Contains(line, l.Addr().String()) ||
			!strings.Contains(line, "level=WARN") {
			t.Errorf("the log has %s", line)
		}
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("what runs has ended: %v", err)
	}
}
