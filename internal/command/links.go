package command

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
	"github.com/holdfast-sdn/holdfast/network/show"
)

func linksCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "links --config FILE",
		Short: "Show how the links between switches are watched",
		Long: `Show each link that is or was up in both directions: its state and since when, its round-trip
time, and the state of BFD at its two ends. Below the table are the links and ports that are not
watched as configured, and the consequences.

The leader answers, since only it reads the databases of the switches.`,
		Example: `  holdfast links --config holdfast.yaml
  holdfast links --json | jq '.links[] | select(.last_failure)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			var r setup.Report
			err = o.Links(cmd.Context(), &r)
			if client.NotFound(err) {
				return errors.New("application liveness does not run: put recovery, or liveness, among the apps of " +
					"the cluster file")
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), &r)
			}
			return show.WriteLinks(cmd.OutOrStdout(), &r, time.Now())
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// watchLinks returns what makes the duty of the leader to set up BFD, if application liveness runs; else nil.
func watchLinks(s *config.Cluster, log *slog.Logger) func(*access.Controller) *controller.Duty {
	if !slices.Contains(withRequirements(s.Apps), liveness.Name) {
		return nil
	}
	return func(secure *access.Controller) *controller.Duty {
		cfg := setup.Config{Enabled: s.BFD.Enabled, Database: s.BFD.Database, Floor: s.BFD.Floor,
			Multiplier: int(s.BFD.Multiplier), Logger: log}
		if secure != nil {
			cfg.DialTLS = secure.DialDatabase
		}
		return setup.New(cfg).Duty()
	}
}
