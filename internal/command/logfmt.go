package command

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"unicode"
)

// logfmt is slog.TextHandler, but for values of several lines, such as tracebacks: these stand below the line as they
// are, and not escaped in it.
type logfmt struct {
	slog.Handler            // writes to line
	out          *logfmtOut // shared with the handlers that have more attributes
}

type logfmtOut struct {
	mu   sync.Mutex // guards line, and is held while it is written
	line strings.Builder
	to   io.Writer
}

func newLogfmt(to io.Writer, level slog.Level) logfmt {
	out := &logfmtOut{to: to}
	return logfmt{slog.NewTextHandler(&out.line, &slog.HandlerOptions{Level: level}), out}
}

// Handle implements slog.Handler.
func (l logfmt) Handle(ctx context.Context, r slog.Record) error {
	short := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	var below strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		if text := strings.TrimSpace(a.Value.Resolve().String()); strings.Contains(text, "\n") {
			below.WriteString(indented(text))
		} else {
			short.AddAttrs(a)
		}
		return true
	})
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.line.Reset()
	if err := l.Handler.Handle(ctx, short); err != nil {
		return err
	}
	_, err := io.WriteString(l.out.to, l.out.line.String()+below.String())
	return err
}

// WithAttrs implements slog.Handler.
func (l logfmt) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logfmt{l.Handler.WithAttrs(attrs), l.out}
}

// WithGroup implements slog.Handler.
func (l logfmt) WithGroup(name string) slog.Handler { return logfmt{l.Handler.WithGroup(name), l.out} }

// indented returns a text of several lines as it stands below a line of the log. It may contain what a peer has sent:
// so that it cannot move the cursor or change what is printed, control characters are replaced.
func indented(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}
