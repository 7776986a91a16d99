package rawconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBoth tests both ends of a connection of TCP, and of one of a Unix socket.
func inBoth(t *testing.T, test func(t *testing.T, a, b net.Conn)) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			a, b := pair(t, network, address)
			test(t, a, b)
		})
	}
}

func pair(t *testing.T, network, address string) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return Of(dialed), Of(accepted)
}

// What is written arrives, also if it is more than the kernel keeps, and the end arrives after it.
func TestCopies(t *testing.T) { inBoth(t, copies) }

func copies(t *testing.T, a, b net.Conn) {
	sent := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(sent)
	written := make(chan error, 1)
	go func() {
		n, err := a.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		a.Close()
		written <- err
	}()
	time.Sleep(10 * time.Millisecond) // so that the writer waits, too
	var got bytes.Buffer
	for buf := make([]byte, 100_000); ; {
		n, err := b.Read(buf)
		got.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-written; err != nil || !bytes.Equal(got.Bytes(), sent) {
		t.Errorf("%d bytes of %d arrived as they were sent: %v", got.Len(), len(sent), err)
	}
}

// Errors are those of package net.
func TestErrors(t *testing.T) { inBoth(t, fails) }

func fails(t *testing.T, a, b net.Conn) {
	if n, err := b.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
	if n, err := b.Write(nil); n != 0 || err != nil {
		t.Errorf("a write of nothing: %d, %v", n, err)
	}
	late := func() error {
		_ = b.SetDeadline(time.Now().Add(time.Millisecond))
		_, err := b.Read(make([]byte, 1))
		return err
	}
	if err := late(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read that is late: %v", err)
	}
	if _, err := b.Write(make([]byte, 20<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that is late: %v", err)
	}
	_ = b.SetDeadline(time.Time{})
	if _, err := b.Write([]byte{1, 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	a.Close() // before it has read all, which resets the connection
	_, err := b.Read(make([]byte, 1))
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" ||
		op.Net != b.LocalAddr().Network() {
		t.Errorf("a read after a reset: %v", err)
	}
	if _, err := b.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after a reset: %v", err)
	}
	b.Close()
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read of a closed connection: %v", err)
	}
}

// Other connections stay as they are.
func TestOthers(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	defer a.Close()
	if Of(a) != a {
		t.Error("a pipe has changed")
	}
	if _, is := a.(Direct); is {
		t.Error("a pipe can be written without waiting")
	}
}

// While the peer does not read, a direct write takes a part and then nothing. It does not wait, and a deadline that is
// over does not matter. The rest follows in order.
func TestDirect(t *testing.T) { inBoth(t, direct) }

func direct(t *testing.T, a, b net.Conn) {
	d := a.(Direct)
	sent := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(sent)
	_ = a.SetDeadline(time.Now().Add(-time.Second))
	if n := d.WriteDirect(nil); n != 0 {
		t.Errorf("%d bytes of nothing", n)
	}
	done := 0
	for misses := 0; misses < 2; {
		n := d.WriteDirect(sent[done:])
		if done += n; n == 0 {
			misses++
		}
	}
	if done == 0 || done == len(sent) {
		t.Fatalf("%d bytes of %d without a reader", done, len(sent))
	}
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(b)
		got <- all
	}()
	_ = a.SetDeadline(time.Time{})
	for turn := 0; done < len(sent); turn++ {
		part := sent[done:min(done+100_000, len(sent))]
		if turn%2 == 0 {
			done += d.WriteDirect(part)
			continue
		}
		n, err := a.Write(part)
		if done += n; err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	if all := <-got; !bytes.Equal(all, sent) {
		t.Errorf("%d bytes of %d arrived as they were sent", len(all), len(sent))
	}
	if n := d.WriteDirect(sent); n != 0 {
		t.Errorf("a closed connection takes %d bytes", n)
	}
}

// A write that waits does not make a direct one wait, although both are not allowed at once.
func TestDirectDoesNotWait(t *testing.T) { inBoth(t, directDoesNotWait) }

func directDoesNotWait(t *testing.T, a, _ net.Conn) {
	ended := make(chan error)
	go func() {
		_, err := a.Write(make([]byte, 20<<20))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	done := make(chan struct{})
	go func() {
		a.(Direct).WriteDirect(make([]byte, 1<<20))
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	a.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the other write: %v", err)
	}
}

func TestNothingIsAllocated(t *testing.T) { inBoth(t, nothingIsAllocated) }

func nothingIsAllocated(t *testing.T, a, b net.Conn) {
	ten, got := make([]byte, 10), make([]byte, 10)
	for name, write := range map[string]func(){"WriteDirect": func() { a.(Direct).WriteDirect(ten) },
		"Write": func() { _, _ = a.Write(ten) }} {
		if n := testing.AllocsPerRun(100, func() { write(); _, _ = io.ReadFull(b, got) }); n > 0 {
			t.Errorf("%s and Read: %v allocations", name, n)
		}
	}
}
