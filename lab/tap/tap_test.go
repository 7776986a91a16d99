package tap

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// record is an Observer that writes down types.
type record struct {
	mu   sync.Mutex // guards list
	list []string
}

func (r *record) FromSwitch(sw openflow.DatapathID, msg []byte) { r.add("from", sw, msg) }
func (r *record) ToSwitch(sw openflow.DatapathID, msg []byte)   { r.add("to", sw, msg) }

func (r *record) add(way string, sw openflow.DatapathID, msg []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf("%s %d %s", way, uint64(sw), of13.TypeName(msg[1])))
}

func (r *record) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return deadline(t, c)
}

func deadline(t *testing.T, c net.Conn) net.Conn {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, m of13.Message, xid uint32) []byte {
	t.Helper()
	msg := m.Append(nil, xid)
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	return msg
}

func hear(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %x (%v), want %x", got, err, want)
	}
}

// pair starts a tap, and returns what is connected at its ends.
func pair(t *testing.T, c Config) (tp *Tap, sw, controller net.Conn) {
	t.Helper()
	l := listen(t)
	t.Cleanup(func() { l.Close() })
	c.Dial = At(l.Addr().String())
	tp = Start(listen(t), c)
	t.Cleanup(func() {
		if err := tp.Close(); err != nil {
			t.Error(err)
		}
	})
	sw, err := net.Dial("tcp", tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return tp, deadline(t, sw), accept(t, l)
}

var features = &of13.FeaturesReply{DatapathID: 7}

func TestObserve(t *testing.T) {
	var seen record
	_, sw, controller := pair(t, Config{Observe: Same(&seen)})
	hear(t, controller, say(t, sw, features, 1))
	hear(t, controller, say(t, sw, &of13.BarrierReply{}, 2))
	hear(t, sw, say(t, controller, &of13.FlowMod{}, 3))
	if got, want := seen.seen(), []string{"from 7 BARRIER_REPLY", "to 7 FLOW_MOD"}; !slices.Equal(got, want) {
		t.Errorf("seen %q, want %q", got, want)
	}
}

// What a controller said before its end arrives, though the switch goes on talking to it.
func TestEndComesLast(t *testing.T) {
	var seen record
	_, sw, controller := pair(t, Config{Observe: Same(&seen)})
	hear(t, controller, say(t, sw, features, 1))
	var all []byte
	for i := range uint32(1000) {
		all = (&of13.FlowMod{}).Append(all, i)
	}
	if _, err := controller.Write(all); err != nil {
		t.Fatal(err)
	}
	controller.Close()
	say(t, sw, &of13.BarrierReply{}, 2)
	say(t, sw, &of13.BarrierReply{}, 3)
	hear(t, sw, all)
	if n, err := sw.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %d bytes, %v, want the end", n, err)
	}
}

func TestNoBundles(t *testing.T) {
	var seen record
	_, sw, controller := pair(t, Config{Observe: Same(&seen), NoBundles: true})
	hear(t, controller, say(t, sw, features, 1))
	open := say(t, controller, &of13.BundleControl{ID: 1}, 5)
	e := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadExperimenter, Data: open}
	hear(t, controller, e.Append(nil, 5))
	hear(t, sw, say(t, controller, &of13.FlowMod{}, 6))
	if got := seen.seen(); !slices.Equal(got, []string{"to 7 FLOW_MOD"}) {
		t.Errorf("seen %q", got)
	}
}

// A switch is not refused because its controller is being restarted; what it says meanwhile arrives.
func TestHolds(t *testing.T) {
	l := listen(t)
	addr := l.Addr().String()
	l.Close()
	var seen record
	tp := Start(listen(t), Config{Dial: At(addr), Observe: Same(&seen)})
	defer tp.Close()
	sw, err := net.Dial("tcp", tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	deadline(t, sw)
	msg := say(t, sw, features, 1)
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Skipf("the port is taken: %v", err)
	}
	defer l.Close()
	hear(t, accept(t, l), msg)
}

func TestCut(t *testing.T) {
	var seen record
	tp, sw, controller := pair(t, Config{Observe: Same(&seen)})
	hear(t, controller, say(t, sw, features, 1))
	tp.Cut()
	for _, c := range []net.Conn{sw, controller} {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes after Cut", n)
		}
	}
}
