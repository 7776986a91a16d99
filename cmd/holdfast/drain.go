package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/controller"
)

func drainCommand() *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use:   "drain --config FILE [CONTROLLER]",
		Short: "Make a controller give the leadership away",
		Long: `Make a controller give the leadership away, if it has it, and leave it to the others until it is
restarted: before maintenance, or an upgrade of one controller after the other. It goes on to
store the log. Without a name it is the controller that leads.

If nobody has led for more than ten election timeouts, a drained controller does all the same.`,
		Example: `  holdfast drain --config holdfast.yaml c1
  holdfast drain --config holdfast.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := newOperator(cluster)
			if err != nil {
				return err
			}
			defer o.close()
			name := ""
			if len(args) > 0 {
				name = args[0]
			} else if m, err := o.members(cmd.Context()); err == nil {
				name = m.Leader
			} else {
				return err
			}
			leader, err := o.drain(cmd.Context(), name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is drained until it is restarted; %s leads\n", name, leader)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "config", "holdfast.yaml", "the cluster file")
	return cmd
}

// drain drains a controller, and returns who leads then.
func (o *operator) drain(ctx context.Context, name string) (leader string, err error) {
	c, ok := o.cluster.Controller(name)
	if !ok {
		return "", fmt.Errorf("no controller is called %q in the cluster file; there are %v", name,
			controllerNames(o.cluster))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var m controller.Members
		err := o.call(ctx, c, http.MethodPost, "/v1/drain", struct{}{}, &m)
		var no *refused
		if err == nil || !errors.As(err, &no) || !no.later() {
			return m.Leader, err
		}
		if ended := sleep(ctx, retryPause); ended != nil {
			return "", fmt.Errorf("%s did not give the leadership away: %w (%w)", name, err, ended)
		}
	}
}
