package command

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/bench"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

func TestBenchRecovery(t *testing.T) {
	if err := netlab.Available(); err != nil {
		if os.Getenv(netlab.RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Parallel()
	code, out, stderr := invoke(t.Context(), strings.Fields(
		"bench recovery --bfd-interval-ms 300 --samples 1 --cut carrier --realtime=false --json")...)
	var r bench.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.Figures["samples"] != 1 ||
		r.Figures["recovery_ms_median"] <= 0 {
		t.Errorf("exit code %d, error %v, printed\n%s%s", code, err, out, stderr)
	}
}

func TestBenchRecoveryFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--topology star":                    `--topology "star": use triangle, ring or usnet`,
		"--cut loud":                         `--cut "loud": use silent or carrier`,
		"--detector me":                      `--detector "me": use switch or sentry`,
		"--bfd-interval-ms 1 --multiplier 2": "multiplier 2 of a sentry at an interval of 1ms: use 3 to 255",
		"--samples 0":                        "--samples 0: use 1 to 10000",
		"--samples 10001":                    "--samples 10001: use 1 to 10000",
		"--bfd-interval-ms 0":                "--bfd-interval-ms 0: use 1 to 1000",
		"--bfd-interval-ms 1001":             "--bfd-interval-ms 1001: use 1 to 1000",
		"--multiplier -1":                    "--multiplier -1: use 0 to 255",
		"--multiplier 256":                   "--multiplier 256: use 0 to 255",
		"--json --plot --samples 20":         "if any flags in the group [json plot] are set none of the others can be",
	} {
		if code, _, stderr := invoke(t.Context(), strings.Fields("bench recovery "+args)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", args, code, stderr, want)
		}
	}
}

// This test must not run the benchmark: os.Executable is the test binary here, and as controllers it would run all
// tests, this one included.
func TestBenchBusy(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--seconds 0": "--seconds 0: use 1 to 3600",
		"--load -1":   "--load -1: use 0 to 1000",
	} {
		if code, _, stderr := invoke(t.Context(), strings.Fields("bench busy "+args)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", args, code, stderr, want)
		}
	}
}

// The suite that is measured can run. The benchmark does not, as in TestBenchBusy.
func TestBenchSuite(t *testing.T) {
	if _, err := newApplications(&config.Cluster{Apps: bench.SuiteApps}); err != nil {
		t.Error(err)
	}
	for args, want := range map[string]string{
		"--switches 0":    "--switches 0: use 1 to",
		"--paths 16001":   "--paths 16001: use 1 to 16000",
		"--rounds 0":      "--rounds 0: use 1 to 100",
		"--groups two":    `--groups "two": use 1 or per-controller`,
		"--durability on": `--durability "on": use memory or disk`,
	} {
		if code, _, stderr := invoke(t.Context(), strings.Fields("bench suite "+args)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", args, code, stderr, want)
		}
	}
}

// These do not run, as in TestBenchBusy.
func TestBenchKV(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"kv --batches 0":          "--batches 0: use 1 to 8192",
		"kv --replication 2":      "--replication 2: use odd numbers",
		"kv --clients 0":          "--clients 0: use 1 to 1000",
		"kv --pause-ms 0":         "--pause-ms 0: use 1 to 10000",
		"kv --durability paper":   `--durability "paper": use`,
		"actors --batches 8193":   "--batches 8193: use 1 to 8192",
		"actors --actors 1000000": "--actors 1000000: use 1 to 65536",
	} {
		if code, _, stderr := invoke(t.Context(), strings.Fields("bench "+args)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", args, code, stderr, want)
		}
	}
}

// The paper's value of a figure is printed beside it, and not again.
func TestPrintPaper(t *testing.T) {
	var out strings.Builder
	err := printReport(&out, bench.Report{Bench: "b", Figures: map[string]float64{"x_ms": 1, "paper_x_ms": 7,
		"paper_y_ms": 8}}, false)
	if want := "bench b\n  paper_y_ms  8\n  x_ms        1  paper: 7\nsetup\n"; err != nil || out.String() != want {
		t.Errorf("printed %q (%v), want %q", out.String(), err, want)
	}
}

// The benchmark does not run, as in TestBenchBusy.
func TestBenchHostile(t *testing.T) {
	if code, _, stderr := invoke(t.Context(), "bench", "hostile", "--seconds", "0"); code == 0 ||
		!strings.Contains(stderr, "--seconds 0: use 1 to 86400") {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}
