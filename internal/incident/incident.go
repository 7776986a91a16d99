// Package incident keeps a repeated fault from filling the log. The first occurrence is logged at once. Further ones
// are counted, and the count is part of the next line, at least one period later. It is not a logger: it writes to
// slog.
package incident

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	usual   = 10 * time.Second
	maxKeys = 1024 // more sources than this share one line in each period
)

// Log logs incidents. Safe for concurrent use.
type Log struct {
	to     *slog.Logger
	period time.Duration
	now    func() time.Time

	mu   sync.Mutex
	keys map[string]*entry
}

type entry struct {
	next       time.Time // no line before
	suppressed int
}

// New logs to the given logger, with a period of 10 s.
func New(to *slog.Logger) *Log { return NewEvery(usual, to) }

// NewEvery is New with another period.
func NewEvery(period time.Duration, to *slog.Logger) *Log {
	return &Log{to: to, period: period, now: time.Now, keys: map[string]*entry{}}
}

// Warn logs a warning about the source that key names, unless there was a line just now.
func (l *Log) Warn(key, msg string, args ...any) { l.log(slog.LevelWarn, key, msg, args) }

// Info does the same for an event that is not a fault.
func (l *Log) Info(key, msg string, args ...any) { l.log(slog.LevelInfo, key, msg, args) }

func (l *Log) log(level slog.Level, key, msg string, args []any) {
	l.mu.Lock()
	now := l.now()
	e := l.entry(key, now)
	if now.Before(e.next) {
		e.suppressed++
		l.mu.Unlock()
		return
	}
	if e.suppressed > 0 {
		args = append(args, "suppressed", e.suppressed)
	}
	e.suppressed, e.next = 0, now.Add(l.period)
	l.mu.Unlock()
	l.to.Log(context.Background(), level, msg, args...)
}

func (l *Log) entry(key string, now time.Time) *entry {
	if e := l.keys[key]; e != nil {
		return e
	}
	if len(l.keys) >= maxKeys {
		for k, e := range l.keys {
			if now.After(e.next.Add(l.period)) {
				delete(l.keys, k)
			}
		}
		if len(l.keys) >= maxKeys {
			key = ""
			if e := l.keys[key]; e != nil {
				return e
			}
		}
	}
	e := &entry{}
	l.keys[key] = e
	return e
}
