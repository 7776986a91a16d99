package trunk

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// piped returns a trunk that does not run, on a connection of which nothing is read.
func piped(t *testing.T, accept func(*Stream) (End, bool)) *Trunk {
	conn, other := net.Pipe()
	t.Cleanup(func() { conn.Close(); other.Close() })
	return New(conn, time.Second, accept)
}

// A stream may be woken and closed within accept: what it has, and its end, are written afterwards.
func TestWokenWithinAccept(t *testing.T) {
	var tr *Trunk
	tr = piped(t, func(s *Stream) (End, bool) {
		s.Wake()
		s.Close()
		if err := tr.writeNext(); err != nil { // as the writer does meanwhile
			t.Error(err)
		}
		return &end{s: s, out: message(1, 8)}, true
	})
	type h = experimenter.Stream
	if err := tr.take(frames(h{ID: 1, Kind: experimenter.StreamData, Number: 8}, message(0, 8))); err != nil {
		t.Fatal(err)
	}
	tr.gather()
	want := frames(h{ID: 1, Kind: experimenter.StreamData, Number: 8}, message(1, 8),
		h{ID: 1, Kind: experimenter.StreamEnd})
	if !bytes.Equal(tr.buf, want) {
		t.Errorf("written: %x", tr.buf)
	}
}

// The other end learns of streams in the order in which they were opened, whichever has something to write first.
func TestStreamsBeginInTheirOrder(t *testing.T) {
	b := start(t, false)
	one, two := b.open(), b.open()
	two.put(message(2, 8))
	first, second := await.End(t, "the first stream", b.accepted), await.End(t, "the second one", b.accepted)
	if first.s.id != one.s.id || second.s.id != two.s.id {
		t.Fatalf("stream %d comes before %d", first.s.id, second.s.id)
	}
	one.put(message(1, 8))
	b.arrives(first, message(1, 8))
	b.arrives(second, message(2, 8))
}

// A stream that is closed before its first data begins and ends at the other end, and others go on.
func TestClosedBeforeItsFirstData(t *testing.T) {
	b := start(t, false)
	other, hears := b.pair()
	for name, end := range map[string]func(*Stream){"closed": (*Stream).Close, "stopped": (*Stream).Stop} {
		end(b.open().s)
		e := await.End(t, "a stream that is "+name, b.accepted)
		await.Until(t, "it has ended", func() bool { _, err := e.has(); return err != nil })
		if got, err := e.has(); err != io.EOF || len(got) > 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	other.put(message(1, 8))
	b.arrives(hears, append(message(0, 8), message(1, 8)...))
}

// A stream ends although its window is used up, if its End has no more.
func TestClosedWithUsedUpWindow(t *testing.T) {
	tr := piped(t, nil)
	most := message(1, openflow.MaxMessageLen)
	e := &end{out: append(most, most...)}
	var err error
	if e.s, err = tr.Open(e); err != nil {
		t.Fatal(err)
	}
	e.s.Later()
	tr.gather()
	if len(tr.buf) < Window {
		t.Fatalf("%d bytes of the window are used up", len(tr.buf))
	}
	e.s.Close()
	tr.gather()
	if !bytes.Equal(tr.buf, frames(experimenter.Stream{ID: 1, Kind: experimenter.StreamEnd})) {
		t.Errorf("instead of its end: %x", tr.buf)
	}
}

// A peer that reads may open streams without end. One that does not read loses the trunk at a bound.
func TestOpenedForEver(t *testing.T) {
	for name, reads := range map[string]bool{"reads": true, "does not read": false} {
		t.Run(name, func(t *testing.T) {
			tr := piped(t, func(*Stream) (End, bool) { return nil, false })
			var err error
			for id := uint32(1); id <= 3*maxOver && err == nil; id++ {
				if err = tr.take(frames(experimenter.Stream{ID: id, Kind: experimenter.StreamData})); reads {
					tr.gather()
				}
			}
			if reads != (err == nil) || !reads && !errors.Is(err, errMany) || len(tr.streams) > maxOver+1 {
				t.Errorf("%d streams are kept: %v", len(tr.streams), err)
			}
		})
	}
}

// A controller that waits for the first frame greets as it greets a switch: the agent reads that.
func TestGreetedBeforeItsFirstFrame(t *testing.T) {
	greeting := openflow.AppendHeader(nil, openflow.Version13, openflow.TypeHello, 1)
	openflow.SetLength(greeting)
	if err := piped(t, nil).take(greeting); err != nil {
		t.Error(err)
	}
}
