package sentry

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	var l Links
	for _, s := range []State{Alive, Dead, Alive, Dead} {
		l.Take(Event{Switch: "/run/s1.pid", Interface: `p"1`, State: s})
	}
	l.Take(Event{Switch: "/run/s1.pid", Interface: "p2", State: Alive})
	for i := range 2 * maxSeries {
		l.Take(Event{Switch: "/run/s2.pid", Interface: fmt.Sprint(i), State: Unwatched})
	}
	l.Take(Event{Switch: "/run/s3.pid", Interface: "new", State: Alive}) // takes the place of one
	w := httptest.NewRecorder()
	l.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`holdfast_sentry_link_state{interface="p\"1",state="dead",switch="/run/s1.pid"} 1`,
		`holdfast_sentry_link_state{interface="p\"1",state="alive",switch="/run/s1.pid"} 0`,
		`holdfast_sentry_link_deaths_total{interface="p\"1",switch="/run/s1.pid"} 2`,
		`holdfast_sentry_link_state{interface="p2",state="alive",switch="/run/s1.pid"} 1`,
		`holdfast_sentry_link_state{interface="new",state="alive",switch="/run/s3.pid"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(text, "\nholdfast_sentry_link_deaths_total{"); n != maxSeries {
		t.Errorf("%d links, want %d", n, maxSeries)
	}
}

// A link that is watched keeps its place.
func TestFullOfWatchedLinks(t *testing.T) {
	var l Links
	for i := range maxSeries {
		l.Take(Event{Interface: fmt.Sprint(i), State: Alive})
	}
	l.Take(Event{Interface: "new", State: Alive})
	if _, kept := l.states[linkName{"", "new"}]; kept || len(l.states) != maxSeries {
		t.Errorf("%d links, the last one kept: %v", len(l.states), kept)
	}
	l.Take(Event{Interface: "0", State: Unwatched})
	l.Take(Event{Interface: "new", State: Dead})
	_, old := l.states[linkName{"", "0"}]
	if s := l.states[linkName{"", "new"}]; old || s != (linkState{Dead, 1}) || len(l.states) != maxSeries {
		t.Errorf("%d links, the former one kept: %v, the new one is %+v", len(l.states), old, s)
	}
}
