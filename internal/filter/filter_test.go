package filter

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
)

var cmd = handshake.Bare(nil, 4, 14, 1)

// takeBarrier empties Out and returns the xid of the barrier at its end, 0 if there is none.
func takeBarrier(f *Filter, typ uint8) uint32 {
	defer func() { f.Out = nil }()
	if n := len(f.Out); n >= 8 && f.Out[n-7] == typ {
		return openflow.XID(f.Out[n-8:])
	}
	return 0
}

func TestOneBarrierAtATime(t *testing.T) {
	f := New(4)
	f.Ask()
	if len(f.Out) != 0 {
		t.Fatal("a barrier for nothing")
	}
	f.Pass(cmd)
	f.Pass(cmd)
	f.Ask()
	if !bytes.HasPrefix(f.Out, append(bytes.Clone(cmd), cmd...)) {
		t.Fatalf("%x", f.Out)
	}
	first := takeBarrier(&f, 20)
	f.Pass(cmd)
	f.Ask()
	if first == 0 || takeBarrier(&f, 20) != 0 {
		t.Fatal("not one barrier at a time")
	}
	if f.Answered(first+1) || f.Answered(0) || f.Done != 0 {
		t.Fatal("an answer to something else counts")
	}
	if !f.Answered(first) || f.Done != 2 || f.Forwarded != 3 {
		t.Fatalf("%+v", f)
	}
	if second := takeBarrier(&f, 20); second == first || !f.Answered(second) || f.Done != 3 || len(f.Out) != 0 {
		t.Fatalf("%+v", f)
	}
	if f.Answered(first) {
		t.Fatal("answered twice")
	}
}

func TestPatience(t *testing.T) {
	f := New(1)
	f.Pass(cmd)
	f.Ask()
	if takeBarrier(&f, 18) == 0 {
		t.Fatal("no barrier of OpenFlow 1.0")
	}
	for i := range patience {
		if more := f.Tick(); more != (i == patience-1) {
			t.Fatalf("tick %d: %v", i, more)
		}
	}
	if f.Done != 1 {
		t.Fatalf("%+v", f)
	}
	f.Out = nil
	f.Pass(cmd)
	f.Ask()
	if len(f.Out) != len(cmd) || f.Done != 1 || !f.Written() || f.Done != 2 || f.Written() {
		t.Fatalf("without barriers: %+v", f)
	}
	slow := New(4) // an OpenFlow 1.3 switch must answer
	slow.Pass(cmd)
	slow.Ask()
	for range 10 * patience {
		if slow.Tick() {
			t.Fatal("gave up on OpenFlow 1.3")
		}
	}
}
