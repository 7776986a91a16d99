package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench NAME",
		Short: "Measure Holdfast on this machine",
		Long: `Measure Holdfast with real processes on loopback. The load generator shares the machine with
the controllers. Figures drift with what else the machine does: compare ratios of one run.`,
		Example: `  holdfast bench failover --kills 30
  holdfast bench throughput --switches 16 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchFailoverCommand(), benchThroughputCommand(), benchLevelsCommand(), benchModesCommand(),
		benchRyuCommand(), benchPathsCommand(), benchRecoveryCommand())
	return cmd
}

// report is what a benchmark prints with --json. Figures end in their unit, or are counts.
type report struct {
	Bench   string             `json:"bench"`
	Figures map[string]float64 `json:"figures"`
	Setup   map[string]any     `json:"setup"`
}

func (r report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "bench %s\n", r.Bench)
	for _, k := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(w, "  %s\t%s\n", k, figure(r.Figures[k]))
	}
	fmt.Fprintln(w, "setup")
	for _, k := range slices.Sorted(maps.Keys(r.Setup)) {
		fmt.Fprintf(w, "  %s\t%v\n", k, r.Setup[k])
	}
	return w.Flush()
}

// figure prints counts whole and the rest with three places.
func figure(v float64) string {
	if v == float64(int64(v)) {
		return fmt.Sprintf("%d", int64(v))
	}
	return fmt.Sprintf("%.3f", v)
}

// inRange refuses a flag whose value is not from low to high.
func inRange(flag string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("--%s %d: use %d to %d", flag, value, low, high)
	}
	return nil
}

// isDurability refuses what a site file would not take, before processes start with it.
func isDurability(s string) error {
	if d := config.Durability(s); d != config.Memory && d != config.Disk {
		return fmt.Errorf("--durability %q: use %s or %s", s, config.Memory, config.Disk)
	}
	return nil
}

// self is the binary to run controllers and agents with: this one.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the holdfast binary: %w", err)
	}
	return path, nil
}
