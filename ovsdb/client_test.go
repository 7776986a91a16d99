package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestNew(t *testing.T) {
	for _, remote := range []string{"", "tcp", "tcp:", "tcp:10.0.0.1", "unix", "unix:", "ssl:10.0.0.1:6640",
		"ptcp:6640", "10.0.0.1:6640"} {
		if _, err := New(Config{Remote: remote}); err == nil {
			t.Errorf("%q: taken", remote)
		}
	}
	c, err := New(Config{Remote: "tcp:[::1]:6640"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.View(); v != nil || err == nil {
		t.Errorf("before Run: %v, error %v", v, err)
	}
	if err := c.SetBFD(t.Context(), Interface{Name: "p1"}, BFD{MinTx: ms, MinRx: ms}); err == nil ||
		!strings.Contains(err.Error(), "p1") {
		t.Errorf("before Run: error %v", err)
	}
}

func TestWatch(t *testing.T) {
	s := newServer(t)
	for _, remote := range []string{s.unix, s.tcp, s.ssl} {
		kind, _, _ := strings.Cut(remote, ":")
		t.Run(kind, func(t *testing.T) {
			c := run(t, Config{Remote: remote, DialTLS: dialTLS(s.tls)})
			v := await(t, c, "there is port 2", func(v View, err error) bool { _, ok := v.Port(0x11, 2); return ok })
			if i, _ := v.Port(0x11, 2); i.Name != "p2" || i.LinkUp || i.Ours || i.BFD != (BFDStatus{}) {
				t.Errorf("port 2: %+v", i)
			}
			s.vsctl(t, "set", "interface", "p2", "link_state=up", "bfd_status:state=up", "bfd_status:flap_count=3")
			await(t, c, "p2 is up", func(v View, err error) bool {
				i, _ := v.Named("p2")
				return i.LinkUp && i.BFD == BFDStatus{State: "up", Flaps: 3}
			})
			s.vsctl(t, "add-port", "br0", "p3", "--", "clear", "interface", "p2", "link_state", "bfd_status")
			await(t, c, "there is p3", func(v View, err error) bool { _, ok := v.Named("p3"); return ok })
			s.vsctl(t, "del-port", "p3")
			await(t, c, "p3 is gone", func(v View, err error) bool {
				i, there := v.Named("p2")
				_, gone := v.Named("p3")
				return there && !gone && !i.LinkUp
			})
		})
	}
}

func TestUntrustedServer(t *testing.T) {
	s := newServer(t)
	other := s.tls.Clone()
	other.ServerName = "example.org"
	c := run(t, Config{Remote: s.ssl, DialTLS: dialTLS(other)})
	await(t, c, "the certificate is refused", func(v View, err error) bool {
		return err != nil && strings.Contains(err.Error(), "certificate")
	})
}

// bfd returns what the database has of an interface's BFD, without our mark, and whether that is there.
func (s *server) bfd(t *testing.T, name string) (column string, marked bool) {
	t.Helper()
	return s.vsctl(t, "get", "interface", name, "bfd"),
		strings.Contains(s.vsctl(t, "get", "interface", name, "external_ids"), "holdfast")
}

func (s *server) expect(t *testing.T, name, column string, marked bool) {
	t.Helper()
	if gotColumn, gotMarked := s.bfd(t, name); gotColumn != column || gotMarked != marked {
		t.Errorf("bfd of %s: %s, marked %v; not %s, %v", name, gotColumn, gotMarked, column, marked)
	}
}

func TestSetAndClear(t *testing.T) {
	s := newServer(t)
	c := run(t, Config{Remote: s.tcp})
	v := await(t, c, "is connected", connected)
	p1, _ := v.Named("p1")
	s.vsctl(t, "set", "interface", "p1", "external_ids:whose=theirs")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.SetBFD(t.Context(), p1, BFD{MinTx: 5 * ms, MinRx: 6 * ms, Multiplier: 4}))
	s.expect(t, "p1", `{enable="true", min_rx="6", min_tx="5", mult="4"}`, true)
	set := func(b BFD) func(View, error) bool {
		return func(v View, _ error) bool { i, _ := v.Named("p1"); done, why := i.Check(b); return done && why == nil }
	}
	now := await(t, c, "p1 is ours", set(BFD{MinTx: 5 * ms, MinRx: 6 * ms, Multiplier: 4}))
	if set(BFD{MinTx: 5 * ms, MinRx: 5 * ms})(now, nil) {
		t.Error("other intervals than are set pass for set")
	}
	check(c.SetBFD(t.Context(), p1, BFD{MinTx: 15 * ms, MinRx: 15 * ms}))
	s.expect(t, "p1", `{enable="true", min_rx="15", min_tx="15"}`, true)

	t.Run("again", func(t *testing.T) {
		await(t, c, "p1 is changed", set(BFD{MinTx: 15 * ms, MinRx: 15 * ms}))
		select { // that has changed
		case <-c.Changed():
		case <-time.After(100 * ms):
		}
		check(c.SetBFD(t.Context(), p1, BFD{MinTx: 15 * ms, MinRx: 15 * ms}))
		select {
		case <-c.Changed():
			t.Error("something has changed")
		case <-time.After(100 * ms):
		}
	})

	t.Run("others' keys stay", func(t *testing.T) {
		s.vsctl(t, "set", "interface", "p1", "bfd:decay_min_rx=200")
		check(c.SetBFD(t.Context(), p1, BFD{MinTx: 20 * ms, MinRx: 15 * ms}))
		s.expect(t, "p1", `{decay_min_rx="200", enable="true", min_rx="15", min_tx="20"}`, true)
		s.vsctl(t, "set", "interface", "p1", "bfd:min_rx=77")
		if err := c.SetBFD(t.Context(), p1, BFD{MinTx: ms, MinRx: ms}); !errors.Is(err, ErrForeign) ||
			!strings.Contains(err.Error(), "min_rx=77") {
			t.Errorf("changed by others: error %v", err)
		}
		s.expect(t, "p1", `{decay_min_rx="200", enable="true", min_rx="77", min_tx="20"}`, true)
		check(c.ClearBFD(t.Context(), p1))
		s.expect(t, "p1", `{decay_min_rx="200", min_rx="77"}`, false)
		if got := s.vsctl(t, "get", "interface", "p1", "external_ids"); got != "{whose=theirs}" {
			t.Errorf("external_ids: %s", got)
		}
	})

	t.Run("others' BFD", func(t *testing.T) {
		s.vsctl(t, "set", "interface", "p2", "bfd:enable=true")
		p2, _ := v.Named("p2")
		await(t, c, "p2 is theirs", func(v View, err error) bool {
			i, _ := v.Named("p2")
			_, why := i.Check(BFD{MinTx: ms, MinRx: ms})
			return errors.Is(why, ErrForeign)
		})
		if err := c.SetBFD(t.Context(), p2, BFD{MinTx: ms, MinRx: ms}); !errors.Is(err, ErrForeign) {
			t.Errorf("set over theirs: error %v", err)
		}
		check(c.ClearBFD(t.Context(), p2))
		s.expect(t, "p2", `{enable="true"}`, false)
	})
}

func TestAnInterfaceThatIsGone(t *testing.T) {
	c := run(t, Config{Remote: newServer(t).tcp})
	await(t, c, "is connected", connected)
	if err := c.SetBFD(t.Context(), Interface{Name: "x", id: "550e8400-e29b-41d4-a716-446655440000"},
		BFD{MinTx: ms, MinRx: ms}); err == nil {
		t.Error("set")
	}
	if err := c.ClearBFD(t.Context(), Interface{Name: "x", id: "what"}); err == nil {
		t.Error("cleared")
	}
}

// Two controllers that set up the same interface do not make a mixture of it.
func TestConcurrentChanges(t *testing.T) {
	s := newServer(t)
	var all sync.WaitGroup
	intervals := []int{3, 7}
	for _, n := range intervals {
		c := run(t, Config{Remote: s.unix})
		p1, _ := await(t, c, "is connected", connected).Named("p1")
		all.Go(func() {
			for range 40 {
				d := time.Duration(n) * ms
				// Only "others changed it meanwhile" may be an error.
				if err := c.SetBFD(t.Context(), p1, BFD{MinTx: d, MinRx: d}); err != nil &&
					!strings.Contains(err.Error(), "meanwhile") {
					t.Errorf("set to %v: %v", d, err)
				}
			}
		})
	}
	all.Wait()
	got, _ := s.bfd(t, "p1")
	want := map[string]bool{}
	for _, n := range intervals {
		want[fmt.Sprintf(`{enable="true", min_rx="%d", min_tx="%d"}`, n, n)] = true
	}
	if !want[got] {
		t.Errorf("a mixture: %s", got)
	}
}

// The server goes away and comes back, with another port open.
func TestReconnect(t *testing.T) {
	s := newServer(t)
	c := run(t, Config{Remote: s.unix})
	p1, _ := await(t, c, "is connected", connected).Named("p1")
	stop(s.cmd)
	await(t, c, "is not connected", func(v View, err error) bool { return err != nil && v == nil })
	if err := c.ClearBFD(t.Context(), p1); err == nil {
		t.Error("cleared without a server")
	}
	s.start(t)
	s.vsctl(t, "add-port", "br0", "p7")
	await(t, c, "there is p7", func(v View, err error) bool { _, ok := v.Named("p7"); return ok })
	if err := c.SetBFD(t.Context(), p1, BFD{MinTx: ms, MinRx: ms}); err != nil {
		t.Error(err)
	}
}

// fake is a server that says what it is told to, to one client after the other.
func fake(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return "tcp:" + l.Addr().String()
}

// What is no database server, or a broken one, gives an error that says so, and is tried again.
func TestBadServers(t *testing.T) {
	ok := `{"id":1,"result":` + firstUpdate + `,"error":null}`
	for what, c := range map[string]struct{ says, want string }{
		"closes":     {"", "closed the connection"},
		"HTTP":       {"HTTP/1.1 400 Bad Request\r\n\r\n", "does not send JSON objects"},
		"no JSON":    {"{nonsense}", "read a message"},
		"no message": {"{}", "neither method nor id"},
		"cut off":    {ok[:100], "cut off"},
		"another database": {`{"id":1,"result":null,"error":{"error":"unknown database","details":"Open_vSwitch"}}`,
			"unknown database"},
		"bad first answer":  {`{"id":1,"result":{"Bridge":7},"error":null}`, "read an update"},
		"bad update":        {ok + `{"method":"update","params":[null,{"Port":7}],"id":null}`, "read an update"},
		"update of nothing": {ok + `{"method":"update","params":{},"id":null}`, "read an update"},
		"endless":           {`{"` + strings.Repeat("x", maxMessage), "more than 16 MiB"},
	} {
		t.Run(what, func(t *testing.T) {
			times := make(chan struct{}, 100)
			remote := fake(t, func(conn net.Conn) {
				times <- struct{}{}
				conn.Write([]byte(c.says))
				conn.(*net.TCPConn).CloseWrite()
				conn.SetReadDeadline(time.Now().Add(10 * time.Second))
				for buf := make([]byte, 1<<10); ; {
					if _, err := conn.Read(buf); err != nil {
						return
					}
				}
			})
			client := run(t, Config{Remote: remote})
			await(t, client, "the error says "+c.want, func(v View,
				err error) bool {
				return err != nil && strings.Contains(err.Error(), c.want)
			})
			for range 2 {
				select {
				case <-times:
				case <-time.After(30 * time.Second):
					t.Fatal("not tried again")
				}
			}
		})
	}
}

// Echo requests are answered, and a silent server is asked and then given up.
func TestEcho(t *testing.T) {
	answered, asked := make(chan string, 1), make(chan string, 1)
	remote := fake(t, func(conn net.Conn) {
		read := func() string {
			buf := make([]byte, 1<<10)
			n, _ := conn.Read(buf)
			return string(buf[:n])
		}
		read() // the monitor request
		conn.Write([]byte(`{"id":"x","method":"echo","params":["y"]}`))
		select {
		case answered <- read():
		default:
		}
		select {
		case asked <- read():
		default:
		}
		read() // until the client gives up
	})
	c, err := New(Config{Remote: remote, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c.silence = 200 * ms
	start(t, c)
	await(t, c, "the server is given up", func(v View,
		err error) bool {
		return err != nil && strings.Contains(err.Error(), "silent")
	})
	if got := <-answered; got != `{"result":["y"],"error":null,"id":"x"}` {
		t.Errorf("answered %s", got)
	}
	if got := <-asked; !strings.Contains(got, `"echo"`) {
		t.Errorf("asked %s", got)
	}
}

// A call ends with its context, and all end with the connection; what waits is bounded.
func TestCallsEnd(t *testing.T) {
	hang := make(chan struct{})
	remote := fake(t, func(conn net.Conn) {
		conn.Write([]byte(`{"id":1,"result":` + firstUpdate + `,"error":null}`))
		<-hang
	})
	c := run(t, Config{Remote: remote})
	i, _ := await(t, c, "is connected", connected).Named("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.ClearBFD(ctx, i); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	var all sync.WaitGroup
	errs := make(chan error, 2*maxPending)
	for range 2 * maxPending {
		all.Go(func() { errs <- c.ClearBFD(t.Context(), i) })
	}
	const busy = "clear BFD on a: 256 requests wait for an answer already"
	for range maxPending + 1 { // one place is taken by the call that was cancelled
		if err := <-errs; err == nil || err.Error() != busy {
			t.Errorf("one too many: error %v", err)
		}
	}
	close(hang)
	all.Wait()
	close(errs)
	left := 0
	for err := range errs {
		if left++; err == nil || err.Error() == busy {
			t.Errorf("without an answer: error %v", err)
		}
	}
	if left != maxPending-1 {
		t.Errorf("%d calls waited, not %d", left, maxPending-1)
	}
}
