package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
	"github.com/holdfast-sdn/holdfast/network/show"
)

func linksCommand() *cobra.Command {
	var cluster string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "links --config FILE",
		Short: "Show how the links between switches are watched",
		Long: `Show each link that is or was up in both directions: since when it is as it is, how long a round
trip takes, and what BFD says of it at its two ends. Below stands what is not as it should be,
and what that costs.

The controller that leads answers: it follows the switches' databases.`,
		Example: `  holdfast links --config holdfast.yaml
  holdfast links --json | jq '.links[] | select(.last_failure)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newOperator(cluster)
			if err != nil {
				return err
			}
			defer o.close()
			var r setup.Report
			err = o.askLeader(cmd.Context(), http.MethodGet, linksPath, nil, &r)
			if absent(err) {
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
	cmd.Flags().StringVar(&cluster, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

const linksPath = "/v1/links"

// watchLinks has the controller set up BFD while it leads, if it runs application liveness. c is nil without TLS.
func watchLinks(cfg *controller.Config, s *config.Cluster, c *mtls.Credentials, log *slog.Logger) {
	if !slices.Contains(withRequirements(s.Apps), liveness.Name) {
		return
	}
	own := setup.Config{Enabled: s.BFD.Enabled, Database: s.BFD.Database, Floor: s.BFD.Floor,
		Multiplier: int(s.BFD.Multiplier), Logger: log}
	if c != nil {
		own.DialTLS = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := c.Dial(ctx, address, mtls.Role(pki.Switch))
			if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok &&
				invalid.Reason == x509.IncompatibleUsage {
				return nil, fmt.Errorf("%w; a switch serves its database if it has the certificate of `holdfast "+
					"pki issue switch NAME --address ADDRESS`", err)
			}
			return conn, err
		}
	}
	cfg.Duty = setup.New(own).Duty(linksPath)
}
