package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// maxSwitchPorts bounds the ports of a switch on the command line.
const maxSwitchPorts = 1024

func vswitchCommand() *cobra.Command {
	var c vswitch.ProcessConfig
	var files mtls.Files
	var dpid, level string
	cmd := &cobra.Command{
		Use:   "vswitch --dpid ID --controller ADDRESS,…",
		Short: "Run a software OpenFlow 1.3 switch",
		Long: `Run a software OpenFlow 1.3 switch, until SIGINT or SIGTERM. It is for trying things out and
for tests, not a fast datapath.

Its ports are network interfaces, numbered from 1 in the order of --device: existing
ones, such as ends of veth pairs, or TAP interfaces that it creates if "tap:" is before the
name (bring them up with ip link set NAME up). Both need root. With --ports it has
additional ports, which are up and not connected.

With --bfd it watches the links of its ports by BFD, and reports a link dead when three packets in a row
are missing, even if there is a carrier. The far end must do the same: an Open vSwitch with
bfd:enable=true, or another holdfast vswitch. List the ports with --bfd-ports if others lead to hosts.

--controller is the address of the agent beside it, which may be unix:PATH, or the addresses of all
controllers if there is no agent. With --ca, --cert and --key it connects over TLS, with a certificate for
a switch (holdfast pki issue switch NAME).`,
		Example: `  holdfast vswitch --dpid 1 --ports 4 --controller 127.0.0.1:6653
  holdfast vswitch --dpid 00000000000000a1 --device veth0,veth2,tap:tap0 --controller 127.0.0.1:6653
  holdfast vswitch --dpid 1 --device veth0,veth2,veth4 --bfd 15ms --bfd-ports 2,3 --controller 127.0.0.1:6653
  holdfast vswitch --dpid 1 --ports 4 --controller 127.0.0.1:6653 --ca ca.pem --cert s1.pem --key s1-key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			c.Runner.Log = log
			if c.Runner.Switch.DatapathID, err = parseDatapathID(dpid); err != nil {
				return err
			}
			if err := cmp.Or(dialable(c.Runner.Controllers, true), checkVswitch(&c)); err != nil {
				return err
			}
			if files != (mtls.Files{}) {
				if slices.ContainsFunc(c.Runner.Controllers, atSocket) {
					return errors.New("an agent at a Unix socket does not speak TLS: leave out --ca, --cert and --key")
				}
				if c.Runner.Dial, err = dialTLS(files, log); err != nil {
					return err
				}
			}
			return vswitch.Run(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&dpid, "dpid", "", "datapath id: a number, or 16 hexadecimal digits")
	cmd.Flags().StringSliceVar(&c.Runner.Controllers, "controller", nil, "addresses to connect to")
	cmd.Flags().StringSliceVar(&c.Devices, "device", nil,
		"interfaces that are its ports; tap:NAME makes a TAP interface")
	cmd.Flags().IntVar(&c.Ports, "ports", 0, "number of ports (default: one for each device)")
	cmd.Flags().DurationVar(&c.BFD, "bfd", 0,
		"watch links by BFD, and send a packet in each such interval (default: no BFD)")
	cmd.Flags().IntSliceVar(&c.BFDPorts, "bfd-ports", nil,
		"ports whose links are watched (default: those of all devices)")
	cmd.Flags().StringVar(&files.CA, "ca", "", "for TLS: file with the trusted certificate authorities")
	cmd.Flags().StringVar(&files.Cert, "cert", "", "for TLS: file with the switch's certificate")
	cmd.Flags().StringVar(&files.Key, "key", "", "for TLS: file with its key")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.MarkFlagsRequiredTogether("ca", "cert", "key")
	_ = cmd.MarkFlagRequired("dpid")
	_ = cmd.MarkFlagRequired("controller")
	return cmd
}

// parseDatapathID takes 16 digits for hexadecimal, as ovs-vsctl prints them.
func parseDatapathID(s string) (openflow.DatapathID, error) {
	base := 0
	if len(s) == 16 {
		base = 16
	}
	id, err := strconv.ParseUint(s, base, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("datapath id %q: use a number from 1, such as 17 or 0x11, or 16 hexadecimal digits", s)
	}
	return openflow.DatapathID(id), nil
}

// checkVswitch refuses ports that a switch cannot have.
func checkVswitch(c *vswitch.ProcessConfig) error {
	switch n := max(c.Ports, len(c.Devices)); {
	case c.Ports < 0:
		return fmt.Errorf("--ports %d: use 1 to %d", c.Ports, maxSwitchPorts)
	case n > maxSwitchPorts:
		return fmt.Errorf("%d ports: use at most %d", n, maxSwitchPorts)
	case c.BFD == 0 && len(c.BFDPorts) > 0:
		return errors.New("--bfd-ports without --bfd: say how often to send, such as --bfd 15ms")
	case c.BFD != 0 && len(c.BFDPorts)+len(c.Devices) == 0:
		return errors.New("--bfd has no links to watch: give it ports by --device")
	}
	return nil
}

// dialTLS connects a switch to agents and controllers over TLS.
func dialTLS(files mtls.Files, log *slog.Logger) (func(context.Context, string) (net.Conn, error), error) {
	c, err := mtls.Load(files, mtls.Role(pki.Switch), log)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		return c.Dial(ctx, address, mtls.Role(pki.Agent, pki.Controller))
	}, nil
}
