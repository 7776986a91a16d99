package controller

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// dialEcho opens a WebSocket to the applications at a controller.
func (s *hostCluster) dialEcho(ctx context.Context, id uint64) *websocket.Conn {
	s.t.Helper()
	conn, _, err := websocket.Dial(ctx, "ws://"+s.rest[id]+"/echo", &websocket.DialOptions{
		HTTPHeader: http.Header{websocketHeader: {"close one 1"}, "Origin": {"http://elsewhere"}}})
	if err != nil {
		s.t.Fatalf("controller %d: %v", id, err)
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	return conn
}

// TestWebSocket: clients of any controller talk to the application over WebSockets. Each message is executed once, by
// all. A message that is too large ends its connection, and the end of the leader all that it serves.
func TestWebSocket(t *testing.T) {
	s := newHostCluster(t, 2, 0)
	s.running()
	leader := s.leader()
	other := 3 - leader
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conns := map[uint64]*websocket.Conn{}
	for _, id := range []uint64{leader, other} {
		conns[id] = s.dialEcho(ctx, id)
		for _, word := range []string{"one", "two"} {
			if err := conns[id].Write(ctx, websocket.MessageText, []byte(word)); err != nil {
				t.Fatal(err)
			}
			kind, got, err := conns[id].Read(ctx)
			if err != nil || kind != websocket.MessageText || string(got) != strings.ToUpper(word) {
				t.Fatalf("controller %d: %v %q, %v", id, kind, got, err)
			}
		}
	}
	s.want(other, "GET", "/count", "", "4")
	large := s.dialEcho(ctx, other)
	if err := large.Write(ctx, websocket.MessageBinary, make([]byte, maxRequestBody+1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := large.Read(ctx); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a message that is too large: %v", err)
	}
	s.close(leader)
	for id, conn := range conns {
		if _, got, err := conn.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("the connection of controller %d goes on: %q, %v", id, got, err)
		}
	}
}
