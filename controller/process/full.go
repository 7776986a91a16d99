package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// roomInterval is how often a controller whose disk is full looks whether there is room again.
const roomInterval = time.Second

// awaitRoom returns when there is room on a controller's disk, or ctx ends. Until then the controller takes part in
// nothing, and its API says why.
func awaitRoom(ctx context.Context, cfg Config, me config.Controller, full *disk.FullError) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	says, end, err := explain(ctx, cfg, me, full)
	if err != nil {
		return err
	}
	defer end()
	cfg.Logger.Error("this controller stands still until there is room on its disk: it votes for nobody and "+
		"acknowledges nothing; the others go on without it", "err", full)
	next := time.NewTicker(roomInterval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		free, wanted, err := disk.Room(full.Dir)
		switch {
		case err != nil:
			return err
		case free >= wanted:
			cfg.Logger.Info("there is room on the disk again; starting", "dir", full.Dir, "free", free)
			return nil
		}
		says.Store(new(fmt.Sprintf("this controller stands still, since the disk of %s is full: %d MB are free and "+
			"%d MB are needed; make room there, and it goes on by itself", full.Dir, free>>20, wanted>>20)))
	}
}

// explain serves an API that answers everything with why this controller stands still, until end is called.
func explain(ctx context.Context, cfg Config, me config.Controller,
	why error) (says *atomic.Pointer[string], end func(), err error) {
	secure, err := access.OfController(ctx, cfg.Cluster, me.Name, cfg.Logger)
	if err != nil {
		return nil, nil, err
	}
	l, err := listen("the API", me.API)
	if err != nil {
		return nil, nil, err
	}
	says = new(atomic.Pointer[string])
	says.Store(new(why.Error()))
	server := &http.Server{ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.Refuse(w, r, connect.CodeUnavailable, errors.New(*says.Load()))
		})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secure.API(l, cfg.Logger)) }() // ends with end
	return says, func() { server.Close(); <-ended }, nil
}

// standStill keeps a controller that does not belong to the running cluster from disturbing it. Its API says why until
// ctx ends.
func standStill(ctx context.Context, cfg Config, me config.Controller, why error) error {
	why = fmt.Errorf("controller %s takes part in nothing: %w; it was begun by holdfast init, and must join instead: "+
		"stop it, remove the folder %s, start it with holdfast serve --join, and run holdfast member add %s, or "+
		"holdfast member replace", me.Name, why, cfg.Cluster.DataDir(me), me.Name)
	cfg.Logger.Error(why.Error())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, end, err := explain(ctx, cfg, me, why)
	if err != nil {
		return err
	}
	defer end()
	<-ctx.Done()
	return why
}
