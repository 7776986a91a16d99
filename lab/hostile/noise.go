package hostile

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
)

// Noise is bytes that mean nothing, at whatever port.
type Noise struct {
	From string // local IP address; empty: any
	Size int    // of the noise, in bytes
	Seed uint64
	HTTP bool // the noise is the body of a request
}

// Attack sends the noise, and reads until the other side closes the connection. ctx should end, since some wait for
// more.
func (n Noise) Attack(ctx context.Context, address string) error {
	c, err := dial(ctx, n.From, address, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, n.Size)
	_, _ = rand.NewChaCha8([32]byte(append(u64(n.Seed), make([]byte, 24)...))).Read(b) // never fails
	if n.HTTP {
		head := fmt.Sprintf("POST /apps/noise HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+
			"Content-Length: %d\r\n\r\n", len(b))
		b = append([]byte(head), b...)
	}
	if err := c.send(b); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}
