package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/sim"
)

// shrinkTime is for how long a smaller scenario is looked for.
const shrinkTime = 30 * time.Second

type simOptions struct {
	seeds    int
	minutes  float64
	from     uint64
	seed     uint64
	scenario string
	asJSON   bool
}

func simCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate whole networks with faults, under seeds, and check that nothing is lost or repeated",
		Long: `Run controllers, agents, switches, hosts and applications in one process: the production code
on a simulated network, disk and clock. Each seed is another network, another workload and
another schedule of faults. During and after each run, check the guarantees: every event is processed once
and in order, every command is executed once and in order, replicas are equal, and
everything completes after the last fault.

It ends with the first seed that violates a guarantee: it prints the seed, a smaller schedule that
does the same, and the last steps of that run, and writes the schedule to a file for --scenario.`,
		Example: `  holdfast sim --seeds 1000 --minutes 5
  holdfast sim --seed 17
  holdfast sim --scenario sim-17.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetGCPercent(400) // runs make much garbage and keep little: a quarter faster
			switch {
			case o.seeds < 1 || !(o.minutes > 0):
				return fmt.Errorf("%d seeds in %v minutes: choose at least one seed, and some time", o.seeds, o.minutes)
			case o.scenario != "":
				return o.runFile(cmd)
			case cmd.Flags().Changed("seed"):
				return o.runOne(cmd, sim.NewScenario(o.seed))
			}
			return o.runSwarm(cmd)
		},
	}
	cmd.Flags().IntVar(&o.seeds, "seeds", 1000, "how many `N` seeds to run")
	cmd.Flags().Float64Var(&o.minutes, "minutes", 5, "stop after that many `minutes`")
	cmd.Flags().Uint64Var(&o.from, "from", 0, "the first `seed`; by default one that depends on the time")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "run this `seed` only, and print what happens")
	cmd.Flags().StringVar(&o.scenario, "scenario", "", "run the scenario in a `file` that an earlier run wrote")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("seed", "scenario", "from")
	cmd.MarkFlagsMutuallyExclusive("seed", "scenario", "seeds")
	return cmd
}

func (o *simOptions) runFile(cmd *cobra.Command) error {
	b, err := os.ReadFile(o.scenario)
	if err != nil {
		return err
	}
	var sc sim.Scenario
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields() // a field of another release would be ignored, and another run would be seen
	if err := d.Decode(&sc); err != nil {
		return fmt.Errorf("read the scenario in %s: %w", o.scenario, err)
	}
	if err := sc.Validate(); err != nil {
		return fmt.Errorf("the scenario in %s: %w", o.scenario, err)
	}
	return o.runOne(cmd, sc)
}

// runOne prints all there is to see of one run.
func (o *simOptions) runOne(cmd *cobra.Command, sc sim.Scenario) error {
	start, out := time.Now(), cmd.OutOrStdout()
	r := sim.Run(sc)
	if o.asJSON {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(out, sc)
		fmt.Fprintf(out, "\n%s simulated in %s; %d steps, %d events, %d commands, %d leaders; digest %016x\n",
			r.Simulated.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), r.Steps, r.Events,
			r.Commands, r.Terms, r.Digest)
		if r.Violation != nil {
			printViolation(out, r)
		}
	}
	if r.Violation != nil {
		return fmt.Errorf("seed %d: %w", sc.Seed, r.Violation)
	}
	return nil
}

func printViolation(out io.Writer, r sim.Result) {
	fmt.Fprintf(out, "\nwhat happened last:\n  %s\n\nbroken at %v: %s\n", strings.Join(r.Timeline, "\n  "),
		r.Violation.At, r.Violation.Text)
}

func (o *simOptions) runSwarm(cmd *cobra.Command) error {
	from := o.from
	if !cmd.Flags().Changed("from") {
		from = uint64(time.Now().Unix()) * 1000
	}
	bar, out := newProgress(cmd.ErrOrStderr()), cmd.OutOrStdout()
	limit := time.Duration(o.minutes * float64(time.Minute))
	sum := sim.Swarm{From: from, Seeds: o.seeds, Time: limit, Progress: func(s sim.Summary) {
		done := max(float64(s.Seeds)/float64(o.seeds), float64(s.Elapsed)/float64(limit))
		bar.show(min(1, done), simLine(s))
	}}.Run(cmd.Context())
	bar.clear()
	if o.asJSON {
		if err := json.NewEncoder(out).Encode(sum); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "from seed %d: %s\n", from, simLine(sum))
	}
	if len(sum.Failed) == 0 {
		return cmd.Context().Err()
	}
	first := sum.Failed[0]
	if !o.asJSON {
		if err := o.explain(cmd.Context(), out, bar, first); err != nil {
			return err
		}
	}
	return fmt.Errorf("seed %d: %w", first.Scenario.Seed, first.Violation)
}

func simLine(s sim.Summary) string {
	return fmt.Sprintf("%d seeds, %d faults, %d leaders, %d events, %d commands, %d broken; %v simulated, %.0f s "+
		"in each second",
		s.Seeds, s.Faults, s.Terms, s.Events, s.Commands, len(s.Failed), s.Simulated.Round(time.Second),
		s.Simulated.Seconds()/max(s.Elapsed.Seconds(), 1e-9))
}

// explain looks for a smaller scenario and shows it.
func (o *simOptions) explain(ctx context.Context, out io.Writer, bar *progress, f sim.Failure) error {
	fmt.Fprintf(out, "\nseed %d broke: %v\nrepeat it with: holdfast sim --seed %d\n\n", f.Scenario.Seed, f.Violation,
		f.Scenario.Seed)
	ctx, cancel := context.WithTimeout(ctx, shrinkTime)
	defer cancel()
	start := time.Now()
	sc, r := sim.Shrink(ctx, f.Scenario, func(s sim.Scenario, runs int) {
		bar.show(min(1, float64(time.Since(start))/float64(shrinkTime)),
			fmt.Sprintf("looking for a smaller schedule: %d runs, %d faults left", runs, len(s.Faults)))
	})
	bar.clear()
	if r.Violation == nil {
		return fmt.Errorf("seed %d did not break again: a run is to depend on its seed alone, so this is a defect "+
			"of the simulator", sc.Seed)
	}
	name := fmt.Sprintf("sim-%d.json", sc.Seed)
	b, err := json.MarshalIndent(sc, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the smaller scenario: %w", err)
	}
	fmt.Fprintf(out, "the smallest that breaks:\n%s", sc)
	printViolation(out, r)
	fmt.Fprintf(out, "\nrepeat this one with: holdfast sim --scenario %s\n", name)
	return nil
}
