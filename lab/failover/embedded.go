package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// embeddedNetwork is a row of software switches in this process, with a host at each.
type embeddedNetwork struct {
	runners []*vswitch.Runner
	ends    []*Host
	observe func(sw openflow.DatapathID, msg []byte)                    // what a switch executes; may be nil
	dial    func(ctx context.Context, address string) (net.Conn, error) // nil: TCP
}

// Ports of each switch.
const (
	portHost  of13.Port = 1
	portLeft  of13.Port = 2
	portRight of13.Port = 3
)

var errNetworkFull = errors.New("the switch has no room for the frame")

func newEmbeddedNetwork(n int, observe func(openflow.DatapathID, []byte)) *embeddedNetwork {
	return &embeddedNetwork{runners: make([]*vswitch.Runner, n), ends: newHosts(n), observe: observe}
}

// newHosts makes hosts that cannot send yet.
func newHosts(n int) []*Host {
	hosts := make([]*Host, n)
	for i := range hosts {
		hosts[i] = newHost(i+1, func([]byte) error { return errors.New("no cable") })
	}
	return hosts
}

func (e *embeddedNetwork) hosts() []*Host        { return e.ends }
func (e *embeddedNetwork) listenAddress() string { return "127.0.0.1" }

func (e *embeddedNetwork) secure(f mtls.Files) error {
	c, err := mtls.Load(f, mtls.Role(pki.Switch), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	e.dial = func(ctx context.Context, address string) (net.Conn, error) {
		return c.Dial(ctx, address, mtls.Role(pki.Agent, pki.Controller))
	}
	return nil
}

// connect starts switch i, with its controllers, and links it to the one before.
func (e *embeddedNetwork) connect(i int, addrs ...string) error {
	if i > 0 && e.runners[i-1] == nil {
		return fmt.Errorf("switch %d starts before switch %d", i+1, i)
	}
	cfg := vswitch.Config{DatapathID: openflow.DatapathID(i + 1), Ports: vswitch.Ports(i+1, int(portRight))}
	if e.observe != nil {
		cfg.Observe = func(_ vswitch.ConnID, msg []byte) { e.observe(cfg.DatapathID, msg) }
	}
	r := vswitch.StartRunner(vswitch.RunnerConfig{Controllers: addrs, Dial: e.dial, Switch: cfg})
	e.runners[i] = r
	h := e.ends[i]
	h.send = func(frame []byte) error {
		if !r.Receive(portHost, frame) {
			return errNetworkFull
		}
		return nil
	}
	r.Transmit(portHost, h.receive)
	if i > 0 {
		vswitch.Connect(e.runners[i-1].Port(portRight), r.Port(portLeft))
	}
	return nil
}

func (e *embeddedNetwork) Close() error {
	for _, r := range e.runners {
		if r != nil {
			r.Close()
		}
	}
	return nil
}
