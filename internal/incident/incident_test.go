package incident

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestStormIsTwoLines(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	for range 500 {
		l.Warn("10.0.0.1", "bad switch")
	}
	l.Warn("10.0.0.2", "bad switch")
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Fatalf("%d lines for two sources, want 2:\n%s", n, out.String())
	}
	now = now.Add(usual)
	l.Warn("10.0.0.1", "bad switch")
	if !strings.Contains(out.String(), "suppressed=499") {
		t.Fatalf("the count is missing:\n%s", out.String())
	}
}

func TestKeysAreBounded(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	for i := range 3 * maxKeys {
		l.Warn(fmt.Sprint(i), "bad switch")
	}
	if len(l.keys) > maxKeys+1 {
		t.Fatalf("%d keys", len(l.keys))
	}
	if n := strings.Count(out.String(), "\n"); n > maxKeys+1 {
		t.Fatalf("%d lines", n)
	}
	now = now.Add(3 * usual)
	l.Warn("new", "bad switch")
	if len(l.keys) != 1 {
		t.Fatalf("%d keys are left after all have expired", len(l.keys))
	}
}
