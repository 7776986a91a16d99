package main

import (
	"errors"
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
