// Package metric serves series to Prometheus that are made of a status when they are asked for. What they are called
// and mean is of who has the status: packages controller, agent and bfd/sentry.
package metric

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MaxSwitches bounds the switches that have series of their own. Sums have all of them.
const MaxSwitches = 2048

// maxScrapes is how many scrapes run at a time; further ones get status 503.
const maxScrapes = 4

// Series is a metric: its labels have values whenever it is sent.
type Series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newSeries(kind prometheus.ValueType, name, help string, labels []string) Series {
	return Series{prometheus.NewDesc("holdfast_"+name, help, labels, nil), kind}
}

// Gauge is a value that rises and falls. Names follow the conventions of Prometheus: base units, and _total for what
// only grows.
func Gauge(name, help string, labels ...string) Series {
	return newSeries(prometheus.GaugeValue, name, help, labels)
}

// Counter is a value that only grows.
func Counter(name, help string, labels ...string) Series {
	return newSeries(prometheus.CounterValue, name, help, labels)
}

// Sender takes the present values.
type Sender chan<- prometheus.Metric

// Put sends one value.
func (s Sender) Put(m Series, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// Truth is 1 for true.
func Truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// source is a collector whose series depend on the status.
type source func(Sender) error

// Describe sends nothing: which series there are is not known before.
func (source) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present values, or an error, so that the scrape fails.
func (s source) Collect(to chan<- prometheus.Metric) {
	if err := s(Sender(to)); err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("holdfast_status", "the status", nil, nil), err)
	}
}

// Handler serves in the text format of Prometheus what send sends, with what its client says of the process. send is
// called by several goroutines.
func Handler(send func(Sender) error) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(source(send), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Serve serves a handler as /metrics until ctx ends, and closes the listener.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	const patience = 10 * time.Second
	s := &http.Server{Handler: mux, ReadHeaderTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
