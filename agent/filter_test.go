package agent

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
)

var cmd = handshake.Bare(nil, 4, 14, 1)

// passNext accepts and forwards the next command.
func (f *filter) passNext() {
	f.passed++
	f.pass(cmd)
}

// takeBarrier empties Out and returns the xid of the barrier at its end, or 0 if there is none.
func takeBarrier(f *filter, typ uint8) uint32 {
	defer func() { f.out = nil }()
	if n := len(f.out); n >= 8 && f.out[n-7] == typ {
		return openflow.XID(f.out[n-8:])
	}
	return 0
}

func TestOneBarrierAtATime(t *testing.T) {
	f := newFilter(4)
	f.ask()
	if len(f.out) != 0 {
		t.Fatal("a barrier for nothing")
	}
	f.passNext()
	f.passNext()
	f.ask()
	if !bytes.HasPrefix(f.out, append(bytes.Clone(cmd), cmd...)) {
		t.Fatalf("%x", f.out)
	}
	first := takeBarrier(&f, 20)
	f.passNext()
	f.ask()
	if first == 0 || takeBarrier(&f, 20) != 0 {
		t.Fatal("not one barrier at a time")
	}
	if f.answered(first+1) || f.answered(0) || f.done != 0 {
		t.Fatal("an answer to something else counts")
	}
	if !f.answered(first) || f.done != 2 || f.passed != 3 {
		t.Fatalf("%+v", f)
	}
	if second := takeBarrier(&f, 20); second == first || !f.answered(second) || f.done != 3 || len(f.out) != 0 {
		t.Fatalf("%+v", f)
	}
	if f.answered(first) {
		t.Fatal("answered twice")
	}
}

func TestPatience(t *testing.T) {
	f := newFilter(1)
	f.passNext()
	f.ask()
	if takeBarrier(&f, 18) == 0 {
		t.Fatal("no barrier of OpenFlow 1.0")
	}
	f.out = nil // written
	for i := range patience {
		if more := f.tick(false); more != (i == patience-1) {
			t.Fatalf("tick %d: %v", i, more)
		}
	}
	if f.done != 1 {
		t.Fatalf("%+v", f)
	}
	f.out = nil
	f.passNext()
	f.ask()
	if len(f.out) != len(cmd) || f.done != 1 || !f.written() || f.done != 2 || f.written() {
		t.Fatalf("without barriers: %+v", f)
	}
	if !f.answered(f.xid) || f.done != 2 {
		t.Fatalf("the answer comes late: %+v", f)
	}
	f.passNext()
	if f.ask(); f.written() || takeBarrier(&f, 18) == 0 {
		t.Fatalf("it has answered a barrier, and is asked no more: %+v", f)
	}
	slow := newFilter(4) // a switch of OpenFlow 1.3 must answer barriers
	slow.passNext()
	slow.ask()
	for range 10 * patience {
		if slow.tick(false) {
			t.Fatal("gave up on OpenFlow 1.3")
		}
	}
}
