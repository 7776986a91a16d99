package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
)

func actorsCommand() *cobra.Command {
	var file string
	var asJSON, advise bool
	var top int
	cmd := &cobra.Command{
		Use:   "actors --config FILE",
		Short: "Show what the actors of a cluster do: messages, time, and with whom",
		Long: `Show for each actor, which is a switch or a part of an application, how many messages it handled and
sent, how long its handlers were busy, the bytes of its cells, and the actors with which it exchanges
the most. Then show for each application what its handlers cause: which type of message makes them
send which. A handler is centralised if one actor of the cluster handles the messages of several.
In the end are the actors that live in one group because a handler names cells of several of them.
STAYS says why the optimizer of placement does not move an actor. LIMIT is the rate limit of its
application, with the messages that waited, and those that were dropped, because of it. Actors that are
suspended, because a handler did not return, are listed with the reason: see holdfast resume.

With --advice, show instead what limits how far the applications scale: which handlers are centralised
and why, which messages cross the boundary between groups most, and what would change that.

Each group is counted by its leader, since that leads the group.`,
		Example: `  holdfast actors --config holdfast.yaml
  holdfast actors --top 0 --json
  holdfast actors --advice`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if advise {
				return answer(cmd, file, asJSON, (*client.Client).Advice, printAdvice)
			}
			more := 0
			busiest := func(c *client.Client, ctx context.Context) (controller.Actors, error) {
				a, err := c.Actors(ctx)
				if top > 0 && len(a.Actors) > top {
					more = len(a.Actors) - top
					a.Actors = a.Actors[:top]
				}
				return a, err
			}
			return answer(cmd, file, asJSON, busiest, func(out io.Writer, a controller.Actors) error {
				return printActors(out, a, more)
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "holdfast.yaml", "the cluster file")
	cmd.Flags().IntVar(&top, "top", 20, "show so many actors, the busiest ones; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&advise, "advice", false, "show what limits how far the applications scale, and what to change")
	return cmd
}

// printAdvice prints a line for each piece of advice, and then what it says.
func printAdvice(out io.Writer, a controller.Advice) error {
	printAsked(out, a.By, a.Controllers, a.Leaderless)
	if len(a.Items) == 0 {
		_, err := fmt.Fprintf(out, "no advice: of %d messages, hardly any depend on one actor or cross groups\n",
			a.Inputs)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NO\tADVICE\tAPPLICATION\tMESSAGE\tMESSAGES\tSHARE")
	for i, v := range a.Items {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%.0f%%\n", i+1, v.Kind, application(v.App), path.Base(v.Message),
			v.Messages, 100*v.Share)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, v := range a.Items {
		_, err := fmt.Fprintf(out, "\n%d. %s\n   Why: %s\n   Change: %s\n", i+1, v.Finding, v.Why, v.Change)
		if err != nil {
			return err
		}
	}
	return nil
}

// shownPeers is how many peers of an actor are shown, and shownBonds how many bonds.
const (
	shownPeers = 2
	shownBonds = 10
)

func printActors(out io.Writer, a controller.Actors, more int) error {
	printAsked(out, a.By, a.Controllers, a.Leaderless)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTOR\tGROUP\tLEADER\tSTAYS\tINPUTS\tOUTPUTS\tFAILURES\tLIMIT (LATE, DROPPED)\tBUSY MS\tBYTES\t"+
		"TOP PEERS (TO, FROM)")
	for _, v := range a.Actors {
		printActor(w, v.Actor, v)
	}
	for _, v := range a.Others {
		if v.Inputs+v.Outputs > 0 || v.Bytes > 0 {
			printActor(w, "others", v)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(out, "and %d more: --top 0 shows all\n", more)
	}
	for _, g := range a.Groups {
		if g.Partial {
			fmt.Fprintf(out, "group %d has more cells than were measured: the bytes are too low\n", g.Group)
		}
	}
	if err := printSuspended(out, a.Suspended); err != nil {
		return err
	}
	if len(a.Handlers) == 0 {
		_, err := fmt.Fprintln(out, "\nno application has handled a message yet")
		return err
	}
	fmt.Fprintln(w, "\nAPPLICATION\tMESSAGE\tINPUTS\tFAILURES\tCAUSES")
	for _, h := range a.Handlers {
		var causes []string
		for _, e := range h.Effects {
			causes = append(causes, fmt.Sprintf("%d %s", e.Count, path.Base(e.Message)))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", h.App, path.Base(h.Message), h.Inputs, h.Failures,
			dash(strings.Join(causes, ", ")))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return errors.Join(printCentralised(out, a.Handlers), printBonds(out, a.Bonds))
}

// printBonds says which actors live in one group because a handler names their cells together, and which handler.
func printBonds(out io.Writer, bonds []controller.BondView) error {
	for i, b := range bonds[:min(len(bonds), shownBonds)] {
		if i == 0 {
			fmt.Fprintln(out)
		}
		if _, err := fmt.Fprintf(out, "%s: %d of %d actors live in one group, that of %s, because of %s\n", b.App,
			b.Actors, b.Of, brief(b.To), b.Handler); err != nil {
			return err
		}
	}
	return nil
}

func printActor(w io.Writer, name string, v controller.ActorView) {
	var peers []string
	for _, p := range v.Peers[:min(len(v.Peers), shownPeers)] {
		peers = append(peers, fmt.Sprintf("%s (%d, %d)", brief(p.Actor), p.Sent, p.Received))
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\t%.1f\t%d\t%s\n", brief(name), v.Group, v.Leader, dash(v.Stays),
		v.Inputs, v.Outputs, v.Failures, limitOf(v), v.BusyMs, v.Bytes, dash(strings.Join(peers, ", ")))
}

// limitOf says what the limit of an actor has done.
func limitOf(v controller.ActorView) string {
	if v.Limit == 0 && v.Late+v.Dropped == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/s (%d, %d)", v.Limit, v.Late, v.Dropped)
}

// brief is the name of an actor in tables.
func brief(actor string) string { return strings.TrimPrefix(actor, "application ") }

// printCentralised says which handlers do not scale with the controllers, the most inputs first.
func printCentralised(out io.Writer, handlers []controller.HandlerView) error {
	list := slices.DeleteFunc(slices.Clone(handlers), func(h controller.HandlerView) bool { return !h.Centralised })
	slices.SortStableFunc(list, func(a, b controller.HandlerView) int { return cmp.Compare(b.Inputs, a.Inputs) })
	for i, h := range list {
		if i == 0 {
			fmt.Fprintln(out)
		}
		if _, err := fmt.Fprintf(out, "%s is centralised: one actor (%s) handles %s of %d others\n", h.App, brief(h.By),
			path.Base(h.Message), h.Sources); err != nil {
			return err
		}
	}
	return nil
}

// printAsked says which controllers have not answered the one that was asked, and which groups that knows no leader of.
func printAsked(out io.Writer, by string, controllers []controller.Asked, leaderless []uint64) {
	for _, c := range controllers {
		if c.Error != "" {
			fmt.Fprintf(out, "%s got no answer from %s, and the groups that it leads are left out: %s\n", by, c.Name,
				c.Error)
		}
	}
	for _, g := range leaderless {
		fmt.Fprintf(out, "no controller leads group %d that %s knows of: what its actors do is not counted\n", g, by)
	}
}
