package sentry

import (
	"net/http"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/metric"
)

// What Prometheus reads of a sentry.
var (
	linkSeries = metric.Gauge("sentry_link_state", "1 for the state of the link: alive, dead or unwatched.", "switch",
		"interface", "state")
	deathSeries = metric.Counter("sentry_link_deaths_total", "Times that the link was lost.", "switch", "interface")
)

// Links keeps the states of links for Prometheus. The zero value is ready to use, by several goroutines.
type Links struct {
	mu     sync.Mutex
	states map[linkName]linkState // at most maxSeries
}

// maxSeries bounds the links that are kept. A further one takes the place of one that is not watched, since interfaces
// come and go; if there is none, or it is not watched itself, nothing is kept of it.
const maxSeries = 4 * MaxLinks

type linkName struct{ on, port string }

type linkState struct {
	now    State
	deaths int
}

// Take takes the events of Config.Report.
func (l *Links) Take(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.states == nil {
		l.states = map[linkName]linkState{}
	}
	name := linkName{e.Switch, e.Interface}
	s, known := l.states[name]
	if !known && len(l.states) >= maxSeries && (e.State == Unwatched || !l.dropUnwatched()) {
		return
	}
	s.now = e.State
	if e.State == Dead {
		s.deaths++
	}
	l.states[name] = s
}

// dropUnwatched drops a link that is not watched, and reports whether there was one. It is called with mu locked.
func (l *Links) dropUnwatched() bool {
	for name, s := range l.states {
		if s.now == Unwatched {
			delete(l.states, name)
			return true
		}
	}
	return false
}

// Metrics serves the states in the text format of Prometheus.
func (l *Links) Metrics() http.Handler {
	return metric.Handler(func(to metric.Sender) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name, s := range l.states {
			for _, state := range []State{Unwatched, Alive, Dead} {
				to.Put(linkSeries, metric.Truth(s.now == state), name.on, name.port, state.String())
			}
			to.Put(deathSeries, float64(s.deaths), name.on, name.port)
		}
		return nil
	})
}
