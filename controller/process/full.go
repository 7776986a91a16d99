package process

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

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
	secure, err := access.OfController(ctx, cfg.Cluster, me.Name, cfg.Logger)
	if err != nil {
		return err
	}
	l, err := listen("the API", me.API)
	if err != nil {
		return err
	}
	var says atomic.Pointer[string]
	server := &http.Server{ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, *says.Load(), http.StatusServiceUnavailable)
		})}
	says.Store(new(full.Error()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secure.API(l, cfg.Logger)) }() // ends with Close
	defer func() { server.Close(); <-ended }()

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
