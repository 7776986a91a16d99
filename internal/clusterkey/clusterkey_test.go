package clusterkey

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newKey makes a key in a new folder.
func newKey(t testing.TB) *Key {
	t.Helper()
	dir := t.TempDir()
	if _, made, err := Make(dir); err != nil || !made {
		t.Fatal(made, err)
	}
	k, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no key: %v", err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for range 8 {
		all.Go(func() {
			_, made, err := Make(dir)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if made {
				first++
			}
		})
	}
	all.Wait()
	k, err := Load(dir)
	if err != nil || len(k.secret) != keyLen || first != 1 {
		t.Fatalf("%d made the key: %v", first, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestLoadErrors(t *testing.T) {
	good := strings.Repeat("0a", keyLen)
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		says       string
	}{
		{"open to others", good, 0o640, "chmod 600"},
		{"short", good[2:], 0o600, "damaged"},
		{"no digits", "x" + good[1:], 0o600, "damaged"},
		{"empty", "", 0o600, "damaged"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(tc.text), tc.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// pair connects two ends, of which the first dials. between may change what goes from the dialer to the listener.
func pair(t testing.TB, dials, listens *Key, between func(io.Writer, io.Reader)) (dialer, accepted net.Conn, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	if between != nil {
		address = relay(t, address, between)
	}
	got := make(chan net.Conn, 1)
	go func() { // ends with the listener
		c, err := listens.Listener(l).Accept()
		if err != nil {
			c = nil
		}
		if c != nil {
			_, _ = c.Read(nil) // the handshake
		}
		got <- c
	}()
	dialer, err = dials.Dial(context.Background(), address)
	accepted = <-got
	t.Cleanup(func() {
		if err == nil {
			dialer.Close()
		}
		accepted.Close()
	})
	return dialer, accepted, err
}

// relay passes one connection on, and what the client sends through between.
func relay(t testing.TB, to string, between func(io.Writer, io.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		running.Go(func() {
			_, _ = io.Copy(client, server) // ends when one side closes
			client.Close()
		})
		between(server, client)
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// What one end writes the other reads, in both directions at once, whatever the sizes are.
func TestConn(t *testing.T) {
	k := newKey(t)
	a, b, err := pair(t, k, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	sizes := []int{0, 1, 2, 100, maxRecord - 1, maxRecord, maxRecord + 1, 5 * maxRecord, 300, 1 << 20}
	var running sync.WaitGroup
	for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		running.Go(func() {
			for rest, i := data, 0; len(rest) > 0; i++ {
				n := min(sizes[i%len(sizes)], len(rest))
				if wrote, err := ends[0].Write(rest[:n]); wrote != n || err != nil {
					t.Errorf("%d of %d bytes written: %v", wrote, n, err)
					return
				}
				rest = rest[n:]
			}
		})
		running.Go(func() {
			got := make([]byte, len(data))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, data) {
				t.Errorf("it reads something else: %v", err)
			}
		})
	}
	running.Wait()
	a.Close()
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
}

func TestOtherKey(t *testing.T) {
	_, accepted, err := pair(t, newKey(t), newKey(t), nil)
	if err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("the dialer: %v", err)
	}
	if _, err := accepted.Read(make([]byte, 1)); err == nil {
		t.Error("the listener takes it")
	}
}

// A peer without a key gets nowhere, also if it returns what it was sent.
func TestNoKey(t *testing.T) {
	k := newKey(t)
	for name, say := range map[string]func(net.Conn){
		"hello of the consensus": func(c net.Conn) { _, _ = c.Write([]byte("HOLDRAFT\x00\x06 and more, and more")) },
		"half a handshake":       func(c net.Conn) { _, _ = c.Write([]byte(magic + strings.Repeat("n", nonceLen))) },
		"the listener's proof": func(c net.Conn) {
			_, _ = c.Write([]byte(magic + strings.Repeat("n", nonceLen)))
			answer := make([]byte, len(magic)+nonceLen+keyLen)
			_, _ = io.ReadFull(c, answer)
			_, _ = c.Write(answer[len(magic)+nonceLen:])
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		peer, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := k.Listener(l).Accept()
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { say(peer); _ = peer.(*net.TCPConn).CloseWrite() })
		if n, err := c.Read(make([]byte, 100)); n > 0 || err == nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if n, err := c.Write([]byte("x")); n > 0 || err == nil {
			t.Errorf("%s: written: %d bytes, %v", name, n, err)
		}
		running.Wait()
		c.Close()
		peer.Close()
		l.Close()
	}
}

// Whoever is between two members can neither change nor repeat, leave out or reorder a record.
func TestInterference(t *testing.T) {
	const record = lenLen + len("message 1") + tagLen
	for name, change := range map[string]func(records []byte) []byte{
		"a bit of the data":   func(b []byte) []byte { b[record+lenLen] ^= 1; return b },
		"a bit of the tag":    func(b []byte) []byte { b[2*record-1] ^= 1; return b },
		"a bit of the length": func(b []byte) []byte { b[record+3] ^= 1; return b },
		"a length of nothing": func(b []byte) []byte { b[record+3] = 0; return b },
		"a huge length":       func(b []byte) []byte { b[record] = 0xff; return b },
		"a repetition":        func(b []byte) []byte { return append(bytes.Clone(b[:record]), b...) },
		"a gap":               func(b []byte) []byte { return append(bytes.Clone(b[:record]), b[2*record:]...) },
		"another order": func(b []byte) []byte {
			return bytes.Join([][]byte{b[:record], b[2*record : 3*record], b[record : 2*record]}, nil)
		},
	} {
		k := newKey(t)
		a, b, err := pair(t, k, k, func(w io.Writer, r io.Reader) {
			_, _ = io.CopyN(w, r, int64(len(magic)+nonceLen+keyLen))
			records := make([]byte, 3*record)
			_, _ = io.ReadFull(r, records)
			_, _ = w.Write(change(records))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"message 1", "message 2", "message 3"} {
			if _, err := a.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := io.ReadAll(b)
		if !errors.Is(err, errTag) || string(got) != "message 1" {
			t.Errorf("%s: it reads %q, %v", name, got, err)
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, errTag) {
			t.Errorf("%s: it goes on: %v", name, err)
		}
	}
}

// A heartbeat is one record of 60 bytes, a batch one of 64 KiB.
func BenchmarkConn(b *testing.B) {
	for _, size := range []int{60, maxRecord} {
		b.Run(map[bool]string{true: "heartbeat", false: "batch"}[size == 60], func(b *testing.B) {
			k := newKey(b)
			from, to, err := pair(b, k, k, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			data, got := make([]byte, size), make([]byte, size)
			for range b.N {
				if _, err := from.Write(data); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(to, got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Each side tells that the other speaks TLS.
func TestTLS(t *testing.T) {
	k := newKey(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answer := func(b string, accept func() (net.Conn, error), then func(net.Conn)) *sync.WaitGroup {
		var running sync.WaitGroup
		running.Go(func() {
			c, err := accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = c.Write([]byte(b))
			then(c)
		})
		return &running
	}
	alert := answer("\x15\x03\x03\x00\x02\x02\x46", l.Accept, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 40)) })
	if _, err := k.Dial(context.Background(), l.Addr().String()); !errors.Is(err, errTLS) {
		t.Errorf("the dialer: %v", err)
	}
	alert.Wait()
	hello := answer("\x16\x03\x01\x02\x00\x01\x00\x01", func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	c, err := k.Listener(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errTLS) {
		t.Errorf("the listener: %v", err)
	}
	c.Close()
	hello.Wait()
}
