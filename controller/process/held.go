package process

import (
	"context"
	"log/slog"
	"sync"
)

// maxHeld bounds the records that a heldLog keeps. At the bound it passes all on.
const maxHeld = 1000

// heldLog keeps log records until pass is called, so that a start which fails can say first why.
type heldLog struct {
	slog.Handler
	held *held
}

type held struct {
	mu      sync.Mutex
	open    bool
	records []func() error
}

// holdLog returns a logger that keeps what is logged until pass is called.
func holdLog(log *slog.Logger) (kept *slog.Logger, pass func()) {
	h := &held{}
	return slog.New(heldLog{log.Handler(), h}), h.pass
}

func (h *held) pass() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		_ = r() // slog itself ignores this error
	}
	h.open, h.records = true, nil
}

// Handle implements slog.Handler.
func (l heldLog) Handle(ctx context.Context, r slog.Record) error {
	l.held.mu.Lock()
	open := l.held.open
	if !open {
		r = r.Clone()
		l.held.records = append(l.held.records, func() error { return l.Handler.Handle(ctx, r) })
	}
	full := len(l.held.records) >= maxHeld
	l.held.mu.Unlock()
	switch {
	case full:
		l.held.pass()
		return nil
	case open:
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l heldLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return heldLog{l.Handler.WithAttrs(attrs), l.held}
}

// WithGroup implements slog.Handler.
func (l heldLog) WithGroup(name string) slog.Handler {
	return heldLog{l.Handler.WithGroup(name), l.held}
}
