package controller

import (
	"bytes"
	"errors"
	"net"
	"testing"
)

// writes is a connection that notes what is written.
type writes struct {
	net.Conn
	list [][]byte
	err  error
}

func (w *writes) Write(b []byte) (int, error) {
	w.list = append(w.list, bytes.Clone(b))
	return len(b), w.err
}

// What is written together is sent at once, as long as it is not too large, and nothing is lost or out of order.
func TestGathering(t *testing.T) {
	conn := &writes{}
	g := &gathering{Conn: conn}
	large := bytes.Repeat([]byte("x"), gatherMost-3)
	parts := [][]byte{[]byte("head"), large, []byte("end"), bytes.Repeat([]byte("y"), gatherMost+1), []byte("z")}
	write := func(parts ...[]byte) error {
		return g.together(func() error {
			for _, p := range parts {
				if n, err := g.Write(p); n != len(p) || err != nil {
					t.Errorf("%d bytes written, %v", n, err)
				}
			}
			return nil
		})
	}
	if err := write(parts[0], parts[2]); err != nil || len(conn.list) != 1 || string(conn.list[0]) != "headend" {
		t.Errorf("%q, %v", conn.list, err)
	}
	if _, err := g.Write(parts[0]); err != nil || len(conn.list) != 2 {
		t.Errorf("%d writes, the second one alone: %v", len(conn.list), err)
	}
	conn.list = nil
	if err := write(parts...); err != nil || len(conn.list) != 4 ||
		!bytes.Equal(bytes.Join(conn.list, nil), bytes.Join(parts, nil)) {
		t.Errorf("%d writes, %v", len(conn.list), err)
	}
	conn.err = errors.New("it is closed")
	if err := write(parts[0]); !errors.Is(err, conn.err) {
		t.Errorf("got %v", err)
	}
	var none *gathering
	if err := none.together(func() error { return conn.err }); !errors.Is(err, conn.err) {
		t.Errorf("got %v", err)
	}
}
