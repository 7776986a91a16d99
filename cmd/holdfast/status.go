package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
)

func statusCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status --config FILE",
		Short: "Show the controllers and switches of a cluster",
		Long: `Ask every controller of a cluster for its status: the leader and the term, the positions in the
log, and for every switch its master, its guarantee, and how many of its events are logged
and of its commands executed. Exits 1 if no controller leads.

If the cluster has TLS, it presents the certificate that the cluster file names, of an operator or
a controller; {name} in the cluster file is replaced by "operator".`,
		Example: `  holdfast status --config holdfast.yaml
  holdfast status --config holdfast.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			answers := o.Status(cmd.Context())
			out := map[string]any{"controllers": answers}
			links := detection(cmd.Context(), o, client.LeaderOf(answers))
			if links != nil {
				out["links"] = links
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), out)
			} else if err = printStatus(cmd.OutOrStdout(), answers); err == nil && links != nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s See holdfast links.\n", links)
			}
			if err == nil && client.LeaderOf(answers) == nil {
				err = fmt.Errorf("no controller leads: a majority of the %d controllers must run and reach each other",
					len(answers))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// detection asks the leader how soon BFD detects a dead link. It returns nil if no link is watched, or nobody answers.
func detection(ctx context.Context, o *client.Client, leader *controller.Status) *setup.Detection {
	if leader == nil || !slices.Contains(withRequirements(leader.Apps), liveness.Name) {
		return nil
	}
	var r setup.Report
	if err := o.Leader(ctx, http.MethodGet, linksPath, nil, &r); err != nil {
		return nil
	}
	if d := r.Detection(); d.Links > 0 {
		return &d
	}
	return nil
}

func printStatus(out io.Writer, answers []client.Answer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tROLE\tTERM\tLAST\tCOMMITTED\tAPPLIED\tSNAPSHOT")
	for _, a := range answers {
		if s := a.Status; s != nil {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", a.Name, role(s), s.Term, s.LastIndex, s.CommitIndex,
				s.Applied, s.Snapshot)
		} else {
			fmt.Fprintf(w, "%s\tno answer\t-\t-\t-\t-\t-\n", a.Name)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range answers {
		if a.Error != "" {
			fmt.Fprintln(out, a.Error)
		}
	}
	printElections(out, answers)
	leader := client.LeaderOf(answers)
	if leader == nil {
		return nil
	}
	for _, a := range answers {
		if a.Status != nil && !slices.Equal(a.Status.Apps, leader.Apps) {
			fmt.Fprintf(out, "%s runs %v and the leader %v: give all controllers the same cluster file, or events go "+
				"elsewhere when %s leads\n",
				a.Name, a.Status.Apps, leader.Apps, a.Name)
		}
	}
	if err := printReplayed(out, answers); err != nil {
		return err
	}
	if err := printGroups(out, answers); err != nil {
		return err
	}
	switches := byMaster(answers, leader)
	if len(switches) == 0 {
		_, err := fmt.Fprintln(out, "\nno switch has connected yet")
		return err
	}
	fmt.Fprintln(w, "\nSWITCH\tSTATE\tMASTER\tSTANDBY\tMODE\tOPENFLOW\tGUARANTEE\tEVENTS LOGGED\tCOMMANDS "+
		"ISSUED\tDONE\tALL EVENTS\tALL COMMANDS")
	for _, s := range switches {
		master := "-"
		if s.Role == "master" {
			master = s.by
			if s.Via != "" {
				master += " via " + s.Via
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", s.Switch, s.State, master,
			standbys(answers, s.Switch), dash(s.Mode), dash(s.Version), dash(s.Guarantee),
			s.EventsLogged, s.CommandsSent, s.CommandsDone, s.TotalEvents, s.TotalCommands)
	}
	for _, s := range switches {
		if s.Why != "" && (s.Mode != "agent" || s.Guarantee != "exactly-once" || s.Via != "") {
			fmt.Fprintf(w, "%s: %s: %s\n", s.Switch, s.Guarantee, s.Why)
		}
	}
	return w.Flush()
}

// switchAt is a switch as one controller sees it.
type switchAt struct {
	controller.SwitchStatus
	by string
}

// byMaster returns the switches that the leader knows, each as its master sees it, or else the leader.
func byMaster(answers []client.Answer, leader *controller.Status) []switchAt {
	masters := map[string]switchAt{}
	for _, a := range answers {
		if a.Status == nil {
			continue
		}
		for _, s := range a.Status.Switches {
			if s.Role == "master" {
				masters[s.Switch] = switchAt{s, a.Name}
			}
		}
	}
	list := make([]switchAt, len(leader.Switches))
	for i, s := range leader.Switches {
		if list[i] = (switchAt{s, leader.Name}); s.Role != "master" && masters[s.Switch].by != "" {
			list[i] = masters[s.Switch]
		}
	}
	return list
}

// printGroups lists the groups, if there are several, each as its leader sees it.
func printGroups(out io.Writer, answers []client.Answer) error {
	leaders := map[uint64]controller.GroupStatus{}
	for _, a := range answers {
		if a.Status == nil {
			continue
		}
		for _, g := range a.Status.Groups {
			if known, ok := leaders[g.Group]; !ok || g.Role == "leader" && (known.Role != "leader" ||
				g.Term > known.Term) {
				leaders[g.Group] = g
			}
		}
	}
	if len(leaders) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGROUP\tLEADER\tHOME\tTERM\tLAST\tAPPLIED\tSWITCHES")
	for _, n := range slices.Sorted(maps.Keys(leaders)) {
		g := leaders[n]
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d\n", n, dash(g.Leader), dash(g.Home), g.Term, g.LastIndex, g.Applied,
			g.Switches)
	}
	return w.Flush()
}

// printElections says which controllers notice a leader that hangs later than configured.
func printElections(out io.Writer, answers []client.Answer) {
	for _, a := range answers {
		if a.Status != nil && a.Status.Election.Why != "" {
			e := a.Status.Election
			fmt.Fprintf(out, "%s: the election timeout is %d ms instead of %d ms, because %s: the machine is busy; "+
				"a leader that hangs is noticed within %d ms\n", a.Name, e.TimeoutMs, e.ConfiguredMs, e.Why, e.HangMs)
		}
	}
}

// role is what a controller does, and whether it may lead.
func role(s *controller.Status) string {
	text := s.Role
	if s.Learner {
		text += ", learner"
	}
	if s.Drained {
		text += ", drained"
	}
	return text
}

// standbys counts the controllers that could take a switch over without missing an event, and those
// that are connected to it and could not yet.
func standbys(answers []client.Answer, id string) string {
	ready, behind := 0, 0
	for _, a := range answers {
		if a.Status == nil {
			continue
		}
		for _, s := range a.Status.Switches {
			switch {
			case s.Switch != id || s.Role != "standby":
			case s.InSync:
				ready++
			default:
				behind++
			}
		}
	}
	if behind > 0 {
		return fmt.Sprintf("%d (+%d not in sync)", ready, behind)
	}
	return fmt.Sprint(ready)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
