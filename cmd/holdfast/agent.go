package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

func agentCommand() *cobra.Command {
	var site, address, level string
	var controllers []string
	cmd := &cobra.Command{
		Use:   "agent {--config FILE | --controllers ADDRESS,…}",
		Short: "Run the agent beside a switch",
		Long: `Run the agent beside an unmodified switch, until SIGINT or SIGTERM.

The switch takes the agent for its controller. The agent keeps every event until the
controllers have logged it, and lets every command pass once, whichever controller leads.
It serves several switches, but they lose their events together if it dies: run one
beside each switch.`,
		Example: `  holdfast agent --config holdfast.yaml
  ovs-vsctl set-controller br0 tcp:127.0.0.1:6653

  holdfast agent --listen 127.0.0.1:6633 --controllers 10.0.0.1:6653,10.0.0.2:6653,10.0.0.3:6653`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			if site != "" {
				if controllers, err = openFlowAddresses(site); err != nil {
					return err
				}
			}
			if err := dialable(controllers); err != nil {
				return err
			}
			listener, err := net.Listen("tcp", address)
			if err != nil {
				return fmt.Errorf("listen for switches: %w: free the address or choose another with --listen", err)
			}
			log.Info("agent", "listen", listener.Addr(), "controllers", controllers)
			return agent.Run(cmd.Context(), agent.Config{Listen: listener, Controllers: controllers, Logger: log})
		},
	}
	cmd.Flags().StringVar(&site, "config", "", "the site file, which names the controllers")
	cmd.Flags().StringSliceVar(&controllers, "controllers", nil, "addresses of all controllers, in place of a site file")
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:6653", "address for switches to connect to")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.MarkFlagsOneRequired("config", "controllers")
	cmd.MarkFlagsMutuallyExclusive("config", "controllers")
	return cmd
}

// openFlowAddresses returns where agents and switches of a site connect.
func openFlowAddresses(file string) ([]string, error) {
	s, err := config.Load(file, applicationNames())
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, c := range s.Controllers {
		addresses = append(addresses, c.OpenFlow)
	}
	return addresses, nil
}

// dialable finds mistakes in the addresses of controllers before they are dialled in the background.
func dialable(addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("no controller address: write it like 127.0.0.1:6653")
	}
	for _, a := range addresses {
		host, port, err := net.SplitHostPort(a)
		if number, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || number == 0 {
			return fmt.Errorf("controller address %q: write it like 127.0.0.1:6653", a)
		}
	}
	return nil
}
