package controller

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// from is a connection of a host, which has a byte to read.
type from struct {
	net.Conn
	host string
	ends time.Time // deadline
	shut bool
}

func (f *from) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.ParseIP(f.host), Port: 1} }
func (f *from) Read(b []byte) (int, error)         { return copy(b, "x"), nil }
func (f *from) Close() error                       { f.shut = true; return nil }
func (f *from) SetReadDeadline(at time.Time) error { f.ends = at; return nil }

// line is a listener to which these connect one after the other.
type line struct {
	net.Listener
	conns []*from
}

func (l *line) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, io.EOF
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// Of connections of one host that come together each waits for its turn, and too many are closed. Accepting does not
// wait, and neither does another host.
func TestAcceptsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = int(acceptWait/acceptEvery) + 1
		in := &line{}
		for range most + 7 {
			in.conns = append(in.conns, &from{host: "192.0.2.1"})
		}
		all := in.conns
		in.conns = append(in.conns, &from{host: "192.0.2.2"})
		l, began := &gatheringListener{Listener: in}, time.Now()
		var reading sync.WaitGroup
		for i := range most + 1 {
			conn, err := l.Accept()
			if err != nil || time.Since(began) != 0 {
				t.Fatalf("connection %d after %v: %v", i, time.Since(began), err)
			}
			want := time.Duration(i) * acceptEvery
			if i == most {
				want = 0 // of the other host
			}
			_ = conn.SetReadDeadline(began.Add(time.Second))
			reading.Go(func() {
				_, _ = conn.Read(make([]byte, 1))
				if d := time.Since(began); d != want {
					t.Errorf("connection %d is read after %v, not %v", i, d, want)
				}
			})
		}
		reading.Wait()
		for i, c := range all {
			if end := time.Duration(i)*acceptEvery + time.Second; c.shut != (i >= most) || !c.shut && c.ends.Sub(began) != end {
				t.Fatalf("connection %d is closed: %v, has until %v, not %v", i, c.shut, c.ends.Sub(began), end)
			}
		}
	})
}

// A connection that is closed does not wait for its turn, and hosts that are remembered have a bound.
func TestTurnsEnd(t *testing.T) {
	in := &line{conns: []*from{{host: "192.0.2.1"}, {host: "192.0.2.1"}}}
	l := &gatheringListener{Listener: in}
	l.turns.next = map[string]time.Time{"192.0.2.1": time.Now().Add(acceptWait / 2)}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	_, _ = conn.Read(make([]byte, 1))
	if conn.(*gathering).at.Before(time.Now()) {
		t.Error("it has waited")
	}
	var many turns
	for i := range 3 * maxConnections {
		if many.of(fmt.Sprint(i), time.Unix(1, 0)); len(many.next) > maxConnections {
			t.Fatalf("%d hosts are remembered", len(many.next))
		}
	}
}

// A host that takes all connections of a port keeps no other host out.
func TestPlacesOfHosts(t *testing.T) {
	hook := places(4)
	of := func(host string) *from {
		c := &from{host: host}
		hook(c, http.StateNew)
		return c
	}
	var greedy []*from
	for i := range 6 {
		greedy = append(greedy, of("192.0.2.1"))
		if greedy[i].shut != (i >= 4) {
			t.Fatalf("connection %d is closed: %v", i, greedy[i].shut)
		}
	}
	if c := of("192.0.2.2"); c.shut || !greedy[3].shut || greedy[2].shut {
		t.Error("another host has no place, or not that of the newest")
	}
	for i, state := range []http.ConnState{http.StateClosed, http.StateHijacked} {
		hook(greedy[i], state)
		if c := of("192.0.2.1"); c.shut {
			t.Errorf("a place is not free in state %v", state)
		}
	}
}
