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
	w := httptest.NewRecorder()
	l.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`holdfast_sentry_link_state{interface="p\"1",state="dead",switch="/run/s1.pid"} 1`,
		`holdfast_sentry_link_state{interface="p\"1",state="alive",switch="/run/s1.pid"} 0`,
		`holdfast_sentry_link_deaths_total{interface="p\"1",switch="/run/s1.pid"} 2`,
		`holdfast_sentry_link_state{interface="p2",state="alive",switch="/run/s1.pid"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(text, "\nholdfast_sentry_link_deaths_total{"); n != maxSeries {
		t.Errorf("%d links, want %d", n, maxSeries)
	}
}
