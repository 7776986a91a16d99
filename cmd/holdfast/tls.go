package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Here is who may connect to whom, if the cluster has TLS: docs/operating.md has it as a table.

// credentials reads the files of the process called name.
func credentials(t config.TLS, name string, own mtls.Policy, log *slog.Logger) (*mtls.Credentials, error) {
	t = t.Of(name)
	c, err := mtls.Load(mtls.Files(t), own, log)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return c, nil
}

// controllerCredentials reads those of a controller, and watches the files until ctx ends.
func controllerCredentials(ctx context.Context, t config.TLS, name string, log *slog.Logger) (*mtls.Credentials,
	error) {
	c, err := credentials(t, name, mtls.Only(pki.Identity{Role: pki.Controller, Name: name}), log)
	if err == nil {
		go c.Watch(ctx)
	}
	return c, err
}

func apiListener(c *mtls.Credentials, l net.Listener) net.Listener {
	return c.TellingListener(l, mtls.Role(pki.Operator, pki.Controller), "the API")
}

// secure puts TLS around everything that a controller listens on, and around connections to others, until ctx ends. It
// returns by what; nil without TLS.
func secure(ctx context.Context, cfg *controller.Config, s *config.Cluster, me config.Controller,
	log *slog.Logger) (*mtls.Credentials, error) {
	if s.TLS == nil {
		return nil, nil
	}
	c, err := controllerCredentials(ctx, *s.TLS, me.Name, log)
	if err != nil {
		return nil, err
	}
	cfg.OpenFlow = c.Listener(cfg.OpenFlow, mtls.Role(pki.Agent, pki.Switch))
	cfg.API = apiListener(c, cfg.API)
	members, names := &cfg.Consensus, maps.Clone(cfg.Names)
	members.Listener = c.Listener(members.Listener, mtls.Role(pki.Controller))
	members.Dial = func(ctx context.Context, member uint64, address string) (net.Conn, error) {
		return c.Dial(ctx, address, controllerCalled(names[member]))
	}
	members.Admit = func(conn net.Conn, member uint64) error {
		id, err := mtls.Peer(conn)
		if err != nil {
			return err
		}
		return controllerCalled(names[member])(id)
	}
	return c, nil
}

// secureAPI puts TLS around the API alone, until ctx ends.
func secureAPI(ctx context.Context, l net.Listener, s *config.Cluster, me config.Controller,
	log *slog.Logger) (net.Listener, error) {
	if s.TLS == nil {
		return l, nil
	}
	c, err := controllerCredentials(ctx, *s.TLS, me.Name, log)
	if err != nil {
		return nil, err
	}
	return apiListener(c, l), nil
}

// controllerCalled is the policy that takes the controller of a name, and any if the name is "":
// that of a member which is not in this cluster file yet.
func controllerCalled(name string) mtls.Policy {
	if name == "" {
		return mtls.Role(pki.Controller)
	}
	return mtls.Only(pki.Identity{Role: pki.Controller, Name: name})
}

// secureAgent puts TLS around the agent's connections, until ctx ends, but for those from switches if plain.
func secureAgent(ctx context.Context, cfg *agent.Config, s *config.Cluster, name string, plain bool) error {
	c, err := credentials(*s.TLS, name, mtls.Role(pki.Agent), cfg.Logger)
	if err != nil {
		return err
	}
	go c.Watch(ctx)
	if !plain {
		cfg.Listen = c.Listener(cfg.Listen, mtls.Role(pki.Switch))
	}
	names := map[string]string{}
	for _, n := range s.Controllers {
		names[n.OpenFlow] = n.Name
	}
	cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		return c.Dial(ctx, address, controllerCalled(names[address]))
	}
	return nil
}

// operatorName is who the command line is, where the cluster file has {name}.
const operatorName = "operator"

// apiClient returns a client for the API of the controllers, for URLs that begin with http: whatever
// the cluster has. Its TLS is beneath that.
func apiClient(s *config.Cluster) (*http.Client, error) {
	if s.TLS == nil {
		return &http.Client{Transport: new(http.Transport)}, nil
	}
	log, err := newLogger("warn")
	if err != nil {
		return nil, err
	}
	c, err := credentials(*s.TLS, operatorName, mtls.Role(pki.Operator, pki.Controller), log)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, n := range s.Controllers {
		names[n.API] = n.Name
	}
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn,
		error) {
		return c.Dial(ctx, address, controllerCalled(names[address]))
	}}}, nil
}
