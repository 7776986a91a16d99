package southbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestBundles(t *testing.T) {
	d := newDock(t, 0)
	d.says("")
	d.give(1, "f")
	d.says("open +f1 +marker=1 barrier")
	d.give(2, "fF") // waits for the bundle in flight
	d.give(2, "fFf")
	d.give(1, "fFff")
	d.says("")
	d.barrier()
	d.says("commit")
	d.wantDone(0)
	d.committed()
	d.wantDone(1)
	d.says("open +f2 +f3 +f4 +marker=4 barrier")
	d.one()
	d.wantDone(4)
	d.says("")
}

// Requests, and messages that cannot be bundled, are sent between bundles, also within a transaction.
func TestWhatNoBundleTakes(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fBFmfb")
	d.says("open +f1 +marker=1 barrier")
	d.one()
	d.says("b2 barrier")
	d.wantDone(1)
	d.barrier()
	d.says("open +f3 +marker=3 barrier")
	d.one()
	d.says("m4 barrier marker=4 barrier")
	d.wantDone(3)
	d.barrier()
	d.says("open +f5 +marker=5 barrier")
	d.one()
	d.wantDone(5)
	d.says("b6 barrier")
	d.fails(d.step.barrier, of13.ErrTypeBadRequest, 0) // the barrier is refused instead of answered
	d.wantDone(6)
	d.says("")
}

// Open vSwitch refuses an atomic bundle that contains a PORT_MOD.
func TestPortModsAreNotBundled(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fPF")
	d.says("open +f1 +marker=1 barrier")
	d.one()
	d.says("p2 barrier marker=2 barrier")
	d.barrier()
	d.says("open +f3 +marker=3 barrier")
	d.one()
	d.wantDone(3)
}

// excludes makes the switch refuse commands of the bundle in flight because of their types.
func (d *dock) excludes(seqs ...uint64) {
	d.t.Helper()
	for _, seq := range seqs {
		if got := d.fails(openflow.XID(d.box.Item(seq)), of13.ErrTypeExperimenter, of13.BundleMsgUnsup, 0x4f, 0x4e, 0x46,
			0); got != nil {
			d.t.Fatalf("refused: %d", got)
		}
	}
}

// The bundles of Open vSwitch 2.5 and 2.6 take only FLOW_MOD and PORT_MOD. What they refuse is sent alone, in its
// order, and after that the switch is not asked again.
func TestTypesThatBundlesOfTheSwitchRefuse(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fOFg")
	d.says("open +f1 +o2 +f3 +g4 +marker=4 barrier")
	d.excludes(2)
	d.fails(d.step.marker, of13.ErrTypeExperimenter, of13.BundleBadID, 0x4f, 0x4e, 0x46, 0) // it keeps no such bundle
	d.barrier()
	d.says("discard open +f1 +marker=1 barrier")
	d.one()
	d.says("o2 barrier marker=2 barrier")
	d.wantDone(1)
	d.barrier()
	d.says("open +f3 +g4 +marker=4 barrier")
	d.barrier()
	d.says("commit")
	d.excludes(4) // this one is refused only when the bundle is committed
	if got := d.notCommitted(of13.BundleMsgFailed); got != nil {
		t.Fatalf("refused: %d", got)
	}
	d.says("open +f3 +marker=3 barrier")
	d.one()
	d.says("g4 barrier marker=4 barrier")
	d.barrier()
	d.wantDone(4)
	d.halt()
	d.start(marker{epoch: 9, seq: 4}, current, 4)
	d.give(5, "of")
	d.says("o5 barrier marker=5 barrier")
	d.barrier()
	d.says("open +f6 +marker=6 barrier")
	d.one()
	d.wantDone(6)
}

// A command that is bad for another reason is refused as before, also if its bundle has a type that the switch refuses.
func TestRefusedTypeWithABadCommand(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "ofF")
	d.fails(2, of13.ErrTypeBadMatch, of13.BadMatchBadField)
	d.excludes(1)
	if got := d.barrier(); got != nil {
		t.Fatalf("refused: %d", got)
	}
	d.says("open +o1 +f2 +f3 +marker=3 barrier discard o1 barrier marker=1 barrier")
	d.barrier()
	d.says("open +f2 +f3 +marker=3 barrier")
	d.fails(2, of13.ErrTypeBadMatch, of13.BadMatchBadField)
	if got := d.barrier(); fmt.Sprint(got) != "[2]" {
		t.Fatalf("refused: %d", got)
	}
	d.says("discard")
	d.wantDone(3)
}

// A switch that refuses FLOW_MOD in bundles is not asked for ever.
func TestFlowModsRefusedInBundles(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "f")
	d.excludes(1)
	if got := d.barrier(); fmt.Sprint(got) != "[1]" {
		t.Fatalf("refused: %d", got)
	}
	d.wantDone(1)
}

// Transactions are merged up to a bound, and never split.
func TestBundleBounds(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "f")
	d.give(2, "f"+strings.Repeat("F", 2*stepCommands)+"f")
	d.give(2+2*stepCommands+2, strings.Repeat("f", stepCommands+10))
	for i, want := range []int{1, 2*stepCommands + 1, stepCommands, 11} {
		if got := int(d.step.last - d.step.first + 1); got != want {
			t.Fatalf("bundle %d has %d commands, want %d", i, got, want)
		}
		d.out = d.out[:0]
		d.one()
	}
	if d.step != nil || d.box.Len() > 0 {
		t.Fatalf("%+v", d.step)
	}
}

func TestRejectedAtCommit(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fF")
	d.says("open +f1 +f2 +marker=2 barrier")
	d.give(3, "f")
	d.barrier()
	d.says("commit")
	d.fails(2|handshake.ContinuesXID, of13.ErrTypeBadAction, of13.BadActionBadOutPort)
	if got := d.notCommitted(of13.BundleMsgFailed); fmt.Sprint(got) != "[2]" {
		t.Fatalf("refused: %d", got)
	}
	d.wantDone(2) // when the refusal is in the log
	d.give(4, "f")
	d.says("")
	d.logged()
	d.says("open +f3 +f4 +marker=4 barrier")
	d.one()
	d.wantDone(4)
}

func TestRejectedAtAdd(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fFF")
	d.says("open +f1 +f2 +f3 +marker=3 barrier")
	d.fails(2|handshake.ContinuesXID, of13.ErrTypeBadMatch, of13.BadMatchBadField)
	if got := d.barrier(); fmt.Sprint(got) != "[2]" {
		t.Fatalf("refused: %d", got)
	}
	d.says("discard")
	d.wantDone(3)
	d.logged()
	d.says("")
}

// If one transaction of a bundle is refused, only its commands are discarded.
func TestRejectedWithOthers(t *testing.T) {
	for _, atAdd := range []bool{false, true} {
		d := newDock(t, 0)
		d.give(1, "f")
		d.give(2, "ffFf")
		d.says("open +f1 +marker=1 barrier")
		d.one()
		d.says("open +f2 +f3 +f4 +f5 +marker=5 barrier")
		reject := func() []uint32 {
			if atAdd {
				d.fails(4|handshake.ContinuesXID, of13.ErrTypeBadMatch, of13.BadMatchBadField)
				return d.barrier()
			}
			d.barrier()
			d.fails(4|handshake.ContinuesXID, of13.ErrTypeBadAction, of13.BadActionBadOutPort)
			return d.notCommitted(of13.BundleMsgFailed)
		}
		after := map[bool]string{false: "commit ", true: "discard "}[atAdd]
		if got := reject(); got != nil {
			t.Fatalf("refused: %d", got)
		}
		d.says(after + "open +f2 +marker=2 barrier")
		d.give(6, "ff")
		d.wantDone(1)
		d.one()
		d.says("open +f3 +f4 +marker=4 barrier")
		if got := reject(); fmt.Sprint(got) != "[4]" {
			t.Fatalf("refused: %d", got)
		}
		d.says(strings.TrimSpace(after))
		d.wantDone(4)
		d.logged()
		d.says("open +f5 +marker=5 barrier") // in a bundle of its own, too
		d.one()
		d.says("open +f6 +f7 +marker=7 barrier")
		d.one()
		d.wantDone(7)
	}
}

// If the switch does not say which message it refuses, the first transaction is blamed.
func TestRejectedWithoutReason(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fF")
	d.barrier()
	if got := d.notCommitted(of13.BundleMsgFailed); fmt.Sprint(got) != "[1]" || d.done() != 2 {
		t.Fatalf("refused: %d, %d done", got, d.done())
	}
}

// If a bundle fails without a fault of its commands, it is sent again, a few times. That also holds for the next
// bundle.
func TestBundleFailsByItself(t *testing.T) {
	d := newDock(t, 0)
	for seq := range uint64(2) {
		d.give(seq+1, "f")
		for i := range maxTries + 1 {
			d.says(fmt.Sprintf("open +f%d +marker=%d barrier", seq+1, seq+1))
			d.barrier()
			d.says("commit")
			if got := d.notCommitted(of13.BundleTimeout); (got == nil) != (i < maxTries) {
				t.Fatalf("after try %d of command %d %d are refused", i+1, seq+1, got)
			}
		}
		d.logged()
	}
	d.says("")
	d.wantDone(2)
}

// The sender detects a switch that lacks what bundles need. No command is executed there.
func TestNoBundles(t *testing.T) {
	for name, tc := range map[string]struct {
		answers func(d *dock)
		cannot  string
	}{
		"it refuses them": {func(d *dock) {
			d.fails(d.step.open, of13.ErrTypeBadRequest, of13.BadRequestBadExperimenter)
			d.fails(1, of13.ErrTypeBadRequest, of13.BadRequestBadExperimenter) // of the ADD message
			d.hears(raw(4, of13.TypeBarrierReply, d.step.barrier))
		}, noBundles},
		"it passes them over in silence": {func(d *dock) {
			d.hears(raw(4, of13.TypeBarrierReply, d.step.barrier))
		}, noBundles},
		"it refuses the marker at once": {func(d *dock) {
			d.fails(d.step.marker, of13.ErrTypeFlowModFailed, of13.FlowModFailedUnknown)
			d.barrier()
		}, noMarker},
		"it refuses the marker at the commit": {func(d *dock) {
			d.barrier()
			d.says("commit")
			d.fails(d.step.marker, of13.ErrTypeFlowModFailed, of13.FlowModFailedTableFull)
			if got := d.notCommitted(of13.BundleMsgFailed); got != nil {
				t.Errorf("refused: %d", got)
			}
		}, noMarker},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDock(t, 0)
			d.give(1, "f")
			d.says("open +f1 +marker=1 barrier")
			tc.answers(d)
			d.says("")
			if d.wantDone(0); d.cannot != tc.cannot {
				t.Fatalf("it says %q", d.cannot)
			}
		})
	}
}

// A switch that refuses a bundle with only a marker, without a reason, does not support markers.
func TestNoMarker(t *testing.T) {
	d := idleDock(t)
	d.start(marker{epoch: 9}, found, 0)
	d.says("open +forget +marker=0 barrier")
	d.barrier()
	d.says("commit")
	if d.notCommitted(of13.BundleMsgFailed); d.cannot != noMarker {
		t.Fatalf("it says %q", d.cannot)
	}
}

// If another controller is master, nothing more is sent, whichever message is refused.
func TestSlave(t *testing.T) {
	for _, tc := range []struct {
		name string
		xid  func(d *dock) uint32
	}{
		{"command", func(d *dock) uint32 { return 1 }},
		{"marker", func(d *dock) uint32 { return d.step.marker }},
		{"commit", func(d *dock) uint32 { return d.step.commit }},
		{"something long done", func(d *dock) uint32 { return firstXID | 77 }},
	} {
		d := newDock(t, 0)
		d.give(1, "f")
		d.barrier()
		d.says("open +f1 +marker=1 barrier commit")
		if got := d.fails(tc.xid(d), of13.ErrTypeBadRequest, of13.BadRequestIsSlave); got != nil || d.active {
			t.Fatalf("%s: refused: %d, active %v", tc.name, got, d.active)
		}
		d.give(2, "f")
		d.says("")
		if _, ok := d.takes(raw(4, of13.TypeBarrierReply, firstXID|5)); ok {
			t.Fatalf("%s: it waits for something", tc.name)
		}
	}
}

// A new master sends the commands after the marker. Requests that may not have been answered are sent again.
func TestStart(t *testing.T) {
	for _, tc := range []struct {
		marker uint64
		fresh  freshness
		says   string
		done   uint64
	}{
		{2, renew, "open +f3 +f4 +marker=4 barrier", 2},
		{3, renew, "open +f4 +marker=4 barrier", 3},
		{6, renew, "open +marker=6 barrier", 4},
		{7, renew, "open +marker=7 barrier", 4},
		{7, current, "b5 barrier", 4},
		{9, renew, "open +marker=9 barrier", 4},
		{0, found, "open +forget +f3 +f4 +marker=4 barrier", 2},
	} {
		d := idleDock(t)
		d.give(3, "ffbfm")
		d.says("")
		d.start(marker{epoch: 9, seq: tc.marker}, tc.fresh, 2)
		d.says(tc.says)
		d.wantDone(tc.done)
	}
	d := idleDock(t)
	d.start(marker{epoch: 9, seq: 7}, renew, 3)
	d.says("open +marker=7 barrier")
	d.wantDone(3)
	d.give(4, "fbffff") // arrives late; the switch has executed all up to 7
	d.one()
	d.says("b5 barrier") // and its answer to 5 may be lost
	d.wantDone(4)
}

// A request is done when its own answer has arrived, including the last part of a multipart answer.
func TestAnswers(t *testing.T) {
	d := newDock(t, 0)
	part := func(xid uint32, flags uint16) []byte {
		m := of13.MultipartReply{Part: of13.PartDesc, Flags: flags, Body: make([]byte, 1056)}
		return m.Append(nil, xid)
	}
	answers := func(msg []byte, want uint64) {
		t.Helper()
		if seq, last := d.answers(msg, false); seq != want || last != (want > 0) {
			t.Fatalf("%d, %v; want %d", seq, last, want)
		}
	}
	answers(part(1, 0), 0)
	d.give(1, "f")
	answers(part(1, 0), 0)
	d.execute()
	desc := of13.MultipartRequest{Part: of13.PartDesc}
	if err := d.send(2, desc.Append(nil, 2)); err != nil {
		t.Fatal(err)
	}
	answers(part(3, 0), 0)
	answers(part(2, of13.FlagMore), 0)
	answers(part(2, 0), 2)
	d.give(3, "ff")
	answers(part(2, 0), 2)
	refusal := of13.Error{ErrType: of13.ErrTypeBadRequest, Data: make([]byte, 8)}
	answers(refusal.Append(nil, 2), 2)
	d.barrier()
	answers(part(2, 0), 0)
}

// An error for a bundled message is reported as an error for the command.
func TestRefusalShowsTheCommand(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "f")
	add := of13.BundleAdd{ID: 1, Message: d.command(1)}
	e := of13.Error{ErrType: of13.ErrTypeBadMatch, Code: 1, Data: add.Append(nil, 1)[:64]}
	d.hears(e.Append(nil, 1))
	d.step.opened = true
	list, _ := d.takes(raw(4, of13.TypeBarrierReply, d.step.barrier))
	var got of13.Error
	if len(list) != 1 || got.Decode(list[0]) != nil || got.ErrType != e.ErrType || got.Data[1] != of13.TypeFlowMod ||
		openflow.XID(got.Data) != 1 {
		t.Fatalf("%+v", got)
	}
}

// The sender ignores answers to messages of others.
func TestNotTheSenders(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "b")
	refusal := of13.Error{ErrType: of13.ErrTypeBadRequest}
	for _, msg := range [][]byte{
		raw(4, of13.TypeBarrierReply, 1), refusal.Append(nil, 1), refusal.Append(nil, 0), packetIn13(1),
		raw(4, openflow.TypeExperimenter, 0, 0x4f, 0x4e, 0x46, 0, 0, 0, 7, 0x77),
	} {
		if _, ok := d.takes(msg); ok {
			t.Errorf("it takes %x", msg)
		}
	}
	for _, msg := range [][]byte{ // none of these is an answer to the sender
		raw(4, of13.TypeBarrierReply, firstXID|999), refusal.Append(nil, firstXID|999),
		raw(4, openflow.TypeError, firstXID|999),
	} {
		if list, ok := d.takes(msg); !ok || list != nil {
			t.Errorf("%x: %v, %x", msg, ok, list)
		}
	}
	if firstXID <= handshake.OwnXID {
		t.Error("it uses what is another's")
	}
}

// A marker that may be gone is set again, even if the bundle that should set it is refused.
func TestRenewWithARefusal(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "f")
	d.says("open +f1 +marker=1 barrier")
	d.renew()
	d.give(2, "f")
	d.one()
	d.says("open +f2 +marker=2 barrier")
	d.barrier()
	d.says("commit")
	d.notCommitted(of13.BundleMsgFailed)
	d.says("")
	d.logged()
	d.says("open +marker=1 barrier")
	d.one()
	d.says("")
}

// A switch that has no room for another bundle, and therefore also refuses its messages, does support bundles. The
// bundle is sent again.
func TestTooManyBundles(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "f")
	for range maxTries {
		d.says("open +f1 +marker=1 barrier")
		onf := []byte{0x4f, 0x4e, 0x46, 0}
		d.fails(d.step.open, of13.ErrTypeExperimenter, of13.BundleOutOfBundles, onf...)
		for _, xid := range []uint32{1, d.step.marker} {
			if got := d.fails(xid, of13.ErrTypeExperimenter, of13.BundleBadID, onf...); got != nil || d.cannot != "" {
				t.Fatalf("refused: %d; it says %q", got, d.cannot)
			}
		}
		if got := d.hears(raw(4, of13.TypeBarrierReply, d.step.barrier)); got != nil {
			t.Fatalf("refused: %d", got)
		}
	}
	d.says("open +f1 +marker=1 barrier")
	d.one()
	d.wantDone(1)
}

// For one bundle, the sender keeps at most as many refusals as there are commands in it.
func TestRefusalsAreBounded(t *testing.T) {
	d := newDock(t, 0)
	d.give(1, "fF")
	for range 1000 {
		d.fails(1, of13.ErrTypeBadMatch, of13.BadMatchBadField)
	}
	if got := d.barrier(); len(got) != 2 {
		t.Fatalf("%d refusals of 2 commands", len(got))
	}
}
