package controller

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// rowsAPI is an API with a table of which clients ask for pages of about 256 KiB, by the returned body in JSON.
func rowsAPI(t *testing.T) (a *apiServer, body string) {
	t.Helper()
	ending, end := context.WithCancel(t.Context())
	a = newAPI(&Controller{log: quiet, ending: ending, journal: newJournal("c1")})
	a.web = a.server()
	table := Tables{Application: "big"}
	for i := range 600 {
		table.Rows = append(table.Rows, ledger.Row{Table: "t", Cell: ledger.Key{A: uint64(i)},
			Value: make([]byte, 1000)})
	}
	<-a.rows
	a.rows <- &pages{table, time.Now().Add(time.Hour)}
	t.Cleanup(end)
	return a, fmt.Sprintf(`{"application":"big","page_size":256,"page_token":%q}`, rowToken(table.Rows[0]))
}

// stall connects a client that asks and does not read, but for the status line.
func stall(t *testing.T, address, body string) (status string, conn net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: c1\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", api.ClusterListRowsProcedure, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	status, err = bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(status), conn
}

// Clients that do not read their answers take a bounded memory. Then large answers are refused and small ones are not,
// until the clients read or are cut off.
func TestUnreadAnswers(t *testing.T) {
	a, body := rowsAPI(t)
	a.unread.large.most = 2 << 20
	a.web.server.WriteTimeout = time.Minute
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.start(l)
	defer a.close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := api.NewClusterClient(&http.Client{Transport: transport}, "http://"+l.Addr().String())
	whole := func() error {
		token := rowToken(ledger.Row{Table: "t"})
		r, err := client.ListRows(t.Context(), &api.ListRowsRequest{Application: "big", PageSize: 500, PageToken: token})
		if err == nil && len(r.Rows) != 500 {
			err = fmt.Errorf("there are %d rows", len(r.Rows))
		}
		return err
	}
	if err := whole(); err != nil {
		t.Fatal(err)
	}
	of := &unreadAnswer{}
	if _, err := a.ListRows(context.WithValue(t.Context(), unreadKey{}, of), &api.ListRowsRequest{
		Application: "big", PageSize: 500, PageToken: rowToken(ledger.Row{Table: "t"})}); err != nil || len(a.rows) != 0 {
		t.Errorf("the turn has ended before the answer is encoded (%v)", err)
	}
	of.turn()
	await.Until(t, "the answer is sent", func() bool { return a.unread.large.used.Load() == 0 })
	var stalled []net.Conn
	for len(stalled) < 100 {
		status, conn := stall(t, l.Addr().String(), body)
		if status != "HTTP/1.1 200 OK" {
			if status != "HTTP/1.1 429 Too Many Requests" {
				t.Error(status)
			}
			break
		}
		stalled = append(stalled, conn)
	}
	if n := len(stalled); n < 2 || n > 8 { // each answer has a third of a megabyte
		t.Errorf("%d answers were not refused", n)
	}
	if err := whole(); connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "not read") {
		t.Errorf("got %v", err)
	}
	if _, err := client.ListEvents(t.Context(), &api.ListEventsRequest{}); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, stalled[0]) }() // ends when the connection is closed
	for _, conn := range stalled[1:] {
		conn.Close()
	}
	await.Until(t, "there is room again", func() bool { return a.unread.large.used.Load() == 0 })
	if err := whole(); err != nil {
		t.Error(err)
	}
}

// A client that reads nothing is cut off at the write timeout, and its room is free again.
func TestUnreadAnswerIsCutOff(t *testing.T) {
	a, body := rowsAPI(t)
	a.web.server.WriteTimeout = 500 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.start(l)
	defer a.close()
	_, conn := stall(t, l.Addr().String(), body)
	await.Until(t, "there is room again", func() bool { return a.unread.large.used.Load() == 0 })
	if n, err := io.Copy(io.Discard, conn); n > 256_000 {
		t.Errorf("the client got %d bytes (%v), which is all", n, err)
	}
}

// An answer that has more than all the room is sent, beside one other.
func TestUnreadLargest(t *testing.T) {
	u := &unread{large: room{most: 1 << 20}, small: room{most: 1 << 20}}
	var free func()
	for i := range 3 {
		f, err := u.take(1 << 30)
		if (err != nil) != (i == 2) {
			t.Errorf("answer %d: %v", i, err)
		}
		if i == 0 {
			free = f
		}
	}
	free()
	if _, err := u.take(largeMessage + 1); err != nil {
		t.Error(err)
	}
}
