package trial

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/tap"
)

// witness returns what starts the taps. If the trial is one of TLS, it makes the switches use it,
// and each tap is an agent to the switch and a switch to the agent.
func (t *trial) witness(ctx context.Context) (func(l net.Listener, agent string) *tap.Tap, error) {
	if !t.TLS {
		return func(l net.Listener, agent string) *tap.Tap { return tap.Start(l, agent, t.clock) }, nil
	}
	files, err := t.cluster.Issue(pki.Identity{Role: pki.Switch, Name: "switch"})
	if err != nil {
		return nil, err
	}
	if err := t.net.secure(files); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	client, err := mtls.Load(files, mtls.Role(pki.Switch), log)
	if err != nil {
		return nil, err
	}
	if files, err = t.cluster.Issue(pki.Identity{Role: pki.Agent, Name: "tap"}); err != nil {
		return nil, err
	}
	server, err := mtls.Load(files, mtls.Role(pki.Agent), log)
	if err != nil {
		return nil, err
	}
	return func(l net.Listener, agent string) *tap.Tap {
		return tap.StartBetween(server.Listener(l, mtls.Role(pki.Switch)), func() (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return client.Dial(ctx, agent, mtls.Role(pki.Agent))
		}, t.clock)
	}, nil
}
