package reconcile

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func masked(f of13.Field, value, mask []byte) of13.OXM {
	return of13.OXM{Class: of13.ClassBasic, Field: f, HasMask: true, Value: value, Mask: mask}
}

func TestMatches(t *testing.T) {
	ones := []byte{255, 255, 255, 255, 255, 255, 255, 255}
	metadata := []byte{0, 0, 0, 0, 0, 0, 0, 5}
	for _, tc := range []struct {
		name string
		a, b of13.Match
		same bool
	}{
		{"order", any13.WithInPort(1).WithVLAN(5).WithMetadata(7, 15),
			any13.WithMetadata(7, 15).WithVLAN(5).WithInPort(1), true},
		{"mask of ones", any13.WithMetadata(5, ^uint64(0)), any13.WithOXM(masked(of13.FieldMetadata, metadata, ones)),
			true},
		{"mask of zeros", nil, any13.WithOXM(masked(of13.FieldMetadata, metadata, make([]byte, 8))), true},
		{"bits outside of the mask", any13.WithMetadata(4, 4),
			any13.WithOXM(masked(of13.FieldMetadata, metadata, []byte{0, 0, 0, 0, 0, 0, 0, 4})), true},
		{"all bits of a VLAN id", any13.WithVLAN(5), any13.WithOXM(masked(of13.FieldVLANVID, []byte{0x10, 5},
			[]byte{0x1f, 0xff})), true},
		{"all bits of a flow label", any13.WithUint(of13.FieldIPv6FLabel, 5),
			any13.WithOXM(masked(of13.FieldIPv6FLabel, []byte{0, 0, 0, 5}, []byte{0, 15, 255, 255})), true},
		{"all bits of extension headers", any13.WithUint(of13.FieldIPv6ExtHdr, 5),
			any13.WithOXM(masked(of13.FieldIPv6ExtHdr, []byte{0, 5}, []byte{1, 255})), true},
		{"value", any13.WithInPort(1), any13.WithInPort(2), false},
		{"field", any13.WithEthSrc(of13.MAC{1}), any13.WithEthDst(of13.MAC{1}), false},
		{"one more field", any13.WithInPort(1), any13.WithInPort(1).WithVLAN(5), false},
		{"mask", any13.WithMetadata(4, 4), any13.WithMetadata(4, 5), false},
		{"zero and any", any13.WithMetadata(0, ^uint64(0)), nil, false},
		{"no tag and any tag", any13.WithNoVLAN(), any13.WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000), false},
		{"class", any13.WithInPort(1), any13.WithOXM(of13.OXM{Class: of13.ClassNXM1, Value: []byte{0, 0, 0, 1}}),
			false},
		{"experimenter", any13.WithOXM(of13.OXM{Class: of13.ClassExperimenter, Experimenter: 1, Value: []byte{1}}),
			any13.WithOXM(of13.OXM{Class: of13.ClassExperimenter, Experimenter: 2, Value: []byte{1}}), false},
	} {
		var c canon
		a, b := string(c.identity(nil, 1, 2, tc.a)), string(c.identity(nil, 1, 2, tc.b))
		if (a == b) != tc.same {
			t.Errorf("%s: %v and %v are equal: %v, want %v", tc.name, tc.a, tc.b, a == b, tc.same)
		}
		if a, b := Canonical(nil, tc.a), Canonical(nil, tc.b); bytes.Equal(a, b) != tc.same ||
			string(c.identity(nil, 1, 2, a)) != string(c.identity(nil, 1, 2, tc.a)) {
			t.Errorf("%s: %v is %v in canonical form, and %v is %v", tc.name, tc.a, a, tc.b, b)
		}
	}
	var c canon
	if a, b := string(c.identity(nil, 1, 2, nil)), string(c.identity(nil, 2, 2, nil)); a == b {
		t.Error("tables do not count")
	}
	if a, b := string(c.identity(nil, 1, 2, nil)), string(c.identity(nil, 1, 3, nil)); a == b {
		t.Error("priorities do not count")
	}
}

func TestInstructions(t *testing.T) {
	var none of13.Instructions
	var actions of13.Actions
	dirty := apply(actions.PushVLAN(0x8100))
	dirty[len(dirty)-1] = 9 // padding
	for _, tc := range []struct {
		name string
		a, b of13.Instructions
		same bool
	}{
		{"order", none.Goto(2).WriteMetadata(1, 1).Apply(output(3)), none.Apply(output(3)).WriteMetadata(1, 1).Goto(2),
			true},
		{"length for a port", apply(actions.Output(3, 0)), apply(actions.Output(3, 128)), true},
		{"nothing to apply", drop, none.Apply(nil).Write(nil), true},
		{"metadata outside of the mask", none.WriteMetadata(4, 4), none.WriteMetadata(5, 4), true},
		{"metadata without a mask", drop, none.WriteMetadata(5, 0), true},
		{"padding", apply(actions.PushVLAN(0x8100)), dirty, true},
		{"set with a mask of ones", apply(actions.SetUint(of13.FieldVLANVID, 0x1005)),
			apply(actions.SetField(masked(of13.FieldVLANVID, []byte{0x10, 5}, []byte{255, 255}))), true},
		{"length for a controller", apply(actions.Output(of13.PortController, 64)),
			apply(actions.Output(of13.PortController, 128)), false},
		{"order of actions", apply(actions.PopVLAN().Output(1, 0)), apply(actions.Output(1, 0).PopVLAN()), false},
		{"port", apply(output(1)), apply(output(2)), false},
		{"group and port", apply(output(1)), toGroup(1), false},
		{"group", toGroup(1), toGroup(2), false},
		{"applied and written", apply(output(1)), none.Write(output(1)), false},
		{"table", none.Goto(1), none.Goto(2), false},
		{"mask of metadata", none.WriteMetadata(1, 1), none.WriteMetadata(1, 3), false},
		{"meter", none.Meter(1), none.Meter(2), false},
		{"set to something else", apply(actions.SetUint(of13.FieldVLANVID, 0x1005)),
			apply(actions.SetUint(of13.FieldVLANVID, 0x1006)), false},
		{"experimenter's action", apply(actions.Experimenter(1, []byte{1})), apply(actions.Experimenter(1, []byte{2})),
			false},
		{"experimenter's instruction", none.Experimenter(1, []byte{1}), none.Experimenter(1, []byte{2}), false},
		{"what action ends where", none.Apply(output(1)).Write(output(2)), none.Apply(output(1).Output(2, 0)), false},
	} {
		var c canon
		a, b := string(c.flow(nil, 1, 0, 0, 0, tc.a)), string(c.flow(nil, 1, 0, 0, 0, tc.b))
		if (a == b) != tc.same {
			t.Errorf("%s: %v and %v are equal: %v, want %v", tc.name, tc.a, tc.b, a == b, tc.same)
		}
	}
}

func TestFlags(t *testing.T) {
	var c canon
	a := string(c.flow(nil, 1, 0, 0, of13.FlowSendFlowRem|of13.FlowCheckOverlap|of13.FlowResetCounts, nil))
	if b := string(c.flow(nil, 1, 0, 0, of13.FlowSendFlowRem, nil)); a != b {
		t.Error("flags of a flow-mod count that no switch keeps")
	}
	if b := string(c.flow(nil, 1, 0, 0, 0, nil)); a == b {
		t.Error("a flag that a switch keeps does not count")
	}
}

func TestBuckets(t *testing.T) {
	bucket := func(weight uint16, watch of13.Port, a of13.Actions) of13.Buckets {
		return of13.Buckets(nil).With(of13.Bucket{Weight: weight, WatchPort: watch, WatchGroup: of13.GroupAny,
			Actions: a})
	}
	ff, sel := of13.GroupTypeFastFailover, of13.GroupTypeSelect
	for _, tc := range []struct {
		name  string
		kinds [2]uint8
		a, b  of13.Buckets
		same  bool
	}{
		{"equal", [2]uint8{ff, ff}, bucket(0, 1, output(1)), bucket(0, 1, of13.Actions(nil).Output(1, 9)), true},
		{"weight where none counts", [2]uint8{ff, ff}, bucket(0, 1, output(1)), bucket(1, 1, output(1)), true},
		{"weight", [2]uint8{sel, sel}, bucket(0, 1, output(1)), bucket(1, 1, output(1)), false},
		{"type", [2]uint8{ff, sel}, bucket(0, 1, output(1)), bucket(0, 1, output(1)), false},
		{"watched port", [2]uint8{ff, ff}, bucket(0, 1, output(1)), bucket(0, 2, output(1)), false},
		{"action", [2]uint8{ff, ff}, bucket(0, 1, output(1)), bucket(0, 1, output(2)), false},
		{"one more", [2]uint8{ff, ff}, bucket(0, 1, output(1)), append(bucket(0, 1, output(1)), bucket(0, 1, nil)...),
			false},
		{"order", [2]uint8{ff, ff}, append(bucket(0, 1, nil), bucket(0, 2, nil)...),
			append(bucket(0, 2, nil), bucket(0, 1, nil)...), false},
	} {
		var c canon
		a, b := string(c.group(nil, tc.kinds[0], tc.a)), string(c.group(nil, tc.kinds[1], tc.b))
		if (a == b) != tc.same {
			t.Errorf("%s: equal: %v, want %v", tc.name, a == b, tc.same)
		}
	}
}
