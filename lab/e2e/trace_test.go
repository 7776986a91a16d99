package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
)

// TestTraces follows every event: from the agent to each switch that has executed a command for it, also when the
// leader is killed and another one goes on.
func TestTraces(t *testing.T) {
	notInShort(t)
	t.Parallel()
	got := &traceCollector{}
	server := httptest.NewServer(got)
	defer server.Close()
	const switches = 2
	s := startCluster(t, cluster.Config{Agents: switches,
		Sections: fmt.Sprintf("tracing: {endpoint: %s, one_in: 1}\n", server.URL)})
	s.connect()
	traced := func(what string, events int) {
		t.Helper()
		await.Until(t, what, func() bool { return got.whole(switches*apps.CounterCommands) >= events })
	}
	s.play(4, nil)
	traced("whole traces of the first events", 4)
	s.check(s.leader().Kill())
	s.play(4, nil)
	traced("whole traces with the next leader", 8)
	terms, wrong := got.terms()
	if len(wrong) > 0 {
		t.Errorf("written by the wrong process: %q", wrong)
	}
	if len(terms) < 2 {
		t.Errorf("spans of %d terms", len(terms))
	}
	s.exact()
}

// traceCollector takes spans as OTLP over HTTP.
type traceCollector struct {
	mu    sync.Mutex // guards the fields below
	spans []*otlp.Span
	wrong []string // spans that another process should have written
}

func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, " ", err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		agent := slices.ContainsFunc(of.Resource.Attributes, func(a *common.KeyValue) bool {
			return a.Value.GetStringValue() == "holdfast-agent"
		})
		for _, in := range of.ScopeSpans {
			for _, s := range in.Spans {
				if agent != (s.Name == "event") {
					c.wrong = append(c.wrong, s.String())
				}
			}
			c.spans = append(c.spans, in.Spans...)
		}
	}
}

// whole counts the traces that have a first span, execution, handlers, log, and so many commands, all of them its
// children.
func (c *traceCollector) whole(commands int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type trace struct {
		root  string
		names map[string]int
	}
	all := map[string]*trace{}
	of := func(s *otlp.Span) *trace {
		id := hex.EncodeToString(s.TraceId)
		if all[id] == nil {
			all[id] = &trace{names: map[string]int{}}
		}
		return all[id]
	}
	for _, s := range c.spans {
		if len(s.ParentSpanId) == 0 {
			of(s).root = hex.EncodeToString(s.SpanId)
		}
	}
	for _, s := range c.spans {
		if of(s).root == hex.EncodeToString(s.ParentSpanId) && s.EndTimeUnixNano >= s.StartTimeUnixNano {
			of(s).names[s.Name]++
		}
	}
	for _, t := range all {
		if t.root != "" && t.names["execute"] > 0 && t.names["handle"] > 0 && t.names["log"] > 0 && t.names["command"] >= commands {
			n++
		}
	}
	return n
}

// terms are those in which leaders have written spans. wrong are spans that another process should have written.
func (c *traceCollector) terms() (terms map[int64]bool, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := map[int64]bool{}
	for _, s := range c.spans {
		for _, a := range s.Attributes {
			if a.Key == "term" {
				list[a.Value.GetIntValue()] = true
			}
		}
	}
	return list, slices.Clone(c.wrong)
}
