package controller

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
)

// web is an HTTP server that runs from start until it is closed.
type web struct {
	server *http.Server
	ended  chan error
}

// newWeb returns a web that has not started. It logs errors of clients at level Debug, and bounds their connections.
func newWeb(log *slog.Logger, server *http.Server) *web {
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	server.ConnState = places(maxConnections)
	return &web{server, make(chan error, 1)}
}

func (w *web) start(l net.Listener) {
	go func() { w.ended <- w.server.Serve(l) }() // ends with close
}

func (w *web) close() error {
	err := w.server.Close()
	if ended := <-w.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
