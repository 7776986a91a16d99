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

// TestTraceThroughGroups follows a packet from the group of one switch to that of the application, and from there to
// that of another switch.
func TestTraceThroughGroups(t *testing.T) {
	notInShort(t)
	t.Parallel()
	got := &traceCollector{}
	server := httptest.NewServer(got)
	defer server.Close()
	s := withAgents.startStreams(t, cluster.Config{
		Sections: fmt.Sprintf("tracing: {endpoint: %s, one_in: 1}\n", server.URL)})
	await.Until(t, "a trace through three groups, to a command", func() bool {
		for from := range s.switches { // one of the pairs has no switch in the group of the application
			to := (from + 1) % len(s.switches)
			s.packet(from, to, "followed")
			s.arrive(to)
		}
		return got.through(3)
	})
	s.exactStreams()
}

// through reports whether a trace has spans of so many groups, and a command in another group than its first one.
func (c *traceCollector) through(groups int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	type where struct {
		first  int64 // the group in which the event was executed
		groups map[int64]bool
		last   map[int64]bool // groups with a command
	}
	all := map[string]*where{}
	for _, s := range c.spans {
		group, from := int64(-1), false
		for _, a := range s.Attributes {
			switch a.Key {
			case "group":
				group = a.Value.GetIntValue()
			case "from":
				from = true
			}
		}
		if group < 0 {
			continue // of the agent
		}
		w := all[string(s.TraceId)]
		if w == nil {
			w = &where{groups: map[int64]bool{}, last: map[int64]bool{}}
			all[string(s.TraceId)] = w
		}
		w.groups[group] = true
		switch {
		case s.Name == "execute" && !from:
			w.first = group
		case s.Name == "command":
			w.last[group] = true
		}
	}
	for _, w := range all {
		delete(w.last, w.first)
		if len(w.groups) >= groups && w.first != 0 && len(w.last) > 0 {
			return true
		}
	}
	return false
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
