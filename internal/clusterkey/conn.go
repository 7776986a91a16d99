package clusterkey

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/rawconn"
)

// The handshake, in which D dials and L listens:
//
//	D to L: magic, nonce
//	L to D: magic, nonce, proof
//	D to L: proof
//
// A proof is a key that is derived for it from the secret and both nonces. Then each side sends records:
//
//	length u32 | data | tag
//
// The tag is that of AES-256-GCM without a plaintext (GMAC, NIST SP 800-38D), of length and data. Each direction has a
// key of its own, and the nonce is the number of the record.
const (
	magic    = "HOLDKEY1"
	nonceLen = 32
	tagLen   = 16
	lenLen   = 4
	// maxRecord bounds what is read before it is verified, in bytes. Longer writes become several records.
	maxRecord = 64 << 10
	readSize  = 256 << 10
)

var (
	errTag    = errors.New("a record is not of a holder of the cluster's key: somebody interferes with the connection")
	errTLS    = errors.New("it speaks TLS, which this controller does not: give `tls` to both, or to neither")
	errClosed = errors.New("it closed the connection where it should prove that it has the cluster's key: it has " +
		"none, or another one")
)

// Speaks reports whether a connection begins as that of a controller with a key.
func Speaks(first []byte) bool {
	return len(first) >= len(magic) && string(first[:len(magic)]) == magic
}

// conn is one end of an authenticated connection. Read and Write may be used at the same time, each by one goroutine.
type conn struct {
	net.Conn // of the package rawconn
	tcp      net.Conn
	key      *Key

	shake sync.Once // of the listening side: its first Read or Write does the handshake
	err   error     // of the handshake

	out, in direction
	written []byte // scratch of Write
	buf     []byte // what was read; verified up to used
	used    int
	data    []byte // verified, and not returned yet; in buf
	broken  error  // of Read: a wrong tag ends the connection
}

// direction makes the tags of what goes one way.
type direction struct {
	aead   cipher.AEAD
	number uint64
	bytes  [12]byte // of the nonce; here, so that it is not allocated each time
}

// nonce returns that of the next record.
func (d *direction) nonce() []byte {
	binary.BigEndian.PutUint64(d.bytes[4:], d.number)
	d.number++
	return d.bytes[:]
}

func newConn(k *Key, tcp net.Conn) *conn { return &conn{Conn: rawconn.Of(tcp), tcp: tcp, key: k} }

// NetConn returns the TCP connection.
func (c *conn) NetConn() net.Conn { return c.tcp }

// Dial connects to an address, and proves that both sides have the key.
func (k *Key) Dial(ctx context.Context, address string) (net.Conn, error) {
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { tcp.Close() })
	c := newConn(k, tcp)
	c.shake.Do(func() { c.err = c.dialing() })
	if !stop() && c.err == nil {
		c.err = ctx.Err()
	}
	if c.err != nil {
		tcp.Close()
		return nil, c.err
	}
	return c, nil
}

// Listener wraps the connections of l. The first Read or Write of a connection does the handshake, under the deadline
// that is set for it.
func (k *Key) Listener(l net.Listener) net.Listener { return listener{l, k} }

type listener struct {
	net.Listener
	key *Key
}

func (l listener) Accept() (net.Conn, error) {
	tcp, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(l.key, tcp), nil
}

func (c *conn) dialing() error {
	hello := make([]byte, nonceLen)
	_, _ = rand.Read(hello) // never fails
	if _, err := c.Conn.Write(append([]byte(magic), hello...)); err != nil {
		return err
	}
	answer := make([]byte, len(magic)+nonceLen+keyLen)
	if n, err := io.ReadFull(c.Conn, answer); err != nil {
		if n > 1 && answer[0] == 0x15 && answer[1] == 3 { // an alert of TLS
			return errTLS
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errClosed
		}
		return err
	}
	if !Speaks(answer) {
		return errors.New("it does not speak the protocol of the cluster's key: give all controllers the same release")
	}
	nonces := append(hello, answer[len(magic):len(magic)+nonceLen]...)
	if !hmac.Equal(answer[len(magic)+nonceLen:], c.key.derive("listener", nonces)) {
		return fmt.Errorf("it has another key of the cluster than %s: copy that file from one controller to all others",
			c.key.file)
	}
	c.begin(nonces, "dialer's records", "listener's records")
	_, err := c.Conn.Write(c.key.derive("dialer", nonces))
	return err
}

func (c *conn) listening() error {
	hello := make([]byte, len(magic))
	if _, err := io.ReadFull(c.Conn, hello); err != nil {
		return err
	}
	if hello[0] == 0x16 && hello[1] == 3 { // a record of a TLS handshake
		return errTLS
	}
	if !Speaks(hello) {
		return fmt.Errorf("it does not prove that it has the cluster's key: copy %s to its data folder", c.key.file)
	}
	nonces := make([]byte, 2*nonceLen)
	if _, err := io.ReadFull(c.Conn, nonces[:nonceLen]); err != nil {
		return err
	}
	_, _ = rand.Read(nonces[nonceLen:])
	answer := append([]byte(magic), nonces[nonceLen:]...)
	if _, err := c.Conn.Write(append(answer, c.key.derive("listener", nonces)...)); err != nil {
		return err
	}
	proof := make([]byte, keyLen)
	if _, err := io.ReadFull(c.Conn, proof); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errClosed
		}
		return err
	}
	if !hmac.Equal(proof, c.key.derive("dialer", nonces)) {
		return fmt.Errorf("it has another key of the cluster than %s: copy that file from one controller to all others",
			c.key.file)
	}
	c.begin(nonces, "listener's records", "dialer's records")
	return nil
}

func (c *conn) begin(nonces []byte, out, in string) {
	c.out.aead, c.in.aead = c.gmac(out, nonces), c.gmac(in, nonces)
}

func (c *conn) gmac(purpose string, nonces []byte) cipher.AEAD {
	block, err := aes.NewCipher(c.key.derive(purpose, nonces))
	if err != nil {
		panic(err) // the length of the key is not possible, and that is a constant
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // likewise
	}
	return aead
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.shake.Do(func() { c.err = c.listening() }); c.err != nil {
		return 0, c.err
	}
	c.written = c.written[:0]
	for rest := b; len(rest) > 0; {
		n, start := min(len(rest), maxRecord), len(c.written)
		c.written = append(binary.BigEndian.AppendUint32(c.written, uint32(n)), rest[:n]...)
		c.written = c.out.aead.Seal(c.written, c.out.nonce(), nil, c.written[start:])
		rest = rest[n:]
	}
	_, err := c.Conn.Write(c.written)
	if cap(c.written) > 4*readSize {
		c.written = nil
	}
	if err != nil {
		return 0, err // how much of b the peer has is unknown, and the connection is over
	}
	return len(b), nil
}

// Read implements net.Conn. It returns only what is verified, of as many records as there are: who reads handles what
// came together as one batch.
func (c *conn) Read(b []byte) (int, error) {
	if c.shake.Do(func() { c.err = c.listening() }); c.err != nil {
		return 0, c.err
	}
	n := 0
	for n < len(b) {
		if len(c.data) == 0 {
			if n > 0 && c.size() > len(c.buf)-c.used {
				break
			}
			if err := c.next(); err != nil && n == 0 {
				return 0, err
			} else if err != nil {
				break // the next Read returns it
			}
		}
		copied := copy(b[n:], c.data)
		n, c.data = n+copied, c.data[copied:]
	}
	return n, nil
}

// size returns that of the next record, with its length and tag; more than there is if its length has not come, or is
// not possible.
func (c *conn) size() int {
	rest := c.buf[c.used:]
	if len(rest) < lenLen {
		return lenLen
	}
	n := binary.BigEndian.Uint32(rest)
	if n == 0 || n > maxRecord {
		return math.MaxInt
	}
	return lenLen + int(n) + tagLen
}

// next verifies the next record, and reads until it has it.
func (c *conn) next() error {
	for c.broken == nil {
		rest, size := c.buf[c.used:], c.size()
		if size == math.MaxInt {
			c.broken = errTag
			break
		}
		if size > lenLen && len(rest) >= size {
			end := size - tagLen
			if _, err := c.in.aead.Open(nil, c.in.nonce(), rest[end:size], rest[:end]); err != nil {
				c.broken = errTag
				break
			}
			c.data, c.used = rest[lenLen:end], c.used+size
			return nil
		}
		if err := c.more(); err != nil {
			return err
		}
	}
	return c.broken
}

// more reads behind what is not verified yet. There is room: a record is smaller than the buffer.
func (c *conn) more() error {
	if c.buf == nil {
		c.buf = make([]byte, 0, readSize)
	}
	c.buf, c.used = c.buf[:copy(c.buf, c.buf[c.used:])], 0
	n, err := c.Conn.Read(c.buf[len(c.buf):cap(c.buf)])
	c.buf = c.buf[:len(c.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}
