package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/show"
)

func pathsCommand() *cobra.Command {
	var file, disjoint string
	var asJSON bool
	modes := map[string]paths.Disjoint{"link": paths.LinkDisjoint, "node": paths.NodeDisjoint}
	cmd := &cobra.Command{
		Use:   "paths --config FILE [A B]",
		Short: "Show how packets get from A to B, and what each failure on the way would do",
		Long: `Show the path that packets take from A to B, the backup at each switch on it, and for each
link and each switch on the way the path that packets take while it is down, before any controller
reacts. A and B are switches (datapath id, in hexadecimal) or hosts (Ethernet or IP address).

Without A and B, show how the network is protected: whether the switches have the flow entries and groups
of application recovery, what is about to change them, and what the last checks found.

If recovery does not run, nothing of this is installed; the paths are those that it would install.`,
		Example: `  holdfast paths --config holdfast.yaml 10.0.0.1 10.0.0.2
  holdfast paths 1 2a
  holdfast paths 1 2a --disjoint node --json
  holdfast paths`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("give two places, or none; received %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var avoid *paths.Disjoint
			if mode, ok := modes[disjoint]; ok {
				avoid = &mode
			} else if disjoint != "" {
				return fmt.Errorf("--disjoint %q: use link or node", disjoint)
			}
			if avoid != nil && len(args) == 0 {
				return fmt.Errorf("--disjoint %s asks for other paths than are installed: give two places", disjoint)
			}
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			if len(args) == 0 {
				return printProtection(cmd, o, asJSON)
			}
			return printPaths(cmd, o, show.Question{From: args[0], To: args[1], Avoid: avoid}, asJSON)
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().StringVar(&disjoint, "disjoint", "",
		"what backups avoid, link or node (default: as installed)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printProtection(cmd *cobra.Command, o *client.Client, asJSON bool) error {
	v, stale, err := readRecovery(cmd.Context(), o, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	now := time.Now()
	p, err := show.NewProtection(v, now)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), struct {
			show.Protection
			Stale *controller.Stale `json:"stale,omitempty"`
		}{*p, stale})
	}
	return p.WriteText(cmd.OutOrStdout(), now)
}

func printPaths(cmd *cobra.Command, o *client.Client, q show.Question, asJSON bool) error {
	s, stale, err := readTopology(cmd.Context(), o, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	v, _, err := readRecovery(cmd.Context(), o, io.Discard) // topology has warned
	if err != nil && !client.NotFound(err) {
		return err
	}
	p, err := show.Ask(s, v, q, time.Now())
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), struct {
			show.Paths
			Stale *controller.Stale `json:"stale,omitempty"`
		}{*p, stale})
	}
	return p.WriteText(cmd.OutOrStdout())
}
