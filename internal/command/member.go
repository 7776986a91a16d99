package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

func memberCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "Change the members of a running cluster",
		Long: `Change which controllers are members of a running cluster, without interrupting it.

A new controller needs an id that no controller of the cluster ever had; a new name in the cluster file
gives it one. Start it with an empty folder by holdfast serve --join. It joins as a learner: it receives
the log and has no vote. The number of voters is always odd, so a fourth controller remains a learner until
there is a fifth. A change that would leave no majority that is connected is refused.

With groups: per-controller a new controller becomes the home of a group, and gets replicas of others. One
that leaves first gives its replicas to others, and the groups that were at home there get another home.

A command that was interrupted can be repeated: it continues where it was.`,
		Example: `  holdfast member list --config holdfast.yaml
  holdfast member replace --config holdfast.yaml c3 c4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f memberFlags
	cmd.PersistentFlags().StringVar(&f.file, "config", "holdfast.yaml", "the cluster file")
	cmd.PersistentFlags().BoolVar(&f.asJSON, "json", false, "print the outcome as JSON")
	cmd.AddCommand(memberListCommand(&f), memberAddCommand(&f), memberRemoveCommand(&f), memberReplaceCommand(&f),
		memberReplicationCommand(&f))
	return cmd
}

type memberFlags struct {
	file   string
	asJSON bool
}

func memberListCommand(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the controllers as the log has them",
		Long: `Show the members: which controller leads, which vote and which are learners, whether the
leader is connected to them, and how much of its log they have.`,
		Example: `  holdfast member list --config holdfast.yaml
  holdfast member list --config holdfast.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := newClient(f.file, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer o.Close()
			m, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), m)
		},
	}
}

// withOrWithoutAddress says that a command takes so many arguments, or two more: id and address of a new controller.
func withOrWithoutAddress(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n && len(args) != n+2 {
			return fmt.Errorf("accepts %d arg(s), or %d with ID and ADDRESS, received %d", n, n+2, len(args))
		}
		return nil
	}
}

func memberAddCommand(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME [ID ADDRESS]",
		Short: "Add a controller",
		Long: `Add a controller, and wait until it has the log. ID and ADDRESS (where the other controllers
connect) are taken from the cluster file if they are left out.`,
		Example: `  holdfast member add --config holdfast.yaml c4
  holdfast member add --config holdfast.yaml c4 4 10.0.0.4:7001`,
		Args: withOrWithoutAddress(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, func(o *client.Client, _ controller.Members) (c controller.MemberChange, err error) {
				c.Add, err = newMember(o, args)
				return c, err
			})
		},
	}
}

func memberRemoveCommand(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a controller",
		Long: `Remove a controller, by its name or id. If it leads, it transfers the leadership first. Its process ends
when it learns of its removal. Of three controllers none can be removed, only replaced.`,
		Example: `  holdfast member remove --config holdfast.yaml c5`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, func(o *client.Client, now controller.Members) (c controller.MemberChange, err error) {
				c.Remove, err = o.MemberID(now, args[0], 0)
				return c, err
			})
		},
	}
}

func memberReplaceCommand(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "replace OLD NEW [ID ADDRESS]",
		Short: "Replace a controller, such as one that has lost its disk",
		Long: `Replace a controller by another one, in a single step as soon as the new one has the log. ID and ADDRESS
(where the other controllers connect) of the new one are taken from the cluster file if they are left out.

A controller that has lost its folder returns as a new one. It may use the same machine and the same
addresses: give it another name, or another id, in the cluster file.`,
		Example: `  holdfast member replace --config holdfast.yaml c3 c4
  holdfast member replace --config holdfast.yaml c3 c3         # which has a new id in the cluster file
  holdfast member replace --config holdfast.yaml c3 c4 4 10.0.0.4:7001`,
		Args: withOrWithoutAddress(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.change(cmd, func(o *client.Client, now controller.Members) (c controller.MemberChange, err error) {
				if c.Add, err = newMember(o, args[1:]); err == nil {
					c.Remove, err = o.MemberID(now, args[0], c.Add.ID)
				}
				return c, err
			})
		},
	}
}

func memberReplicationCommand(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "replication N",
		Short: "Change how many replicas each group has",
		Long: `With groups: per-controller, change how many controllers have a replica of each group: 3, 5 or
another odd number. If there are fewer controllers, each has one. The groups get and give up one replica at
a time. The replication in the cluster file counts only when a cluster is created.`,
		Example: `  holdfast member replication --config holdfast.yaml 5`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil || n == 0 || n > config.MaxReplication {
				return fmt.Errorf("replication %q: use an odd number from 3 to %d", args[0], config.MaxReplication)
			}
			return f.change(cmd, func(*client.Client, controller.Members) (controller.MemberChange, error) {
				return controller.MemberChange{Replication: n}, nil
			})
		},
	}
}

// newMember takes a name, and an id and an address if they are not those of the cluster file.
func newMember(o *client.Client, args []string) (*controller.NewMember, error) {
	if len(args) == 1 {
		return o.NewMember(args[0])
	}
	return client.NewMemberAt(args[0], args[1], args[2])
}

// change asks for a change until it is done, and prints the members then.
func (f *memberFlags) change(cmd *cobra.Command,
	plan func(*client.Client, controller.Members) (controller.MemberChange, error)) error {
	o, err := newClient(f.file, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer o.Close()
	now, err := o.Members(cmd.Context())
	if err != nil {
		return err
	}
	wanted, err := plan(o, now)
	if err != nil {
		return err
	}
	m, err := await(cmd.Context(), o, wanted, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), m)
}

// await asks for a change until it is in effect, with a progress bar while a new member gets the log.
func await(ctx context.Context, o *client.Client, wanted controller.MemberChange, out io.Writer) (controller.Members,
	error) {
	bar := newProgress(out)
	defer bar.clear()
	said, joins := false, ""
	most := 0
	m, changed, err := o.Change(ctx, wanted, func(m controller.Members) {
		w := m.Waiting
		if w == nil {
			if most = max(most, len(m.Moving)); most > 0 {
				bar.show(1-float64(len(m.Moving))/float64(most), fmt.Sprintf("%d groups get other replicas",
					len(m.Moving)))
			}
			return
		}
		joins = w.Name
		if !w.Connected && !said {
			said = true
			fmt.Fprintf(out, "%s is not connected: start it, with holdfast serve --join if it is new; waiting for it\n",
				w.Name)
		}
		bar.show(float64(w.Match)/float64(max(m.Last, 1)),
			fmt.Sprintf("%s has %d of %d entries", w.Name, w.Match, m.Last))
	})
	switch {
	case err == nil && changed && wanted.Remove != 0:
		fmt.Fprintln(out, "the certificate of the removed controller is still accepted: with tls, add it to the file "+
			"tls: deny on all machines; without, give the others a new cluster-key")
	case ctx.Err() != nil && joins != "":
		fmt.Fprintf(out, "%s is a learner now: run the command again to go on, or holdfast member remove %s\n", joins,
			joins)
	case err != nil || changed:
	case wanted.Replication > 0:
		fmt.Fprintln(out, "nothing is left to change")
	default:
		fmt.Fprintln(out, "nothing is left to change: a controller that is to be replaced needs another "+
			"name or id in the cluster file")
	}
	return m, err
}

func (f *memberFlags) print(out io.Writer, m controller.Members) error {
	if f.asJSON {
		return writeJSON(out, m)
	}
	if m.Stale != nil {
		fmt.Fprintln(out, outdated("the controller that answers", m.Stale))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tID\tADDRESS\tROLE\tCONNECTED\tHAS")
	for _, c := range m.Members {
		role := "learner"
		switch {
		case c.Leads:
			role = "leads"
		case c.Votes:
			role = "votes"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%v\t%d of %d\n", dash(c.Name), c.ID, c.Address, role, c.Connected, c.Match,
			m.Last)
	}
	if err := w.Flush(); err != nil || !slices.ContainsFunc(m.Members,
		func(c controller.Member) bool { return !c.Votes }) {
		return err
	}
	_, err := fmt.Fprintln(out, "\nThe number of voters is odd. A learner receives the log, and votes when there is a "+
		"second learner or when it replaces another controller.")
	return err
}
