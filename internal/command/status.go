package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
		Long: `Show the controllers of a cluster, its groups if it has several, and for every switch its master,
its guarantee, and how many of its events are logged and of its commands executed. One controller
answers for all. Exits 1 if no controller leads.

If the cluster has TLS, it presents the certificate that the cluster file names. {name} there is replaced
by "admin", "operator" or "viewer": the first of which there is a certificate.`,
		Example: `  holdfast status --config holdfast.yaml
  holdfast status --config holdfast.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newClient(file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			s := o.Status(cmd.Context())
			links := detection(cmd.Context(), o, s.Of(s.Leader))
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), struct {
					controller.ClusterStatus
					Links *setup.Detection `json:"links,omitempty"`
				}{s, links})
			} else if err = printStatus(cmd.OutOrStdout(), s); err == nil && links != nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s See holdfast links.\n", links)
			}
			if err == nil {
				err = leads(s)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// leads returns an error if no controller is known that leads.
func leads(s controller.ClusterStatus) error {
	switch {
	case s.Leader != "":
		return nil
	case len(s.Groups) > 0 && s.Groups[0].Leader != "" &&
		!slices.ContainsFunc(s.Controllers, func(a controller.Answer) bool { return a.Name == s.Groups[0].Leader }):
		return fmt.Errorf("controller %s leads, and %s, which answers, has a cluster file without it: give %s the "+
			"present file, and restart it", s.Groups[0].Leader, s.By, s.By)
	}
	return fmt.Errorf("no controller leads: a majority of the %d controllers must run and reach each other",
		len(s.Controllers))
}

// detection asks the leader how soon BFD detects a dead link. It returns nil if no link is watched, or nobody answers.
func detection(ctx context.Context, o *client.Client, leader *controller.Status) *setup.Detection {
	if leader == nil || !slices.Contains(withRequirements(leader.Apps), liveness.Name) {
		return nil
	}
	var r setup.Report
	if err := o.Links(ctx, &r); err != nil {
		return nil
	}
	if d := r.Detection(); d.Links > 0 {
		return &d
	}
	return nil
}

func printStatus(out io.Writer, s controller.ClusterStatus) error {
	err := printControllers(out, s)
	if err != nil {
		return err
	}
	for _, a := range s.Controllers {
		switch {
		case a.Error != "" && s.By != "":
			fmt.Fprintf(out, "%s got no status from %s: %s\n", s.By, a.Name, a.Error)
		case a.Error != "":
			fmt.Fprintln(out, a.Error)
		}
	}
	printElections(out, s.Controllers)
	printHanging(out, s.Controllers)
	printRebuilt(out, s.Controllers)
	if leader := s.Of(s.Leader); leader != nil {
		for _, a := range s.Controllers {
			if a.Status != nil && !slices.Equal(a.Status.Apps, leader.Apps) {
				fmt.Fprintf(out, "%s runs %v and the leader %v: give all controllers the same cluster file, or events "+
					"go elsewhere when %s leads\n",
					a.Name, a.Status.Apps, leader.Apps, a.Name)
			}
		}
	}
	if err := printReplayed(out, s.Controllers); err != nil {
		return err
	}
	if err := printGroups(out, s.Groups); err != nil {
		return err
	}
	if err := printSwitches(out, s); err != nil {
		return err
	}
	if err := printSuspended(out, s.Suspended); err != nil {
		return err
	}
	return printOutdated(out, s)
}

// printControllers lists the controllers. If there is one group, it shows how far each has the log.
func printControllers(out io.Writer, s controller.ClusterStatus) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	several := len(s.Groups) > 1
	if several {
		fmt.Fprintln(w, "CONTROLLER\tSTATE\tLEADS\tHOME OF\tBEHIND")
	} else {
		fmt.Fprintln(w, "CONTROLLER\tROLE\tTERM\tLAST\tCOMMITTED\tAPPLIED\tSNAPSHOT")
	}
	for _, a := range s.Controllers {
		switch st := a.Status; {
		case several:
			fmt.Fprintf(w, "%s\t%s\n", a.Name, strings.Join(amongGroups(s, a), "\t"))
		case st == nil:
			fmt.Fprintf(w, "%s\tno answer\t-\t-\t-\t-\t-\n", a.Name)
		default:
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", a.Name, marked(st.Role, st), st.Term, st.LastIndex,
				st.CommitIndex, st.Applied, st.Snapshot)
		}
	}
	return w.Flush()
}

// amongGroups describes a controller of several groups: its state, the groups that it leads, those of which it is the
// home, and how many entries that their leaders have applied it has not.
func amongGroups(s controller.ClusterStatus, a controller.Answer) []string {
	var leads, home []string
	applied := map[uint64]uint64{}
	for _, g := range s.Groups {
		n := fmt.Sprint(g.Group)
		if g.Outdated == "" {
			applied[g.Group] = g.Applied
			if g.By == a.Name {
				leads = append(leads, n)
			}
		}
		if g.Home == a.Name {
			home = append(home, n)
		}
	}
	state, behind := "no answer", "-"
	if a.Status != nil {
		n := uint64(0)
		for _, g := range a.Status.Groups {
			n += max(applied[g.Group], g.Applied) - g.Applied
		}
		state, behind = marked("up", a.Status), fmt.Sprint(n)
	}
	return []string{state, dash(strings.Join(leads, ", ")), dash(strings.Join(home, ", ")), behind}
}

// marked adds to the state of a controller whether it may lead.
func marked(state string, s *controller.Status) string {
	if s.Learner {
		state += ", learner"
	}
	if s.Drained {
		state += ", drained"
	}
	return state
}

// printGroups lists the groups, if there are several.
func printGroups(out io.Writer, groups []controller.GroupView) error {
	if len(groups) < 2 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGROUP\tLEADER\tHOME\tREPLICAS\tTERM\tLAST\tAPPLIED\tSWITCHES\tWAITING\tDRAINED AT")
	for _, g := range groups {
		waiting := 0 // for other groups
		for _, b := range g.Backlog {
			waiting += b.Items
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", g.Group, dash(g.Leader), dash(g.Home),
			strings.Join(g.Replicas, ", "), g.Term, g.LastIndex, g.Applied, g.Switches, waiting,
			dash(strings.Join(g.DrainedAt, ", ")))
	}
	for _, g := range groups {
		if g.FailedMoves > 0 {
			fmt.Fprintf(w, "%d moves from group %d have failed: the log of %s says why (an actor does not move)\n",
				g.FailedMoves, g.Group, g.By)
		}
	}
	return w.Flush()
}

// printDegraded says which controllers run handlers in a minority.
func printDegraded(out io.Writer, s controller.ClusterStatus) {
	for _, a := range s.Controllers {
		if a.Status == nil {
			continue
		}
		for _, g := range a.Status.Groups {
			if g.Stale == nil || !g.Stale.Serves {
				continue
			}
			what := "the group"
			if len(s.Groups) > 1 {
				what = fmt.Sprint("group ", g.Group)
			}
			fmt.Fprintf(out, "%s led %s when it lost the majority, and runs only handlers that are marked for that: "+
				"%d events so far, which wait at the agents\n", a.Name, what, g.Stale.Degraded)
		}
	}
}

// printOutdated says what is not shown as the leader of its group knows it.
func printOutdated(out io.Writer, s controller.ClusterStatus) error {
	about := map[string][]string{} // groups by what is said of them
	for _, g := range s.Groups {
		if g.Outdated != "" {
			text := fmt.Sprintf("shown as %s knows them, which may be outdated: %s", g.By, g.Outdated)
			if g.Stale != nil {
				text += fmt.Sprintf("; %s has known no leader since %s", g.By,
					g.Stale.Since.Local().Format(time.DateTime))
			}
			about[text] = append(about[text], fmt.Sprint(g.Group))
		}
	}
	printDegraded(out, s)
	for _, text := range slices.Sorted(maps.Keys(about)) {
		what := "groups " + strings.Join(about[text], ", ") + " and their switches"
		switch {
		case len(s.Groups) == 1:
			what = "the switches"
		case len(about[text]) == 1:
			what = "group " + about[text][0] + " and its switches"
		}
		if _, err := fmt.Fprintf(out, "%s are %s\n", what, text); err != nil {
			return err
		}
	}
	return nil
}

func printSwitches(out io.Writer, s controller.ClusterStatus) error {
	if len(s.Switches) == 0 {
		if s.Leader == "" {
			return nil
		}
		_, err := fmt.Fprintln(out, "\nno switch has connected yet")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	several, first := len(s.Groups) > 1, "\nSWITCH"
	if several {
		first += "\tGROUP\tVERSION"
	}
	fmt.Fprintln(w, first+"\tSTATE\tMASTER\tSTANDBY\tMODE\tOPENFLOW\tGUARANTEE\tEVENTS LOGGED\tCOMMANDS "+
		"ISSUED\tDONE\tALL EVENTS\tALL COMMANDS")
	for _, sw := range s.Switches {
		first, master := sw.Switch, dash(sw.Master)
		if several {
			first += fmt.Sprintf("\t%d\t%d", sw.Group, sw.Assignment)
		}
		if sw.Master != "" && sw.Via != "" {
			master += " via " + sw.Via
		}
		standbys := fmt.Sprint(sw.Standbys)
		if sw.Behind > 0 {
			standbys += fmt.Sprintf(" (+%d not in sync)", sw.Behind)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", first, sw.State, master, standbys,
			dash(sw.Mode), dash(sw.Version), dash(sw.Guarantee), sw.EventsLogged, sw.CommandsSent, sw.CommandsDone,
			sw.TotalEvents, sw.TotalCommands)
	}
	for _, sw := range s.Switches {
		if sw.Why != "" && (sw.Mode != "agent" || sw.Guarantee != "exactly-once" || sw.Via != "") {
			fmt.Fprintf(w, "%s: %s: %s\n", sw.Switch, sw.Guarantee, sw.Why)
		}
	}
	return w.Flush()
}

// printElections says which controllers notice a leader that hangs later than configured.
func printElections(out io.Writer, answers []controller.Answer) {
	for _, a := range answers {
		if a.Status != nil && a.Status.Election.Why != "" {
			e := a.Status.Election
			fmt.Fprintf(out, "%s: the election timeout is %d ms instead of %d ms, because %s: the machine is busy; "+
				"a leader that hangs is noticed within %d ms\n", a.Name, e.TimeoutMs, e.ConfiguredMs, e.Why, e.HangMs)
		}
	}
}

func dash(s string) string { return cmp.Or(s, "-") }
