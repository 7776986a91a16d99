package controller

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

const (
	// websocketHeader is the header of requests about WebSockets, which clients cannot send.
	websocketHeader = "Holdfast-Websocket"
	// websocketPoll is the time after which the application is asked again for messages, and the client for a sign of
	// life. The application gives up a connection that it was not asked about for a few times as long.
	websocketPoll = 25 * time.Second
	// websocketSilence is how long a client may take to give a sign of life. It is not read from while the application
	// is asked about a message.
	websocketSilence = requestTimeout + websocketPoll
	// websocketReason bounds the text of a close frame (RFC 6455, section 5.5).
	websocketReason = 123

	websocketOpened = http.StatusSwitchingProtocols // the application takes the connection
)

// bridge is a WebSocket between a client and a replayed application. Each message of the client is a request; what the
// application sends is the answer to a request that waits for it.
type bridge struct {
	c    *Controller
	in   *http.Request
	name string
	conn *websocket.Conn
}

// wantsWebSocket reports whether a request asks for a WebSocket.
func wantsWebSocket(in *http.Request) bool {
	return in.Method == http.MethodGet && strings.EqualFold(in.Header.Get("Upgrade"), "websocket")
}

// websocket serves a request for a WebSocket at the leader, until one end closes it, or the leader changes.
func (r *rest) websocket(w http.ResponseWriter, in *http.Request) {
	b := &bridge{c: r.c, in: in, name: rand.Text()}
	ctx, cancel := context.WithTimeout(in.Context(), requestTimeout)
	defer cancel()
	answer, err := b.ask(ctx, "open", 0, nil)
	if err != nil || answer.Status != websocketOpened {
		r.answer(w, in, answer, err)
		return
	}
	defer b.end()
	// The guard has refused pages of other origins. In `holdfast run` there is no guard: as with Ryu, all may connect.
	b.conn, err = websocket.Accept(w, in, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		r.c.log.Debug("WebSocket of a client not opened", "to", in.RemoteAddr, "err", err)
		return
	}
	b.conn.SetReadLimit(maxRequestBody)
	gone, left := context.WithCancel(in.Context())
	defer left()
	served := make(chan struct{}, 2)
	for _, serve := range []func(context.Context){b.receive, b.ping} { // each ends with the connection
		go func() {
			defer func() { served <- struct{}{} }()
			defer left()
			serve(gone)
		}()
	}
	status, reason := b.send(gone)
	_ = b.conn.Close(status, reason[:min(len(reason), websocketReason)]) // it may be gone
	left()
	<-served
	<-served
}

// ask asks the application about the connection.
func (b *bridge) ask(ctx context.Context, what string, number uint64, body []byte) (wire.Answer, error) {
	q := requestOf(b.in, body)
	q.Headers = append(q.Headers, wire.Header{Name: websocketHeader,
		Value: fmt.Sprintf("%s %s %d", what, b.name, number)})
	return b.c.Request(ctx, q)
}

// end tells the application that the client has left. If this controller does not lead any more, the application
// notices that nobody asks.
func (b *bridge) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.in.Context()), requestTimeout)
	defer cancel()
	_, _ = b.ask(ctx, "close", 0, nil)
}

// receive passes the client's messages to the application, until one of them is gone.
func (b *bridge) receive(ctx context.Context) {
	for {
		kind, message, err := b.conn.Read(ctx)
		if err != nil {
			return
		}
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		answer, err := b.ask(asking, "message", uint64(kind), message)
		cancel()
		if err != nil || answer.Status != http.StatusOK {
			return
		}
	}
}

// ping asks the client for a sign of life, until there is none.
func (b *bridge) ping(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(websocketPoll):
		}
		asking, cancel := context.WithTimeout(ctx, websocketSilence)
		err := b.conn.Ping(asking)
		cancel()
		if err != nil {
			return
		}
	}
}

// send passes the application's messages to the client, and returns why it ends.
func (b *bridge) send(ctx context.Context) (status websocket.StatusCode, reason string) {
	var sent uint64
	for {
		asking, cancel := context.WithTimeout(ctx, websocketPoll)
		answer, err := b.ask(asking, "next", sent, nil)
		cancel()
		switch {
		case ctx.Err() != nil:
			return websocket.StatusNormalClosure, ""
		case errors.Is(err, context.DeadlineExceeded): // nothing to send
		case err != nil:
			return websocket.StatusServiceRestart, err.Error()
		case answer.Status == http.StatusOK:
			n, err := b.write(ctx, answer.Body)
			if err != nil {
				return websocket.StatusNormalClosure, ""
			}
			sent += n
		case answer.Status != http.StatusNoContent:
			return websocket.StatusNormalClosure, ""
		}
	}
}

var errMessages = errors.New("messages of an application that are cut")

// write writes messages, each with its kind and its length before it, and returns how many.
func (b *bridge) write(ctx context.Context, messages []byte) (n uint64, err error) {
	for ; len(messages) > 0; n++ {
		if len(messages) < 5 || uint64(len(messages)-5) < uint64(binary.BigEndian.Uint32(messages[1:])) {
			return n, errMessages
		}
		end := 5 + int(binary.BigEndian.Uint32(messages[1:]))
		writing, cancel := context.WithTimeout(ctx, answerTimeout)
		err := b.conn.Write(writing, websocket.MessageType(messages[0]), messages[5:end])
		cancel()
		if err != nil {
			return n, err
		}
		messages = messages[end:]
	}
	return n, nil
}
