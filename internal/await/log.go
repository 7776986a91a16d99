package await

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log keeps the log of what a test runs. Each Write has whole lines, like those of Logger. The zero value is ready to
// use, and all methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{} // closed by the next Write; nil if nobody waits for it
}

// Logger returns a logger that writes messages of level Info and above to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grew != nil {
		close(l.grew)
		l.grew = nil
	}
	return l.text.Write(p)
}

// Lines returns the lines that contain part, without their ends.
func (l *Log) Lines(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines(part)
}

// lines needs mu.
func (l *Log) lines(part string) (found []string) {
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// Line waits for a line that contains part, and returns the first one. It ends the test if there is none within Limit.
func (l *Log) Line(t testing.TB, part string) string {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	for {
		found, grew := l.look(part)
		if len(found) > 0 {
			return found[0]
		}
		select {
		case <-grew:
		case <-limit.C:
			t.Fatalf("no line of the log contains %q after %v:\n%s", part, Limit, l)
		}
	}
}

// look returns the lines that contain part, and a channel that is closed by the next Write.
func (l *Log) look(part string) ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grew == nil {
		l.grew = make(chan struct{})
	}
	return l.lines(part), l.grew
}

// String returns the whole log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
