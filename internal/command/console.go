package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// console is a slog.Handler for people: the message first, and what has several lines, as tracebacks have, below it as
// it is.
type console struct {
	mu    *sync.Mutex // guards out
	out   io.Writer
	level slog.Level
	attrs []slog.Attr
}

func newConsole(out io.Writer, level slog.Level) *console {
	return &console{mu: new(sync.Mutex), out: out, level: level}
}

// Enabled implements slog.Handler.
func (c *console) Enabled(_ context.Context, l slog.Level) bool { return l >= c.level }

// WithAttrs implements slog.Handler.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *c
	with.attrs = append(slices.Clip(c.attrs), attrs...)
	return &with
}

// WithGroup implements slog.Handler. Nobody here uses groups: their names are left out.
func (c *console) WithGroup(string) slog.Handler { return c }

// Handle implements slog.Handler.
func (c *console) Handle(_ context.Context, r slog.Record) error {
	var line, below strings.Builder
	line.WriteString(r.Time.Format("15:04:05.000 "))
	if r.Level != slog.LevelInfo {
		line.WriteString(r.Level.String() + " ")
	}
	line.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		switch v := a.Value.Resolve().String(); {
		case strings.Contains(strings.TrimSpace(v), "\n"):
			below.WriteString(indented(strings.TrimSpace(v)))
		case v == "" || strings.ContainsAny(v, " \"") || strconv.Quote(v) != `"`+v+`"`:
			fmt.Fprintf(&line, " %s=%s", a.Key, strconv.Quote(v))
		default:
			fmt.Fprintf(&line, " %s=%s", a.Key, v)
		}
		return true
	}
	for _, a := range c.attrs {
		add(a)
	}
	r.Attrs(add)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(c.out, line.String()+"\n"+below.String())
	return err
}
