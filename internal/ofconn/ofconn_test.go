package ofconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"pgregory.net/rapid"
)

func message(n int, xid uint32) []byte {
	m := append(openflow.AppendHeader(nil, 4, 2, xid), make([]byte, n-openflow.HeaderLen)...)
	openflow.SetLength(m)
	return m
}

// chunks reads as a connection does, in pieces of any length.
type chunks struct {
	data  []byte
	sizes []int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(c.data))
	if len(c.sizes) > 0 {
		n, c.sizes = min(n, c.sizes[0]), c.sizes[1:]
	}
	copy(b, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

func TestReaderReturnsWholeMessagesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		for i, n := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(8, 200), rapid.IntRange(8, openflow.MaxMessageLen)),
			0, 30).Draw(t, "lengths") {
			all = append(all, message(n, uint32(i))...)
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		src := &chunks{all[:cut], rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 1<<17)), 0,
			100).Draw(t, "sizes")}
		r := NewReader(src)
		var got []byte
		for {
			batch, err := r.Next()
			if err != nil {
				if (err == io.EOF) != (len(got) == cut) || err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("%v after %d of %d bytes", err, len(got), cut)
				}
				break
			}
			for rest := batch; len(rest) > 0; {
				msg, next, err := openflow.Next(rest)
				if msg == nil || err != nil {
					t.Fatalf("half a message: %v", err)
				}
				rest = next
			}
			got = append(got, batch...)
		}
		if !bytes.HasPrefix(all, got) || cut-len(got) >= openflow.MaxMessageLen {
			t.Fatalf("%d bytes of %d", len(got), cut)
		}
	})
}

func TestReaderDeliversWhatComesBeforeGarbage(t *testing.T) {
	r := NewReader(iotest.OneByteReader(bytes.NewReader(append(message(20, 1), 4, 2, 0, 7, 0, 0, 0, 0))))
	if batch, err := r.Next(); err != nil || len(batch) != 20 {
		t.Fatalf("%d bytes, %v", len(batch), err)
	}
	var e *openflow.Error
	if _, err := r.Next(); !errors.As(err, &e) || e.Kind != openflow.BadLength {
		t.Fatalf("error %v", err)
	}
}

// However the bytes arrive, a peer that opens with TLS is distinguished from one that sends garbage.
func TestReaderKnowsTLS(t *testing.T) {
	clientHello := append([]byte{0x16, 3, 1, 2, 0, 1}, make([]byte, 512)...)
	for _, sizes := range [][]int{nil, {1, 1, 1}, {2}} {
		if _, err := NewReader(&chunks{bytes.Clone(clientHello), sizes}).Next(); !errors.Is(err, ErrTLS) {
			t.Errorf("in pieces of %v: %v", sizes, err)
		}
	}
	if _, err := NewReader(bytes.NewReader([]byte("\x15\x03\x03\x00\x02\x02\x46"))).Next(); !errors.Is(err, ErrTLS) {
		t.Errorf("an alert: %v", err)
	}
	later := append(message(8, 1), 0x16, 3, 0, 8, 0, 0, 0, 0)
	r := NewReader(bytes.NewReader(later))
	if batch, err := r.Next(); err != nil || len(batch) != 16 {
		t.Errorf("the same bytes later: %d, %v", len(batch), err)
	}
}

func TestReaderIsSmallForQuietPeers(t *testing.T) {
	r := NewReader(&chunks{bytes.Repeat(message(8, 1), 100), slices.Repeat([]int{8}, 100)})
	for range 100 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.buf) != readMin {
		t.Fatalf("%d bytes of buffer", len(r.buf))
	}
}

func pipe(t *testing.T) (a, b net.Conn) {
	t.Helper()
	a, b = net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestWriterKeepsOrderAndBound(t *testing.T) {
	a, b := pipe(t)
	w := NewWriter(a, 100, 0, nil)
	var want []byte
	sent := 0
	for i := range 50 {
		m := message(20, uint32(i))
		err := w.Send(m[:8], m[8:])
		if err == nil {
			want = append(want, m...)
			sent++
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if sent < 5 || sent > 10 {
		t.Fatalf("%d messages of 20 bytes in a queue of 100, one batch on its way", sent)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%x, %v", got, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Send(message(8, 1)); !errors.Is(err, ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
}

func TestWriterSendsOneMessageLargerThanItsQueue(t *testing.T) {
	a, b := pipe(t)
	w := NewWriter(a, 10, 0, nil)
	go io.Copy(io.Discard, b)
	if err := w.Send(message(1000, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWriterEndsWithItsConnection(t *testing.T) {
	a, b := pipe(t)
	w := NewWriter(a, 100, 0, nil)
	b.Close()
	var err error
	for end := time.Now().Add(10 * time.Second); err == nil || errors.Is(err, ErrFull); err = w.Send(message(20, 1)) {
		if time.Now().After(end) {
			t.Fatal("Send does not tell the write error")
		}
	}
	if cerr := w.Close(); cerr == nil || cerr != err {
		t.Fatalf("Close says %v, Send said %v", cerr, err)
	}
}

func TestWriterTimeout(t *testing.T) {
	a, _ := pipe(t)
	w := NewWriter(a, 100, 20*time.Millisecond, nil)
	w.Send(message(20, 1))
	var n net.Error
	if err := w.Close(); !errors.As(err, &n) || !n.Timeout() {
		t.Fatalf("error %v", err)
	}
}

func TestMarkComesAfterTheWrite(t *testing.T) {
	a, b := pipe(t)
	marks := make(chan uint64, 10)
	w := NewWriter(a, 1000, 0, func(m uint64) { marks <- m })
	w.Send(message(20, 1))
	w.Mark(7)
	select {
	case m := <-marks:
		t.Fatalf("mark %d before anything was read", m)
	case <-time.After(20 * time.Millisecond):
	}
	io.ReadFull(b, make([]byte, 20))
	if m := <-marks; m != 7 {
		t.Fatalf("mark %d", m)
	}
	w.Mark(8)
	if m := <-marks; m != 8 {
		t.Fatalf("mark %d", m)
	}
	w.Close()
}

func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		w := NewWatched(a, 100*time.Millisecond)
		go func() {
			for range 5 {
				time.Sleep(50 * time.Millisecond)
				b.Write([]byte{1})
			}
		}()
		buf := make([]byte, 10)
		for range 5 {
			if _, err := w.Read(buf); err != nil {
				t.Fatalf("a peer that speaks every 50 ms: %v", err)
			}
		}
		if w.Heard() != 5 {
			t.Fatalf("heard %d times", w.Heard())
		}
		time.Sleep(150 * time.Millisecond) // the reader is held up
		go b.Write([]byte{1})
		if _, err := w.Read(buf); err != nil {
			t.Fatalf("the peer was blamed for its reader: %v", err)
		}
		if _, err := w.Read(buf); !errors.Is(err, ErrSilent) {
			t.Fatalf("error %v", err)
		}
	})
}

// late is a connection of which a read takes so much longer than its deadline, as when the machine stands still.
type late struct {
	net.Conn
	by time.Duration
}

func (c late) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		time.Sleep(c.by)
	}
	return n, err
}

// A peer is not blamed for the silence of a process that stood still, and is if it is silent after that.
func TestWatchedAfterStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		w := NewWatched(late{a, time.Minute}, 100*time.Millisecond)
		go func() {
			time.Sleep(time.Minute)
			b.Write([]byte{1})
		}()
		buf := make([]byte, 10)
		if _, err := w.Read(buf); err != nil {
			t.Fatalf("the peer was blamed for a standstill: %v", err)
		}
		if _, err := w.Read(buf); !errors.Is(err, ErrSilent) {
			t.Fatalf("error %v", err)
		}
	})
}

func TestCheckEcho(t *testing.T) {
	for _, c := range []struct {
		interval, silentAfter time.Duration
		ok                    bool
	}{{1, 5, true}, {2180, 5000, true}, {2187, 5000, true}, {2188, 5000, false}, {3, 5, false}, {5, 5, false}} {
		err := CheckEcho(c.interval*time.Millisecond, c.silentAfter*time.Millisecond)
		if (err == nil) != c.ok {
			t.Errorf("EchoInterval %d of SilentAfter %d: %v", c.interval, c.silentAfter, err)
		}
	}
}
