package command

import (
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestConsole(t *testing.T) {
	var b strings.Builder
	log := slog.New(newConsole(&b, slog.LevelInfo))
	log.Debug("not seen")
	log.With("app", "Switch").Info("packet in 1 2", "port", 3, "why", "", "name", "a b")
	log.Error("it failed", "stack", "Traceback:\n  here\n", "err", errors.New("no"))
	got := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d\d\d `).ReplaceAllString(b.String(), "> ")
	want := "> packet in 1 2 app=Switch port=3 why=\"\" name=\"a b\"\n> ERROR it failed err=no\n    Traceback:\n   " +
		"   here\n"
	if got != want {
		t.Errorf("printed\n%swant\n%s", got, want)
	}
}

// What a peer has sent cannot control the terminal of who reads the log.
func TestLogsEscape(t *testing.T) {
	const evil = "x\x1b[2J\x07"
	for name, logger := range map[string]func(io.Writer) *slog.Logger{
		"console": func(w io.Writer) *slog.Logger { return slog.New(newConsole(w, slog.LevelInfo)) },
		"logfmt":  func(w io.Writer) *slog.Logger { return slog.New(newLogfmt(w, slog.LevelInfo)) },
	} {
		var b strings.Builder
		logger(&b).Info("refused", "name", evil, "err", errors.New(evil+"\nand\tmore "+evil))
		if strings.ContainsAny(b.String(), "\x1b\x07") || strings.Count(b.String(), "\n") != 3 ||
			!strings.Contains(b.String(), "and\tmore x") {
			t.Errorf("%s prints %q", name, b.String())
		}
	}
}
