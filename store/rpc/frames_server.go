package rpc

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// silentClient is after how long without a frame a client counts as gone. It sends one every few seconds.
const silentClient = 30 * time.Second

// frames upgrades a connection, and executes the requests that come on it until it ends.
func (s *server) frames(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), protocol) || r.ProtoMajor != 1 || r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // the server would wait for a body
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "this path is for connections of HTTP/1.1 that are upgraded to "+protocol+"; use "+do+" or "+
			stream, http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "upgrade: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	if buffered.Reader.Buffered() > 0 {
		return // it has not waited for the upgrade
	}
	_ = conn.SetDeadline(time.Now().Add(s.sendTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+
		"\r\n\r\n"); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	in := bufio.NewReaderSize(&deadlined{Conn: conn, silence: silentClient}, 64<<10)
	s.serveFrames(r.Context(), newFrameConn(conn, in, s.sendTimeout, store.MaxRequest))
}

func (s *server) serveFrames(ctx context.Context, f *frameConn) {
	mine := turns{slots: s.executing, fewer: make(chan struct{}, 1)}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx) // which ends with the server
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	for {
		request, err := f.receive()
		if err != nil {
			return
		}
		if request == nil {
			if f.lives() != nil {
				return
			}
			continue
		}
		slot := mine.take()
		running.Go(func() { // ends with the call
			defer mine.leave(slot)
			_ = f.send(s.serve(ctx, request)) // else the client is gone, or does not read
		})
	}
}
