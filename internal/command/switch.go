package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/admission"
	"github.com/holdfast-sdn/holdfast/controller/client"
)

func switchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Forget switches that are gone for good, and who speaks for switches",
		Long: `Change what the cluster knows of its switches. holdfast status lists them, and holdfast move --switch
gives one to another group.`,
		Example: `  holdfast switch forget 00000000000000a1`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(switchForgetCommand(), switchCertificatesCommand())
	return cmd
}

func switchForgetCommand() *cobra.Command {
	var file string
	var asJSON, certificate bool
	cmd := &cobra.Command{
		Use:   "forget --config FILE DPID",
		Short: "Forget a switch that is gone for good",
		Long: `Forget a switch that is gone for good: its epochs and commands, what applications have there, and what
they know of it. The switch must be down; while it is connected, it is not forgotten. If it connects again,
it is a new switch, and an agent that held events of it discards them.

With switch_expiry_minutes in the cluster file, switches are forgotten by themselves.

If the cluster file has unlisted: first-use, who has first spoken for the switch is forgotten too, so the
next certificate that does is the first. With --certificate only that is forgotten: when a switch or its
agent gets a certificate of another name. holdfast switch certificates lists what is remembered.`,
		Example: `  holdfast switch forget 00000000000000a1
  holdfast switch forget 00000000000000a1 --certificate`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseDatapathID(args[0])
			if err != nil {
				return err
			}
			c, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer c.Close()
			forgotten, err := c.Forget(cmd.Context(), controller.Forget{Switch: id.String(), Certificate: certificate})
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), forgotten)
			}
			out := cmd.OutOrStdout()
			switch {
			case !certificate:
				_, err = fmt.Fprintf(out, "switch %s is forgotten\n", forgotten.Switch)
			case forgotten.Holder == "":
				_, err = fmt.Fprintf(out, "nobody was remembered for switch %s\n", forgotten.Switch)
			default:
				_, err = fmt.Fprintf(out, "%s speaks for switch %s no longer, unless it is the first again\n",
					forgotten.Holder, forgotten.Switch)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&certificate, "certificate", false, "keep the switch, and forget only whose certificate "+
		"speaks for it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func switchCertificatesCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "certificates --config FILE",
		Short: "List who has first spoken for each switch",
		Long: `List whose certificate has first spoken for each switch, if the cluster file has unlisted: first-use. No
other certificate may, unless it has the datapath id, or the cluster file lists it. holdfast switch forget
--certificate forgets one.`,
		Example: `  holdfast switch certificates
  holdfast switch certificates --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, file, asJSON, func(c *client.Client, ctx context.Context) ([]admission.Holding, error) {
				t, err := c.Tables(ctx, admission.Name)
				if client.NotFound(err) {
					return nil, errors.New("no certificate is remembered: the cluster file has no unlisted: first-use")
				}
				if err != nil {
					return nil, err
				}
				return admission.Of(slices.Values(t.Rows))
			}, func(out io.Writer, list []admission.Holding) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "SWITCH\tCERTIFICATE")
				for _, h := range list {
					fmt.Fprintf(w, "%s\t%s\n", h.Switch, h.Holder)
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
