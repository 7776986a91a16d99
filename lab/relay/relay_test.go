package relay_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/lab/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that says what it hears, and its relay.
func echo(t *testing.T) *relay.Relay {
	t.Helper()
	server, ours := listen(t), listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c) // one at a time
			c.Close()
		}
	}()
	r := relay.Start(ours, server.Addr().String())
	t.Cleanup(func() { r.Close(); server.Close(); <-ended })
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, r *relay.Relay) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answered says whether a byte comes back within d.
func answered(t *testing.T, c net.Conn, d time.Duration) error {
	t.Helper()
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

const long, short = 10 * time.Second, 50 * time.Millisecond

func TestHold(t *testing.T) {
	for _, hold := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		r := echo(t)
		c := dial(t, r)
		if err := answered(t, c, long); err != nil {
			t.Fatal(err)
		}
		r.Set(relay.Faults{Hold: hold})
		if err := answered(t, c, short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: got %v", hold, err)
		}
		r.Set(relay.Faults{})
		if err := answered(t, c, long); err != nil { // by what was held
			t.Errorf("%v: got %v", hold, err)
		}
	}
}

func TestBreak(t *testing.T) {
	r := echo(t)
	c := dial(t, r)
	if err := answered(t, c, long); err != nil {
		t.Fatal(err)
	}
	r.Break()
	if err := answered(t, c, long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("broken: got %v", err)
	}
	if err := answered(t, dial(t, r), long); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestRefuse(t *testing.T) {
	r := echo(t)
	c := dial(t, r)
	if err := answered(t, c, long); err != nil {
		t.Fatal(err)
	}
	r.Set(relay.Faults{Refuse: true})
	for _, c := range []net.Conn{c, dial(t, r)} {
		if err := answered(t, c, long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("refused: got %v", err)
		}
	}
	r.Set(relay.Faults{})
	if err := answered(t, dial(t, r), long); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func TestDelay(t *testing.T) {
	r := echo(t)
	r.Set(relay.Faults{Delay: short})
	c := dial(t, r)
	begun := time.Now()
	if err := answered(t, c, long); err != nil || time.Since(begun) < 2*short {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
}
