package command

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSentryFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--interval-ms 0":                "--interval-ms 0: use 1 to 1000",
		"--interval-ms 1001":             "--interval-ms 1001: use 1 to 1000",
		"--multiplier 256":               "--multiplier 256: use 0 to 255",
		"--multiplier 1":                 "multiplier 1 of a sentry at an interval of 5ms: use 2 to 255",
		"--interval-ms 1 --multiplier 2": "multiplier 2 of a sentry at an interval of 1ms: use 3 to 255",
		"--log-level loud":               "loud",
	} {
		args += " --realtime=false"
		if code, _, stderr := invoke(t.Context(), strings.Fields("sentry "+args)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", args, code, stderr, want)
		}
	}
}

func TestSentryMultiplier(t *testing.T) {
	for intervalMs, want := range map[int]int{1: 4, 2: 3, 5: 3, 1000: 3} {
		o := sentryOptions{intervalMs: intervalMs}
		if c, err := o.config(io.Discard, slog.New(slog.DiscardHandler)); err != nil || c.Multiplier != want {
			t.Errorf("%d ms: multiplier %d, error %v; want %d", intervalMs, c.Multiplier, err, want)
		}
	}
}

// Without a switch the sentry retries, and ends when it is told to.
func TestSentryWithoutSwitch(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	code, _, stderr := invoke(ctx, "sentry", "--realtime=false", "--switch",
		filepath.Join(t.TempDir(), "ovs-vswitchd.pid"))
	if code != 0 || ctx.Err() == nil {
		t.Errorf("exit code %d, context %v, said %q", code, ctx.Err(), stderr)
	}
}
