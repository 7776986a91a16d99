package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/hosting"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// hostApplications completes cfg with what the cluster's applications of Ryu need, if it has some.
func hostApplications(ctx context.Context, cfg *controller.Config, s *config.Cluster, me config.Controller,
	log *slog.Logger) error {
	at := slices.Index(s.Apps, config.RyuApp)
	if at < 0 {
		return nil
	}
	r := s.Ryu
	host := ryu.Config{Python: r.Python, Applications: r.Applications, Options: r.Options, Path: r.Path,
		Site:     s.Name,
		LogLevel: r.LogLevel, MemoryBytes: r.MemoryBytes, Logger: log}
	identity, err := ryu.Probe(ctx, host)
	if err != nil {
		return err
	}
	cfg.Applications[at] = hosting.NewApplication(identity.String())
	cfg.Hosted = &host
	if me.REST == "" {
		return nil
	}
	cfg.RESTPeers = map[uint64]string{}
	for _, c := range s.Controllers {
		cfg.RESTPeers[c.ID] = c.REST
	}
	cfg.REST, err = listen("the REST interface of applications", me.REST)
	return err
}
