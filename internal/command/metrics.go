package command

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/metric"
)

// listenForScrapes listens where Prometheus is to read /metrics; nil if that is nowhere. It refuses an address that
// other machines reach, unless they may: there is TLS, or somebody wants it without.
func listenForScrapes(address string, anybody bool) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return door{what: "--metrics " + address, like: "127.0.0.1:9653", another: "choose another",
		exposed: fmt.Sprintf("--metrics %s: anybody in the network could read it; take a loopback address, or say "+
			"that this is wanted (insecure: true in a cluster file without tls, or --insecure)", address),
	}.listen(address, anybody)
}

// besideScrapes runs something, and serves its metrics meanwhile, unless there is no listener for that. What runs
// matters more than its metrics: it goes on if the listener fails.
func besideScrapes(ctx context.Context, l net.Listener, metrics http.Handler, log *slog.Logger,
	run func(context.Context) error) error {
	if l == nil {
		return run(ctx)
	}
	serving, cancel := context.WithCancel(ctx)
	var server sync.WaitGroup
	defer server.Wait()
	defer cancel()
	server.Go(func() {
		if err := metric.Serve(serving, l, metrics); err != nil {
			log.Warn("metrics are no longer served; to have them again, restart the process", "listen", l.Addr(),
				"error", err)
		}
	})
	return run(ctx)
}
