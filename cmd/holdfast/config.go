package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/recovery"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Work with the cluster file",
		Long: `Work with the cluster file, which all controllers and agents of a cluster share:

  controllers:                   # an odd number; three survive the loss of one
    - name: c1
      peer: 10.0.0.1:7001        # the other controllers connect here
      openflow: 10.0.0.1:6653    # agents and switches connect here
      api: 10.0.0.1:8653         # holdfast status asks here
      rest: 10.0.0.1:8080        # optional; the REST interface of applications of Ryu
      id: 1                      # optional; derived from the name
  cluster: holdfast              # the rest is optional; these are the defaults
  apps: [learning]               # also modules and files of Ryu or os-ken: ryu.app.simple_switch_13, ./mine.py
  ryu:                           # their host process; all controllers need the same Python and os-ken
    python: python3
    options: [--observe-links]   # of ryu-manager; no default
    path: [/opt/apps]            # where Python looks for modules besides PYTHONPATH; no default
    memory_mb: 1024              # of the process, at most
    log_level: info              # debug, info, warning or error
  levels: {learning: {packet_in: ordered}}   # default: exactly_once; see docs/applications.md
  recovery: {disjoint: link}     # of application recovery; docs/operating.md has the other keys
  bfd: {floor_ms: 15, multiplier: 3}   # BFD on links, for recovery and liveness; see docs/operating.md
  durability: disk               # disk or memory
  data: /var/lib/holdfast        # each controller uses the folder of its name
  heartbeat_ms: 10
  election_ms: 50                # a multiple of heartbeat_ms, at least 3
  switch_timeout_ms: 3000
  tls:                           # no default: without it everything is plain TCP; see holdfast pki
    ca: /etc/holdfast/ca.pem
    cert: /etc/holdfast/{name}.pem     # {name} is that of the controller or agent; leave it
    key: /etc/holdfast/{name}-key.pem  # out if each machine has one certificate`,
		Example: `  holdfast config check holdfast.yaml`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a cluster file and print what was understood",
		Long: `Check a cluster file and print what was understood, with the defaults filled in.
The first mistake, if any, is printed with its line and its remedy, and the exit code is 1.`,
		Example: `  holdfast config check holdfast.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := loadCluster(args[0])
			if err != nil {
				return err
			}
			if _, err := newApplications(cluster); err != nil {
				return err
			}
			return printCluster(cmd.OutOrStdout(), cluster)
		},
	}
}

func printCluster(out io.Writer, s *config.Cluster) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tID\tPEER\tOPENFLOW\tAPI\tDATA")
	for _, c := range s.Controllers {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", c.Name, c.ID, c.Peer, c.OpenFlow, c.API, s.DataDir(c))
	}
	fmt.Fprintf(w, "\ncluster\t%s\n", s.Name)
	fmt.Fprintf(w, "apps\t%s\n", strings.Join(withRequirements(s.Apps), ", "))
	if len(s.Ryu.Applications) > 0 {
		fmt.Fprintf(w, "applications of ryu\t%s\n", strings.Join(s.Ryu.Applications, ", "))
		fmt.Fprintf(w, "host\t%s, options %v, path %v, %d MB\n", s.Ryu.Python, s.Ryu.Options, s.Ryu.Path,
			s.Ryu.MemoryBytes>>20)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Levels)) {
		for _, message := range slices.Sorted(maps.Keys(s.Levels[name])) {
			fmt.Fprintf(w, "level of %s in %s\t%s\n", message, name, s.Levels[name][message])
		}
	}
	if slices.Contains(s.Apps, recovery.Name) {
		c := recoveryConfig(s.Recovery)
		fmt.Fprintf(w, "recovery\t%v, hold-down %v, reconciles in %v, removes what is foreign: %v, at most %d "+
			"entries and %d groups\n",
			c.Disjoint, c.HoldDown, c.Reconcile, c.RemoveForeign, c.MaxEntries, c.MaxGroups)
	}
	if slices.Contains(withRequirements(s.Apps), liveness.Name) {
		fmt.Fprintf(w, "bfd\t%v, by databases at %s, at least %v apart, %d lost are a failure\n", s.BFD.Enabled,
			s.BFD.Database, s.BFD.Floor, s.BFD.Multiplier)
	}
	fmt.Fprintf(w, "durability\t%s\n", s.Durability)
	fmt.Fprintf(w, "heartbeat\t%v\n", s.Heartbeat)
	fmt.Fprintf(w, "election\t%v\n", s.Election)
	fmt.Fprintf(w, "switch timeout\t%v\n", s.SwitchTimeout)
	if t := s.TLS; t != nil {
		fmt.Fprintf(w, "tls\tca %s, cert %s, key %s\n", t.CA, t.Cert, t.Key)
	} else {
		fmt.Fprintln(w, "tls\tnone: plain TCP")
	}
	return w.Flush()
}
