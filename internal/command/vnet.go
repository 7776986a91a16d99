package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/lab/vnet"
)

func vnetCommand() *cobra.Command {
	c := vnet.Config{Topology: "linear,4"}
	var level string
	cmd := &cobra.Command{
		Use:   "vnet --controller ADDRESS,…",
		Short: "Run a network of software switches and hosts, with a console",
		Long: `Run a network of software OpenFlow 1.3 switches, with hosts, in one process, and read commands from
standard input: ping between the hosts, cut links. It needs no root. It is for trying things out.

Topologies are those of mininet: single,N is a switch with N hosts, linear,N has N switches in a row with a
host at each, and ring,N closes the row. Hosts are h1, h2 …, with the addresses 10.0.0.1, 10.0.0.2 …
Switches are s1, s2 …, with the datapath ids 1, 2 … In a ring, flooded packets circulate for 64 hops,
unless the application prevents that, as recovery does.

--controller is the address of an agent, which may be unix:PATH, or the addresses of all controllers if
there is no agent. vnet does not speak TLS: if the cluster does, use an agent at unix:PATH, or one with
--plain-switches.`,
		Example: `  holdfast vnet --controller 127.0.0.1:6653
  holdfast vnet --topology ring,4 --controller 127.0.0.1:6653
  echo pingall | holdfast vnet --topology single,3 --controller 127.0.0.1:6653`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			c.Log = log
			if err := dialable(c.Controllers, true); err != nil {
				return err
			}
			n, err := vnet.New(c)
			if err != nil {
				return err
			}
			defer n.Close()
			return n.Console(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&c.Topology, "topology", c.Topology, "single,N, linear,N or ring,N")
	cmd.Flags().StringSliceVar(&c.Controllers, "controller", nil, "addresses to connect to")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	_ = cmd.MarkFlagRequired("controller")
	return cmd
}
