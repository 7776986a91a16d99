package vswitch

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func bundleControl(id uint32, kind uint16) *of13.BundleControl {
	return &of13.BundleControl{ID: id, CtrlType: kind, Flags: of13.BundleAtomic | of13.BundleOrdered}
}

func (r *rig) bundle(id uint32, kind uint16) {
	r.t.Helper()
	var a of13.BundleControl
	if err := a.Decode(answer[*of13.Experimenter](r, bundleControl(id, kind)).Append(nil, 0)); err != nil ||
		a.CtrlType != kind+1 {
		r.t.Fatalf("answer to %d: %+v, %v", kind, a, err)
	}
}

// inBundle wraps a message.
func (r *rig) inBundle(id uint32, m of13.Message) *of13.BundleAdd {
	return &of13.BundleAdd{ID: id, Flags: of13.BundleAtomic | of13.BundleOrdered, Message: m.Append(nil, 0)}
}

// All messages of a bundle are executed at the commit, in order.
func TestBundleCommit(t *testing.T) {
	var seen []uint8
	r := newRig(t, func(c *Config) { c.Observe = func(_ ConnID, msg []byte) { seen = append(seen, msg[1]) } })
	r.bundle(1, of13.BundleOpenRequest)
	po := &of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: of13.Actions(nil).Output(of13.PortTable, 0),
		Data: ping(1)}
	r.ok(r.inBundle(1, add(0, 1, nil, out(2))))
	r.ok(r.inBundle(1, po))
	r.ok(r.inBundle(1, groupMod(1, of13.GroupTypeAll, bucketTo(3, of13.PortAny, 0))))
	r.ok(r.inBundle(1, add(0, 1, nil, toGroup(1))))
	r.ok(r.inBundle(1, po))
	r.wantFlows(0)
	r.bundle(1, of13.BundleCloseRequest)
	r.bundle(1, of13.BundleCommitRequest)
	if got := r.frames(); len(got[2]) != 1 || len(got[3]) != 1 {
		t.Fatalf("sent %v", got)
	}
	want := []uint8{of13.TypeFlowMod, of13.TypePacketOut, of13.TypeGroupMod, of13.TypeFlowMod, of13.TypePacketOut}
	if !reflect.DeepEqual(seen, want) {
		t.Fatalf("observed %v, want %v", seen, want)
	}
}

// If one message of a bundle is refused, nothing is executed, whatever came before it.
func TestBundleIsAtomic(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Observe = func(_ ConnID, msg []byte) {} })
	for i := range 5 {
		m := add(uint8(i%2), uint16(i), of13.Match(nil).WithInPort(of13.Port(i+1)), out(2))
		m.HardTimeout, m.Flags = uint16(100+i), of13.FlowSendFlowRem
		r.ok(m)
	}
	r.ok(groupMod(1, of13.GroupTypeAll, bucketTo(2, of13.PortAny, 0)))
	r.goes(2, ping(1))
	before := r.flows()
	del := add(of13.TableAll, 0, nil, nil)
	del.Command = of13.FlowDelete
	mod := add(0, 0, nil, out(4))
	mod.Command, mod.Flags = of13.FlowModify, of13.FlowResetCounts
	modGroup := groupMod(1, of13.GroupTypeAll, bucketTo(3, of13.PortAny, 0))
	modGroup.Command = of13.GroupModify
	hw := Ports(1, 4)[1].HwAddr
	for _, m := range []of13.Message{
		mod, add(0, 7, of13.Match(nil).WithEthDst(macB), out(3)), modGroup,
		add(0, 0, of13.Match(nil).WithInPort(1), out(3)), del,
		add(1, 1, nil, toGroup(1)), &of13.GroupMod{Command: of13.GroupDelete, GroupID: 1},
		&of13.PortMod{Port: 2, HwAddr: hw, Config: of13.PortConfigDown, Mask: of13.PortConfigDown},
		&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1, Actions: of13.Actions(nil).Output(3, 0), Data: ping(1)},
		add(0, 1, nil, toGroup(55)),
	} {
		r.ok(r.inBundle(9, m)) // opens the bundle implicitly
	}
	answers := r.from(1, bundleControl(9, of13.BundleCommitRequest))
	if len(answers) != 2 {
		t.Fatalf("answers %v", answers)
	}
	first, second := answers[0].(*of13.Error), answers[1].(*of13.Error)
	if first.ErrType != of13.ErrTypeBadAction || second.ErrType != of13.ErrTypeExperimenter ||
		second.Code != of13.BundleMsgFailed {
		t.Fatalf("answers %v", answers)
	}
	if after := r.flows(); !reflect.DeepEqual(before, after) {
		t.Fatalf("entries before %+v, after %+v", before, after)
	}
	if got := r.frames(); len(got) != 0 {
		t.Fatalf("sent %v", got)
	}
	r.ok(add(0, 9, nil, toGroup(1)))
	r.goes(1, ping(1), 2)
	r.advance(200 * time.Second)
	if n := len(r.take(1)); n != 5 {
		t.Fatalf("%d entries timed out, want 5", n)
	}
}

func TestBundleErrors(t *testing.T) {
	r := newRig(t)
	fails := func(m of13.Message, code uint16) {
		t.Helper()
		r.fails(m, of13.ErrTypeExperimenter, code)
	}
	fails(bundleControl(1, of13.BundleCommitRequest), of13.BundleBadID)
	fails(bundleControl(1, of13.BundleDiscardRequest), of13.BundleBadID)
	fails(bundleControl(1, of13.BundleCloseRequest), of13.BundleBadID)
	fails(bundleControl(1, 12), of13.BundleBadType)
	r.bundle(1, of13.BundleOpenRequest)
	fails(r.inBundle(1, &of13.BarrierRequest{}), of13.BundleMsgUnsup)
	fails(r.inBundle(1, &of13.MeterMod{}), of13.BundleMsgUnsup)
	wrong := &of13.Experimenter{ID: of13.OnfID, ExpType: of13.OnfBundleAdd}
	wrong.Data = r.inBundle(1, add(0, 0, nil, nil)).Append(nil, r.xid)[16:] // the inner message has another xid
	fails(wrong, of13.BundleMsgBadXID)
	r.bundle(1, of13.BundleCloseRequest)
	fails(r.inBundle(1, add(0, 0, nil, nil)), of13.BundleClosed)
	r.bundle(1, of13.BundleDiscardRequest)
	r.bundle(2, of13.BundleOpenRequest)
	fails(bundleControl(2, of13.BundleOpenRequest), of13.BundleExists)
	r.bundle(2, of13.BundleOpenRequest)
	r.advance(bundleIdle)
	fails(bundleControl(2, of13.BundleCommitRequest), of13.BundleBadID)
}

// A switch may take few types in bundles.
func TestBundleOfFewTypes(t *testing.T) {
	r := newRig(t, func(c *Config) { c.FewBundled = true })
	r.bundle(1, of13.BundleOpenRequest)
	r.ok(r.inBundle(1, add(0, 0, nil, nil)))
	for _, m := range []of13.Message{&of13.PacketOut{BufferID: of13.NoBuffer, InPort: 1}, &of13.GroupMod{GroupID: 1}} {
		r.fails(r.inBundle(1, m), of13.ErrTypeExperimenter, of13.BundleMsgUnsup)
	}
	r.bundle(1, of13.BundleCommitRequest)
}

// A message that cannot be decoded is refused at once, and the bundle continues without it, as with Open vSwitch.
func TestBundleRefusesWhatCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.bundle(1, of13.BundleOpenRequest)
	long := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController,
		Actions: of13.Actions(nil).Output(2, 0), Data: ping(1)}
	bad := long.Append(nil, r.xid+1)
	bad[16], bad[17] = 0xff, 0xff // length of the actions
	add := of13.BundleAdd{ID: 1, Flags: of13.BundleAtomic | of13.BundleOrdered, Message: bad}
	r.fails(&add, of13.ErrTypeBadRequest, of13.BadRequestBadLen)
	r.ok(r.inBundle(1, &long))
	r.bundle(1, of13.BundleCommitRequest)
	if got := r.frames(); len(got) != 1 {
		t.Errorf("%d frames are sent, want that of the other message", len(got))
	}
}

// A controller that has become slave cannot use bundles, including those that it has filled before.
func TestBundleOfSlave(t *testing.T) {
	r := newRig(t)
	r.bundle(1, of13.BundleOpenRequest)
	r.ok(r.inBundle(1, add(0, 1, nil, out(2))))
	r.role(1, of13.RoleSlave, 1)
	for _, m := range []of13.Message{bundleControl(1, of13.BundleCommitRequest),
		bundleControl(2, of13.BundleOpenRequest), r.inBundle(1, add(0, 2, nil, out(2)))} {
		r.fails(m, of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
	}
	r.wantFlows(0)
}
