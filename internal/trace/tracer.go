package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/holdfast-sdn/holdfast/internal/incident"
)

// Config says where spans go.
type Config struct {
	Endpoint string // URL of the collector, such as http://127.0.0.1:4318, to which the path /v1/traces is added
	OneIn    uint64 // of so many events one is followed
	Role     string // controller or agent
	Name     string // of the process
	Version  string
	Logger   *slog.Logger
}

// Bounds.
const (
	// MaxQueued is how many spans wait to be exported. More are dropped, and counted.
	MaxQueued = 4096
	// timeout is that of one export.
	timeout = 3 * time.Second
)

// Tracer takes spans and exports them in the background. A nil Tracer follows nothing. It is safe for concurrent use.
type Tracer struct {
	oneIn   uint64
	spans   chan Span
	dropped atomic.Uint64
	stop    chan struct{}
	once    sync.Once
	done    chan struct{}
}

// New starts a tracer. Close ends it. The error says what is wrong with the endpoint; a collector that does not answer
// is logged.
func New(c Config) (*Tracer, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("tracing to %q: it is no URL: write the endpoint like http://127.0.0.1:4318", c.Endpoint)
	}
	told := incident.New(c.Logger)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // of the process: by default it is the standard log
		told.Warn("otel", "tracing", "endpoint", c.Endpoint, "error", err)
	}))
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1", "traces").String()),
		otlptracehttp.WithTimeout(timeout), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("tracing to %s: %w: write the endpoint like http://127.0.0.1:4318", c.Endpoint, err)
	}
	t := &Tracer{oneIn: c.OneIn, spans: make(chan Span, MaxQueued), stop: make(chan struct{}),
		done: make(chan struct{})}
	go t.run(newOutput(c, exporter, told, &t.dropped))
	return t, nil
}

// Takes reports whether an event is followed.
func (t *Tracer) Takes(e Event) bool { return t != nil && e.hash()%t.oneIn == 0 }

// Put takes a span. It never waits: if the collector is slow, spans are dropped.
func (t *Tracer) Put(s Span) {
	if t == nil {
		return
	}
	select {
	case t.spans <- s:
	default:
		t.dropped.Add(1)
	}
}

// Dropped is how many spans were dropped, because too many waited or the collector did not take them.
func (t *Tracer) Dropped() uint64 {
	if t == nil {
		return 0
	}
	return t.dropped.Load()
}

// Names are what a log says of an event: the names and values of its attributes, and the id of its trace if it is
// followed.
func (t *Tracer) Names(e Event) []any {
	names := []any{Switch, e.Switch, Epoch, e.Epoch, Number, e.Seq}
	if t.Takes(e) {
		id := e.ID()
		names = append(names, "trace", hex.EncodeToString(id[:]))
	}
	return names
}

// Close exports what waits, as long as the collector takes it. It ends after twelve seconds at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.stop) })
	<-t.done
}

// maxBatch is how many spans an export has at most, and pause the time that they wait for others.
const (
	maxBatch = 512
	pause    = time.Second
)

// run exports until Close.
func (t *Tracer) run(out *output) {
	defer close(t.done)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case s := <-t.spans:
			if out.add(s); len(out.batch.spans) >= maxBatch {
				out.export()
			}
			continue
		case <-tick.C:
			out.export()
			continue
		case <-t.stop:
		}
		late := time.Now().Add(timeout)
		for len(t.spans) > 0 && time.Now().Before(late) {
			if out.add(<-t.spans); len(out.batch.spans) >= maxBatch {
				out.export()
			}
		}
		out.export()
		out.close()
		return
	}
}

// output makes spans of OpenTelemetry.
type output struct {
	tracer   api.Tracer
	exporter *otlptrace.Exporter
	batch    *batch
	dropped  *atomic.Uint64
	told     *incident.Log
	endpoint string
}

func newOutput(c Config, exporter *otlptrace.Exporter, told *incident.Log, dropped *atomic.Uint64) *output {
	o := &output{exporter: exporter, batch: &batch{}, dropped: dropped, told: told, endpoint: c.Endpoint}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(o.batch), sdk.WithIDGenerator(ids{}),
		sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "holdfast-"+c.Role), attribute.String("service.instance.id", c.Name),
			attribute.String("service.version", c.Version))))
	o.tracer = provider.Tracer("github.com/holdfast-sdn/holdfast")
	return o
}

// add makes a span, which ends in the batch.
func (o *output) add(s Span) {
	root := api.NewSpanContext(api.SpanContextConfig{TraceID: s.ID(), SpanID: s.root(), TraceFlags: api.FlagsSampled,
		Remote: true})
	ctx := api.ContextWithRemoteSpanContext(context.Background(), root)
	if s.Root {
		ctx = context.WithValue(context.Background(), rootKey{}, s.Event)
	}
	attributes := []attribute.KeyValue{attribute.String(Switch, s.Event.Switch.String()),
		attribute.Int64(Epoch, int64(s.Epoch)), attribute.Int64(Number, int64(s.Seq))}
	for _, a := range s.Attributes {
		if a.Text != "" {
			attributes = append(attributes, attribute.String(a.Name, a.Text))
		} else {
			attributes = append(attributes, attribute.Int64(a.Name, int64(a.Value)))
		}
	}
	_, span := o.tracer.Start(ctx, s.Name, api.WithTimestamp(s.Start), api.WithAttributes(attributes...))
	span.End(api.WithTimestamp(s.End))
}

// export sends the batch. What the collector does not take is dropped.
func (o *output) export() {
	if len(o.batch.spans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := o.exporter.ExportSpans(ctx, o.batch.spans); err != nil {
		o.dropped.Add(uint64(len(o.batch.spans)))
		o.told.Warn("export", "the collector of traces does not take spans: they are dropped", "endpoint", o.endpoint,
			"error", err)
	}
	clear(o.batch.spans)
	o.batch.spans = o.batch.spans[:0]
}

func (o *output) close() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	o.exporter.Shutdown(ctx)
}

// batch keeps spans that have ended. It implements sdk.SpanProcessor.
type batch struct{ spans []sdk.ReadOnlySpan }

func (b *batch) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (b *batch) OnEnd(s sdk.ReadOnlySpan)                   { b.spans = append(b.spans, s) }
func (b *batch) Shutdown(context.Context) error             { return nil }
func (b *batch) ForceFlush(context.Context) error           { return nil }

// rootKey is the key of the Event whose first span is made.
type rootKey struct{}

// ids gives first spans the ids that follow from their events, and others random ones.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (api.TraceID, api.SpanID) {
	e, _ := ctx.Value(rootKey{}).(Event)
	return e.ID(), e.root()
}

func (ids) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
