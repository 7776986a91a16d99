package trunk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// message has the given length and is number n.
func message(n uint32, length int) []byte {
	m := append(openflow.AppendHeader(nil, openflow.Version13, openflow.TypeEchoRequest, n),
		make([]byte, length-openflow.HeaderLen)...)
	openflow.SetLength(m)
	return m
}

// end is an End that appends what was put, and keeps what has come.
type end struct {
	s *Stream

	mu    sync.Mutex
	out   []byte
	got   []byte
	deaf  bool // it does not take what comes
	ended error
}

func (e *end) put(b []byte) {
	e.mu.Lock()
	e.out = append(e.out, b...)
	e.mu.Unlock()
	e.s.Wake()
}

func (e *end) Take(dst []byte, credit int) ([]byte, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.out) > 0 && credit > 0 {
		n := int(e.out[2])<<8 | int(e.out[3])
		dst, e.out, credit = append(dst, e.out[:n]...), e.out[n:], credit-n
	}
	return dst, len(e.out) > 0
}

func (e *end) Input(batch []byte) {
	e.mu.Lock()
	e.got = append(e.got, batch...)
	deaf := e.deaf
	e.mu.Unlock()
	if !deaf {
		e.s.Took(len(batch))
	}
}

func (e *end) Ended(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = err
}

func (e *end) has() (got []byte, ended error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got, e.ended
}

// bed is a trunk of which the test has both ends.
type bed struct {
	t        *testing.T
	agent    *Trunk
	conns    [2]net.Conn
	refuse   bool
	accepted chan *end
	over     chan error // why each end has ended
}

func start(t *testing.T, refuse bool) *bed {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b := &bed{t: t, refuse: refuse, accepted: make(chan *end, 100), over: make(chan error, 2)}
	if b.conns[0], err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b.conns[1], err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	b.agent = b.run(b.conns[0], nil)
	b.run(b.conns[1], b.accept)
	t.Cleanup(func() {
		b.agent.Close(io.ErrClosedPipe)
		<-b.over
		<-b.over
	})
	return b
}

// partial is a connection that sometimes has room for a part only.
type partial struct{ net.Conn }

func (c partial) WriteDirect(b []byte) int {
	if rand.IntN(4) == 0 {
		b = b[:rand.IntN(len(b)+1)]
	}
	n, _ := c.Write(b)
	return n
}

func (b *bed) run(conn net.Conn, accept func(*Stream) (End, bool)) *Trunk {
	if accept == nil {
		conn = partial{conn}
	}
	t := New(conn, 10*time.Second, accept)
	go func() { b.over <- t.Run(nil, ofconn.NewReader(conn).Next) }()
	return t
}

func (b *bed) accept(s *Stream) (End, bool) {
	e := &end{s: s}
	if !b.refuse {
		b.accepted <- e
	}
	return e, !b.refuse
}

func (b *bed) open() *end {
	b.t.Helper()
	e := &end{}
	var err error
	if e.s, err = b.agent.Open(e); err != nil {
		b.t.Fatal(err)
	}
	return e
}

// pair opens a stream and returns both ends.
func (b *bed) pair() (agent, controller *end) {
	b.t.Helper()
	agent = b.open()
	agent.put(message(0, 8))
	controller = <-b.accepted
	return agent, controller
}

func (b *bed) arrives(e *end, want []byte) {
	b.t.Helper()
	await.Until(b.t, "everything has come", func() bool { got, _ := e.has(); return len(got) >= len(want) })
	if got, ended := e.has(); !bytes.Equal(got, want) || ended != nil {
		b.t.Fatalf("%d bytes have come, not the %d that were sent, or %v", len(got), len(want), ended)
	}
}

// What several goroutines send on streams of both directions arrives whole and in order.
func TestStreams(t *testing.T) {
	b := start(t, false)
	const streams, messages = 8, 2000
	var all sync.WaitGroup
	for i := range streams {
		agent, controller := b.pair()
		for _, e := range []*end{agent, controller} {
			all.Go(func() {
				for n := range uint32(messages) {
					e.put(message(n, 8+int(n)*(i+7)%300))
				}
			})
		}
		all.Go(func() {
			want := []byte{}
			for n := range uint32(messages) {
				want = append(want, message(n, 8+int(n)*(i+7)%300)...)
			}
			b.arrives(agent, want)
			b.arrives(controller, append(message(0, 8), want...))
		})
	}
	all.Wait()
}

// A stream that is not taken gets no more than its window, and does not hold up another one.
func TestStreamThatIsNotTaken(t *testing.T) {
	b := start(t, false)
	agent, deaf := b.pair()
	deaf.mu.Lock()
	deaf.deaf = true
	deaf.mu.Unlock()
	most := message(1, openflow.MaxMessageLen)
	for range 20 {
		agent.put(most)
	}
	other, hears := b.pair()
	var want []byte
	for n := range uint32(100) {
		m := message(n, 50000)
		other.put(m)
		want = append(want, m...)
	}
	b.arrives(hears, append(message(0, 8), want...))
	got, ended := deaf.has()
	if ended != nil || len(got) < Window || len(got) > Window+2*openflow.MaxMessageLen {
		t.Fatalf("%d bytes have come on the stream that takes none: %v", len(got), ended)
	}
	deaf.mu.Lock()
	deaf.deaf = false
	deaf.mu.Unlock()
	deaf.s.Took(len(got) - 8) // the first 8 were taken
	b.arrives(deaf, append(message(0, 8), bytes.Repeat(most, 20)...))
}

// A stream that is closed sends first what it has, and is not heard of any more. With the last one the trunk ends.
func TestStreamEnds(t *testing.T) {
	b := start(t, false)
	agent, controller := b.pair()
	other, last := b.pair()
	want := slices.Concat(message(0, 8), message(1, 100))
	agent.mu.Lock()
	agent.out = message(1, 100)
	agent.mu.Unlock()
	agent.s.Close()
	ended := func(e *end) func() bool {
		return func() bool { _, err := e.has(); return err != nil }
	}
	await.Until(t, "the other end knows", ended(controller))
	if got, err := controller.has(); err != io.EOF || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	controller.put(message(2, 8)) // to nobody
	last.s.Close()
	await.Until(t, "the agent knows", ended(other))
	for range 2 {
		err := <-b.over
		b.over <- err
		if err != errIdle && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("the trunk has ended because of %v", err)
		}
	}
	if _, err := b.agent.Open(&end{}); err == nil {
		t.Error("a trunk that has ended has a new stream")
	}
	if got, _ := agent.has(); len(got) > 0 {
		t.Errorf("a closed stream gets %d bytes", len(got))
	}
}

// A stream that is refused ends, and others do not.
func TestRefusedStream(t *testing.T) {
	b := start(t, true)
	agent := b.open()
	agent.put(message(0, 8))
	await.Until(t, "the stream has ended", func() bool { _, err := agent.has(); return err != nil })
}

// The end of the connection ends all streams of both ends.
func TestTrunkBreaks(t *testing.T) {
	b := start(t, false)
	agent, controller := b.pair()
	b.conns[1].Close()
	for _, e := range []*end{agent, controller} {
		await.Until(t, "the stream has ended", func() bool { _, err := e.has(); return err != nil })
	}
}

// frames joins headers of frames and messages.
func frames(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case experimenter.Stream:
			b = p.Append(b)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// A peer that breaks the rules of one stream loses that one; whose frames make no sense loses the trunk.
func TestWrongFrames(t *testing.T) {
	type h = experimenter.Stream
	big := bytes.Repeat(message(1, 1<<15), MaxUnread>>15+1)
	data := func(id uint32, n int) h { return h{ID: id, Kind: experimenter.StreamData, Number: uint32(n)} }
	for name, c := range map[string]struct {
		input []byte
		err   string   // of the trunk
		ended []string // streams, in the order of their opening
	}{
		"two streams": {frames(data(1, 8), message(1, 8), data(5, 16), message(1, 8), message(2, 8)), "",
			[]string{"", ""}},
		"more than is taken": {frames(data(1, 8), message(1, 8), data(2, len(big)), big, data(1, 8), message(1, 8)), "",
			[]string{"", errOverfull.Error()}},
		"data after its end": {frames(data(1, 8), message(1, 8), data(2, 8), message(1, 8),
			h{ID: 1, Kind: experimenter.StreamEnd}, data(1, 8), message(1, 8)), "", []string{"EOF", ""}},
		"too much credit": {frames(data(1, 8), message(1, 8),
			h{ID: 1, Kind: experimenter.StreamCredit, Number: 1<<24 - 1}), "", []string{""}},
		"within a message":  {frames(data(1, 12), message(1, 16)), "ends within a message", []string{""}},
		"credit for nobody": {frames(h{ID: 3, Kind: experimenter.StreamCredit, Number: 1}), "there was none", nil},
		"for no stream":     {frames(data(0, 8), message(1, 8)), "for stream 0", nil},
		"of no kind":        {frames(data(1, 8), message(1, 8), h{ID: 1, Kind: 9}), "of kind 9", []string{""}},
		"a message by itself": {frames(data(1, 8), message(1, 8), message(2, 8)), "not this message",
			[]string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*end
			conn, other := net.Pipe()
			defer other.Close()
			defer conn.Close()
			tr := New(conn, time.Second, func(s *Stream) (End, bool) {
				all = append(all, &end{s: s, deaf: true})
				return all[len(all)-1], true
			})
			err := tr.take(c.input)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			var ended []string
			for _, e := range all {
				if ended = append(ended, ""); e.ended != nil {
					ended[len(ended)-1] = e.ended.Error()
				}
				if e.s.credit > Window {
					t.Errorf("credit of %d", e.s.credit)
				}
			}
			if !slices.Equal(ended, c.ended) {
				t.Errorf("ended %q, want %q", ended, c.ended)
			}
		})
	}
}

// Whatever the peer sends, nothing panics, and what streams get are whole messages.
func FuzzFrames(f *testing.F) {
	f.Add(frames(experimenter.Stream{ID: 1, Kind: experimenter.StreamData, Number: 20}, message(1, 20)))
	f.Add(frames(experimenter.Stream{ID: 1, Kind: experimenter.StreamEnd}))
	f.Fuzz(func(t *testing.T, input []byte) {
		conn, other := net.Pipe()
		defer other.Close()
		defer conn.Close()
		var all []*end
		tr := New(conn, time.Second, func(s *Stream) (End, bool) {
			all = append(all, &end{s: s})
			return all[len(all)-1], len(all)%3 > 0
		})
		in := ofconn.NewReader(bytes.NewReader(input))
		for batch, err := in.Next(); err == nil; batch, err = in.Next() {
			if tr.take(batch) != nil {
				break
			}
		}
		for _, e := range all {
			for rest := e.got; len(rest) > 0; {
				msg, next, err := openflow.Next(rest)
				if err != nil || msg == nil {
					t.Fatalf("a stream gets a part of a message: %v", err)
				}
				rest = next
			}
		}
	})
}
