package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/ryu"
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
      rest: 10.0.0.1:8080        # optional; applications over HTTP
      id: 1                      # optional; derived from the name
  cluster: holdfast              # the rest is optional; these are the defaults
  apps: [learning]               # also modules and files of Ryu or os-ken: ryu.app.simple_switch_13, ./mine.py
  ryu:                           # their host process; all controllers need the same Python and os-ken
    python: python3
    options: [--observe-links]   # of ryu-manager; no default
    path: [/opt/apps]            # where Python looks for modules besides PYTHONPATH; no default
    memory_mb: 1024              # of the process, at most
    log_level: info              # debug, info, warning or error
    # files: [/etc/faucet/faucet.yaml]   # which applications read; their content comes from the log
    # user: faucet               # as whom they run, if holdfast serve runs as root
  levels: {learning: {packet_in: ordered}}   # default: exactly_once; see docs/applications.md
  # recovery: {disjoint: link}   # only with application recovery; docs/operating/recovery.md has the other keys
  bfd: {floor_ms: 15, multiplier: 3}   # BFD on links, for recovery and liveness; see docs/operating/recovery.md
  groups: 1                      # or per-controller: each controller leads a share of the switches
  # replication: 3               # with per-controller: replicas of each group; default: one on each controller
  # placement: {optimize: true}  # with per-controller: moves actors; docs/operating/groups.md has the other keys
  # store: {access: [{client: "*", namespaces: [public], allow: [read]}]}   # with tls or tokens; default: everything
  # tracing: {endpoint: "http://10.0.0.9:4318", one_in: 1000}   # a collector of OpenTelemetry
  durability: disk               # disk or memory
  data: /var/lib/holdfast        # each controller uses the folder of its name
  heartbeat_ms: 10
  election_ms: 50                # a multiple of heartbeat_ms, at least 3
  switch_timeout_ms: 3000
  switch_expiry_minutes: 0       # a switch that is down for so long is forgotten; 0: none is
  handler_timeout_ms: 5000       # a handler that takes longer hangs, and its actor is suspended
  agent_heartbeat_ms: 100        # between agents and the leaders; three that do not come are a lost connection
  tls:                           # no default: without it everything is plain TCP; see holdfast pki
    ca: /etc/holdfast/ca.pem
    cert: /etc/holdfast/{name}.pem     # {name} is that of the controller or agent; leave it
    key: /etc/holdfast/{name}-key.pem  # out if each machine has one certificate
    # deny: /etc/holdfast/deny.txt     # revoked certificates; docs/operating/access.md has admit and unlisted too
  # insecure: true                     # without tls: other machines may reach these addresses
  # tokens: /etc/holdfast/tokens       # of people and scripts without a certificate; see holdfast token`,
		Example: `  holdfast config check holdfast.yaml`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a cluster file and print what was understood",
		Long: `Check a cluster file, and on this machine what a controller needs to start: Python and the
applications of Ryu, which are imported, and the TLS files. Print what was understood, with the defaults
filled in. The first mistake in the file, if any, is printed with its line and its remedy, and the exit
code is 1. The same goes for all that is missing on this machine: holdfast serve would fail with the
same words. Run it on the machine of a controller.

With TLS and without --name, it checks the certificates of all controllers that are on this machine.`,
		Example: `  holdfast config check holdfast.yaml
  holdfast config check holdfast.yaml --name c1 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := newLogger("warn")
			if err != nil {
				return err
			}
			cluster, err := loadCluster(args[0])
			if err == nil && name != "" {
				_, err = cluster.Named(name)
			}
			if err != nil {
				return err
			}
			found, problems := process.Check(cmd.Context(), process.Config{Cluster: cluster, Name: name, Logger: log,
				Applications: func() ([]ledger.Application, error) { return newApplications(cluster) }})
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), summarize(cluster, found, problems))
			} else {
				err = printCluster(cmd.OutOrStdout(), cluster, found)
			}
			return errors.Join(append(problems, err)...)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the controller to be started on this machine; its certificate must "+
		"be here")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// summary is what config check prints with --json.
type summary struct {
	Cluster          string                       `json:"cluster"`
	Controllers      []summaryController          `json:"controllers"`
	Apps             []string                     `json:"apps"` // with those that they need
	Ryu              *summaryRyu                  `json:"ryu,omitempty"`
	Levels           map[string]map[string]string `json:"levels,omitempty"`
	Recovery         *config.Recovery             `json:"recovery,omitempty"`
	BFD              *config.BFD                  `json:"bfd,omitempty"`
	Groups           []config.Group               `json:"groups"`
	Placement        *config.Placement            `json:"placement,omitempty"` // nil: no actor moves by itself
	Durability       config.Durability            `json:"durability"`
	HeartbeatMS      int64                        `json:"heartbeat_ms"`
	ElectionMS       int64                        `json:"election_ms"`
	SwitchTimeoutMS  int64                        `json:"switch_timeout_ms"`
	SwitchExpiryMin  int64                        `json:"switch_expiry_minutes"` // 0: never
	HandlerTimeoutMS int64                        `json:"handler_timeout_ms"`
	AgentHeartbeatMS int64                        `json:"agent_heartbeat_ms"`
	TLS              *config.TLS                  `json:"tls,omitempty"`
	Insecure         bool                         `json:"insecure,omitempty"`
	Deny             string                       `json:"deny,omitempty"`
	Admit            []config.Admitted            `json:"admit,omitempty"`
	RefuseUnlisted   bool                         `json:"refuse_unlisted,omitempty"`
	FirstUse         bool                         `json:"first_use,omitempty"`
	Certificates     []string                     `json:"certificates,omitempty"` // of controllers, on this machine
	Problems         []string                     `json:"problems"`               // for which no controller starts here
}

type summaryController struct {
	Name     string `json:"name"`
	ID       uint64 `json:"id"`
	Peer     string `json:"peer"`
	OpenFlow string `json:"openflow"`
	API      string `json:"api"`
	REST     string `json:"rest,omitempty"`
	Data     string `json:"data"`
}

type summaryRyu struct {
	config.Ryu
	Found *ryu.Identity `json:"found,omitempty"` // on this machine
}

func summarize(s *config.Cluster, found process.Checked, problems []error) summary {
	sum := summary{Cluster: s.Name, Apps: withRequirements(s.Apps), Levels: s.Levels,
		Groups: s.Groups(), Durability: s.Durability,
		HeartbeatMS: s.Heartbeat.Milliseconds(), ElectionMS: s.Election.Milliseconds(),
		SwitchTimeoutMS: s.SwitchTimeout.Milliseconds(), SwitchExpiryMin: int64(s.SwitchExpiry.Minutes()),
		AgentHeartbeatMS: s.AgentHeartbeat.Milliseconds(),
		HandlerTimeoutMS: s.HandlerTimeout.Milliseconds(),
		TLS:              s.TLS, Deny: s.Deny, Admit: s.Admit, Insecure: s.Insecure,
		RefuseUnlisted: s.RefuseUnlisted, FirstUse: s.FirstUse,
		Certificates: found.Certificates, Problems: []string{}}
	for _, c := range s.Controllers {
		sum.Controllers = append(sum.Controllers, summaryController{c.Name, c.ID, c.Peer, c.OpenFlow, c.API, c.REST,
			s.DataDir(c)})
	}
	if len(s.Ryu.Applications) > 0 {
		sum.Ryu = &summaryRyu{s.Ryu, found.Ryu}
	}
	if slices.Contains(s.Apps, recovery.Name) {
		sum.Recovery = &s.Recovery
	}
	if slices.Contains(sum.Apps, liveness.Name) {
		sum.BFD = &s.BFD
	}
	if s.Placement.Optimize {
		sum.Placement = &s.Placement
	}
	for _, err := range problems {
		sum.Problems = append(sum.Problems, err.Error())
	}
	return sum
}

// printPlacement says where each group has replicas.
func printPlacement(w io.Writer, s *config.Cluster) {
	groups := s.Groups()
	if len(groups) == 1 {
		fmt.Fprintln(w, "groups\t1")
		return
	}
	fmt.Fprintf(w, "groups\t%d: one of each controller, and the system group\n", len(groups))
	fmt.Fprintf(w, "replication\t%d: a group works while %d of its %d controllers run and reach each other\n",
		s.Replicas(), s.Replicas()/2+1, s.Replicas())
	for i, g := range groups {
		what := "home " + g.Home
		if i == 0 {
			what = "system"
		}
		on := "on " + strings.Join(g.Voters, ", ")
		if len(g.Learners) > 0 {
			on += "; without a vote on " + strings.Join(g.Learners, ", ")
		}
		fmt.Fprintf(w, "group %d, %s\t%s\n", i, what, on)
	}
	if s.Replicas() < len(s.Controllers) {
		fmt.Fprintln(w, "switches\teach is served by the controllers of its group: give switches without an agent the "+
			"addresses of all controllers")
	}
	if p := s.Placement; p.Optimize {
		fmt.Fprintf(w, "placement\tan actor moves if that saves %d messages/s in %d windows of %v, %v after its last "+
			"move, to groups that handle at most %d messages/s\n", p.Threshold, p.Windows, p.Window, p.Cooldown, p.Load)
	}
}

func printCluster(out io.Writer, s *config.Cluster, found process.Checked) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tID\tPEER\tOPENFLOW\tAPI\tREST\tDATA")
	for _, c := range s.Controllers {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.ID, c.Peer, c.OpenFlow, c.API, dash(c.REST),
			s.DataDir(c))
	}
	fmt.Fprintf(w, "\ncluster\t%s\n", s.Name)
	fmt.Fprintf(w, "apps\t%s\n", strings.Join(withRequirements(s.Apps), ", "))
	if len(s.Ryu.Applications) > 0 {
		fmt.Fprintf(w, "applications of ryu\t%s\n", strings.Join(s.Ryu.Applications, ", "))
		fmt.Fprintf(w, "host\t%s, options %v, path %v, %d MB\n", s.Ryu.Python, s.Ryu.Options, s.Ryu.Path,
			s.Ryu.MemoryBytes>>20)
		if id := found.Ryu; id != nil {
			fmt.Fprintf(w, "on this machine\tPython %s, os-ken %s\n", id.Python, id.OSKen)
			for _, a := range id.Applications {
				fmt.Fprintf(w, "\t%s is %s\n", a.Name, a.File)
			}
		}
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
	printPlacement(w, s)
	fmt.Fprintf(w, "durability\t%s\n", s.Durability)
	fmt.Fprintf(w, "heartbeat\t%v\n", s.Heartbeat)
	fmt.Fprintf(w, "election\t%v\n", s.Election)
	fmt.Fprintf(w, "switch timeout\t%v\n", s.SwitchTimeout)
	if s.SwitchExpiry > 0 {
		fmt.Fprintf(w, "switch expiry\t%v\n", s.SwitchExpiry)
	}
	fmt.Fprintf(w, "handler timeout\t%v\n", s.HandlerTimeout)
	fmt.Fprintf(w, "agent heartbeat\t%v\n", s.AgentHeartbeat)
	if t := s.TLS; t != nil {
		fmt.Fprintf(w, "tls\tca %s, cert %s, key %s\n", t.CA, t.Cert, t.Key)
		if s.Deny != "" {
			fmt.Fprintf(w, "denied certificates\t%s\n", s.Deny)
		}
		others := "accepted"
		switch {
		case s.RefuseUnlisted:
			others = "refused"
		case s.FirstUse:
			others = "accepted for switches for which nobody else was first"
		}
		fmt.Fprintf(w, "certificates of switches\t%d admitted, others without datapath ids %s\n", len(s.Admit), others)
		fmt.Fprintf(w, "certificates here\t%s\n", dash(strings.Join(found.Certificates, ", ")))
	} else {
		fmt.Fprintf(w, "tls\tnone: plain TCP%s\n", map[bool]string{true: ", also for other machines"}[s.Insecure])
	}
	return w.Flush()
}
