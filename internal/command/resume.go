package command

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
)

func resumeCommand() *cobra.Command {
	var file, dpid string
	var at keyFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resume --config FILE APPLICATION",
		Short: "Resume an actor that is suspended because its handler did not return",
		Long: `Resume an actor of an application. It was suspended because a handler did not return within
handler_timeout_ms, and its inputs have failed since then; holdfast status shows why. Correct the
application first, and restart the controllers with it: if a handler hangs again, its actor is
suspended again, after a pause of all actors in its group.

With --switch, it is what the application has at a switch. Without that and without a key, it is the
actor that has all cells which belong to no switch and to no key. What has failed is not handled later:
timers that the handler sets again and again begin anew with the next input that sets them.`,
		Example: `  holdfast resume learning --switch 00000000000000a1
  holdfast resume topology
  holdfast resume counters --key 10.0.0.1 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := at.key()
			if err != nil {
				return err
			}
			r := controller.Resume{App: args[0], Key: key}
			if dpid != "" {
				id, err := parseDatapathID(dpid)
				if err != nil {
					return err
				}
				r.Switch = id.String()
			}
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			resumed, err := c.Resume(cmd.Context(), r)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), resumed)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is resumed; it was suspended because %s\n", resumed.Actor,
				resumed.Reason)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&dpid, "switch", "", "the datapath id, if it is the actor at a switch")
	at.add(cmd, "switch")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printSuspended lists the suspended actors, if there are any.
func printSuspended(out io.Writer, list []controller.SuspendedStatus) error {
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSUSPENDED ACTOR\tGROUP\tSINCE\tFAILED INPUTS\tREASON")
	for _, a := range list {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\n", brief(a.Actor), a.Group, a.Since.Local().Format(time.DateTime), a.Failed,
			a.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "correct the application, restart the controllers with it, and use holdfast resume")
	return err
}

// printHanging says which controllers have handlers that were given up and did not return.
func printHanging(out io.Writer, controllers []controller.Answer) {
	for _, a := range controllers {
		if a.Status != nil && a.Status.Hanging > 0 {
			fmt.Fprintf(out, "%s: %d handlers hang, and each may use a processor: restart the controller\n", a.Name,
				a.Status.Hanging)
		}
	}
}

// printRebuilt says which controllers had a state that differed from that of the others.
func printRebuilt(out io.Writer, controllers []controller.Answer) {
	for _, a := range controllers {
		if a.Status != nil && a.Status.Rebuilt > 0 {
			fmt.Fprintf(out, "%s: its state differed from that of a majority, and was rebuilt (%d times): see its "+
				"log, and check the memory of its machine\n", a.Name, a.Status.Rebuilt)
		}
	}
}
