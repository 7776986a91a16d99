package failover

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/tap"
)

// tally is what an experiment needs of oracle.Tally and oracle.Stock.
type tally interface {
	Counts() (sent, executed int)
	Compare(records []audit.Record) oracle.Result
}

// connect puts the witnesses between the switches and their agents, or their controllers, and connects them.
func (t *experiment) connect(ctx context.Context) error {
	var secure *security
	if t.TLS {
		var err error
		if secure, err = t.secure(); err != nil {
			return err
		}
	}
	for i := range t.Switches {
		var addresses []string
		for _, target := range t.targets(i) {
			l, err := net.Listen("tcp", net.JoinHostPort(t.net.listenAddress(), "0"))
			if err != nil {
				return fmt.Errorf("listen for switch %d: %w", i+1, err)
			}
			addresses = append(addresses, l.Addr().String())
			cfg := tap.Config{Dial: tap.At(target.address), Observe: target.observe, NoBundles: t.NoBundles}
			if secure != nil {
				l, cfg.Dial = secure.listener(l), secure.dial(ctx, target.address)
			}
			t.taps = append(t.taps, tap.Start(l, cfg))
		}
		if err := t.net.connect(i, addresses...); err != nil {
			return err
		}
	}
	return nil
}

// target is an address that a switch connects to, and the observer of the connection.
type target struct {
	address string
	observe func() tap.Observer
}

func (t *experiment) targets(i int) (list []target) {
	if t.Stock {
		for n, c := range t.cluster.Controllers() {
			list = append(list, target{c.OpenFlow, func() tap.Observer {
				return t.clock.beside(
					t.stock.Connection(n))
			}})
		}
	} else {
		list = []target{{t.cluster.Agents()[i].Listen, tap.Same(t.clock.beside(t.agents))}}
	}
	if t.blind {
		for i := range list {
			list[i].observe = tap.Same(blind{})
		}
	}
	return list
}

// security gives the witnesses credentials of agents, or controllers, toward the switches, and of switches toward
// those.
type security struct{ asSwitch, asPeer *mtls.Credentials }

func (t *experiment) secure() (*security, error) {
	files, err := t.cluster.Issue(pki.Identity{Role: pki.Switch, Name: "switch"})
	if err != nil {
		return nil, err
	}
	if err := t.net.secure(files); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	asSwitch, err := mtls.Load(files, mtls.Role(pki.Switch), log)
	if err != nil {
		return nil, err
	}
	role := pki.Agent
	if t.Stock {
		role = pki.Controller
	}
	if files, err = t.cluster.Issue(pki.Identity{Role: role, Name: "tap"}); err != nil {
		return nil, err
	}
	asPeer, err := mtls.Load(files, mtls.Role(role), log)
	return &security{asSwitch, asPeer}, err
}

func (s *security) listener(l net.Listener) net.Listener {
	return s.asPeer.Listener(l, mtls.Role(pki.Switch))
}

func (s *security) dial(ctx context.Context, address string) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return s.asSwitch.Dial(ctx, address, mtls.Role(pki.Agent, pki.Controller))
	}
}
