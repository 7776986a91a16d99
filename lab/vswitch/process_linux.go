package vswitch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ProcessConfig describes a switch whose ports are interfaces of this machine.
type ProcessConfig struct {
	// Runner has no ports of the switch: these are described by Devices.
	Runner RunnerConfig
	// Devices are interfaces, numbered from port 1; with the prefix "tap:", TAP interfaces that it creates.
	Devices []string
	// Ports is how many ports the switch has, if more. Those without a device are up, and not connected.
	Ports int
	// BFD is the interval at which links are monitored; 0 for none.
	BFD time.Duration
	// BFDPorts are the ports whose links are monitored; those of all devices if empty.
	BFDPorts []int
}

// Run runs a switch until ctx ends or a device fails.
func Run(ctx context.Context, c ProcessConfig) error {
	c.Runner.Switch.Ports = c.describePorts()
	devices, err := openDevices(c.Devices)
	defer func() {
		for _, d := range devices {
			d.Close()
		}
	}()
	if err != nil {
		return err
	}
	r := StartRunner(c.Runner)
	if err := c.watchLinks(r); err != nil {
		r.Close()
		return err
	}
	r.config.Log.Info("switch runs", "ports", len(c.Runner.Switch.Ports), "controllers", c.Runner.Controllers)
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

// describePorts gives the ports of devices the names of these. They have no carrier until the device reports it.
func (c *ProcessConfig) describePorts() []of13.PortDesc {
	ports := Ports(int(uint16(c.Runner.Switch.DatapathID)), max(c.Ports, len(c.Devices)))
	for i, d := range c.Devices {
		ports[i].Name = strings.TrimPrefix(d, tapPrefix)
		ports[i].State |= of13.PortStateLinkDown
	}
	return ports
}

// watchLinks begins the BFD sessions.
func (c *ProcessConfig) watchLinks(r *Runner) (err error) {
	if c.BFD == 0 {
		return nil
	}
	ports := c.BFDPorts
	if len(ports) == 0 {
		for i := range c.Devices {
			ports = append(ports, i+1)
		}
	}
	for _, no := range ports {
		cfg := bfd.Config{Discriminator: rand.Uint32() | 1, MinTx: c.BFD, MinRx: c.BFD, Multiplier: bfd.Multiplier,
			Jitter: rand.Float64}
		r.Do(func(s *Switch, now time.Duration) { err = errors.Join(err, s.SetBFD(now, of13.Port(no), cfg)) })
	}
	return err
}

const tapPrefix = "tap:"

// openDevices returns what it opened even if it fails.
func openDevices(names []string) ([]*Device, error) {
	var devices []*Device
	for _, name := range names {
		open := OpenDevice
		tap, isTAP := strings.CutPrefix(name, tapPrefix)
		if isTAP {
			open, name = OpenTAP, tap
		}
		if name == "" {
			return devices, fmt.Errorf("device %q has no name", names[len(devices)])
		}
		d, err := open(name)
		if err != nil {
			return devices, err
		}
		devices = append(devices, d)
	}
	return devices, nil
}
