package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxSwitchPorts bounds the ports of a switch on the command line.
const maxSwitchPorts = 1024

func vswitchCommand() *cobra.Command {
	var o vswitchOptions
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

--controller is the address of the agent beside it, or the addresses of all controllers if there is no
agent. With --ca, --cert and --key it connects over TLS, with a certificate for a switch (holdfast
pki issue switch NAME).`,
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
			if o.datapathID, err = parseDatapathID(dpid); err != nil {
				return err
			}
			if err := dialable(o.controllers); err != nil {
				return err
			}
			return runSwitch(cmd.Context(), o, log)
		},
	}
	cmd.Flags().StringVar(&dpid, "dpid", "", "datapath id: a number, or 16 hexadecimal digits")
	cmd.Flags().StringSliceVar(&o.controllers, "controller", nil, "addresses to connect to")
	cmd.Flags().StringSliceVar(&o.devices, "device", nil,
		"interfaces that are its ports; tap:NAME makes a TAP interface")
	cmd.Flags().IntVar(&o.ports, "ports", 0, "number of ports (default: one for each device)")
	cmd.Flags().DurationVar(&o.bfd, "bfd", 0,
		"watch links by BFD, and send a packet in each such interval (default: no BFD)")
	cmd.Flags().IntSliceVar(&o.bfdPorts, "bfd-ports", nil,
		"ports whose links are watched (default: those of all devices)")
	cmd.Flags().StringVar(&o.tls.CA, "ca", "", "for TLS: file with the trusted certificate authorities")
	cmd.Flags().StringVar(&o.tls.Cert, "cert", "", "for TLS: file with the switch's certificate")
	cmd.Flags().StringVar(&o.tls.Key, "key", "", "for TLS: file with its key")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	cmd.MarkFlagsRequiredTogether("ca", "cert", "key")
	_ = cmd.MarkFlagRequired("dpid")
	_ = cmd.MarkFlagRequired("controller")
	return cmd
}

type vswitchOptions struct {
	datapathID  openflow.DatapathID
	controllers []string
	devices     []string
	ports       int
	bfd         time.Duration // 0: none
	bfdPorts    []int         // empty: those of devices
	tls         mtls.Files    // empty: plain TCP
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

// runSwitch runs the switch until ctx ends or a device fails.
func runSwitch(ctx context.Context, o vswitchOptions, log *slog.Logger) error {
	ports, err := o.describePorts()
	if err != nil {
		return err
	}
	devices, err := openDevices(o.devices)
	defer func() {
		for _, d := range devices {
			d.Close()
		}
	}()
	if err != nil {
		return err
	}
	cfg := vswitch.RunnerConfig{
		Switch:      vswitch.Config{DatapathID: o.datapathID, Ports: ports},
		Controllers: o.controllers,
		Log:         log,
	}
	if o.tls != (mtls.Files{}) {
		c, err := mtls.Load(o.tls, mtls.Role(pki.Switch), log)
		if err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		incidents := incident.New(log)
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := c.Dial(ctx, address, mtls.Role(pki.Agent, pki.Controller))
			if err != nil && !errors.Is(err, context.Canceled) {
				incidents.Warn(address, "controller not connected", "address", address, "error", err)
			}
			return conn, err
		}
	}
	r := vswitch.StartRunner(cfg)
	if err := o.watchLinks(r); err != nil {
		r.Close()
		return err
	}
	log.Info("switch", "dpid", o.datapathID, "ports", len(ports), "controllers", o.controllers)
	failed := make(chan error, len(devices))
	var serving sync.WaitGroup
	for i, d := range devices {
		serving.Go(func() { failed <- d.Serve(r, of13.Port(i+1)) })
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	r.Close()
	serving.Wait()
	return err
}

// describePorts gives the ports of devices the names of these. They have no link before
// the device says so.
func (o vswitchOptions) describePorts() ([]of13.PortDesc, error) {
	n := max(o.ports, len(o.devices))
	if o.ports < 0 {
		return nil, fmt.Errorf("--ports %d: use 1 to %d", o.ports, maxSwitchPorts)
	}
	if n > maxSwitchPorts {
		return nil, fmt.Errorf("%d ports: use at most %d", n, maxSwitchPorts)
	}
	ports := vswitch.Ports(int(uint16(o.datapathID)), n)
	for i, d := range o.devices {
		ports[i].Name = strings.TrimPrefix(d, "tap:")
		ports[i].State |= of13.PortStateLinkDown
	}
	return ports, nil
}

// watchLinks begins the BFD sessions.
func (o vswitchOptions) watchLinks(r *vswitch.Runner) (err error) {
	if o.bfd == 0 {
		if len(o.bfdPorts) > 0 {
			return errors.New("--bfd-ports without --bfd: say how often to send, such as --bfd 15ms")
		}
		return nil
	}
	ports := o.bfdPorts
	if len(ports) == 0 {
		for i := range o.devices {
			ports = append(ports, i+1)
		}
	}
	if len(ports) == 0 {
		return errors.New("--bfd has no links to watch: give it ports by --device")
	}
	for _, no := range ports {
		c := bfd.Config{Discriminator: rand.Uint32() | 1, MinTx: o.bfd, MinRx: o.bfd, Multiplier: bfd.Multiplier,
			Jitter: rand.Float64}
		r.Do(func(s *vswitch.Switch, now time.Duration) { err = errors.Join(err, s.SetBFD(now, of13.Port(no), c)) })
	}
	return err
}

// openDevices returns what it opened even if it fails.
func openDevices(names []string) ([]*vswitch.Device, error) {
	var devices []*vswitch.Device
	for _, name := range names {
		open := vswitch.OpenDevice
		tap, isTAP := strings.CutPrefix(name, "tap:")
		if isTAP {
			open, name = vswitch.OpenTAP, tap
		}
		if name == "" {
			return devices, errors.New("--device has an empty name")
		}
		d, err := open(name)
		if err != nil {
			return devices, err
		}
		devices = append(devices, d)
	}
	return devices, nil
}
