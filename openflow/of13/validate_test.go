package of13

import (
	"errors"
	"testing"
)

// codeOf returns the names of the refusal that err is, "" for nil.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	return e.String()
}

func TestMatchValidate(t *testing.T) {
	ip := Match(nil).WithEthType(typeIPv4)
	with := func(m Match, f Field, v uint64) Match { return append(Match(nil), m...).WithUint(f, v) }
	masked := func(f Field, value, mask []byte) Match {
		return Match(nil).WithOXM(OXM{Class: ClassBasic, Field: f, HasMask: true, Value: value, Mask: mask})
	}
	for _, c := range []struct {
		name string
		m    Match
		want string
	}{
		{"empty", nil, ""},
		{"another class", Match(nil).WithOXM(OXM{Class: ClassNXM1, Field: 0, Value: []byte{1}}), "BAD_MATCH/BAD_FIELD"},
		{"later field", Match(nil).WithOXM(OXM{Class: ClassBasic, Field: 41, Value: []byte{1}}), "BAD_MATCH/BAD_FIELD"},
		{"twice", with(ip, FieldEthType, typeIPv4), "BAD_MATCH/DUP_FIELD"},
		{"in_port with a mask", masked(FieldInPort, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 1}), "BAD_MATCH/BAD_MASK"},
		{"bits outside the mask", masked(FieldEthDst, []byte{1, 1, 0, 0, 0, 0}, []byte{1, 0, 0, 0, 0, 0}),
			"BAD_MATCH/BAD_WILDCARDS"},
		{"pcp of 4 bits", Match(nil).WithVLAN(1).WithUint(FieldVLANPCP, 8), "BAD_MATCH/BAD_VALUE"},
		{"dscp of 7 bits", with(ip, FieldIPDSCP, 64), "BAD_MATCH/BAD_VALUE"},
		{"VLAN id without the bit", Match(nil).WithUint(FieldVLANVID, 5), "BAD_MATCH/BAD_VALUE"},
		{"VLAN id of 14 bits", Match(nil).WithUint(FieldVLANVID, 0x3000), "BAD_MATCH/BAD_VALUE"},
		{"no VLAN", Match(nil).WithNoVLAN(), ""},
		{"any VLAN", Match(nil).WithUintMasked(FieldVLANVID, 0x1000, 0x1000), ""},
		{"pcp of no VLAN", Match(nil).WithNoVLAN().WithUint(FieldVLANPCP, 1), "BAD_MATCH/BAD_PREREQ"},
		{"pcp of any VLAN", Match(nil).WithUintMasked(FieldVLANVID, 0x1000, 0x1000).WithUint(FieldVLANPCP, 1), ""},
		{"in_phy_port alone", Match(nil).WithUint(FieldInPhyPort, 1), "BAD_MATCH/BAD_PREREQ"},
		{"IPv4 without a type", Match(nil).WithUint(FieldIPv4Dst, 1), "BAD_MATCH/BAD_PREREQ"},
		{"IPv4 before its type", Match(nil).WithUint(FieldIPv4Dst, 1).WithEthType(typeIPv4), "BAD_MATCH/BAD_PREREQ"},
		{"IPv6 in IPv4", append(append(Match(nil), ip...), Match(nil).WithIPv6Src([16]byte{1}, [16]byte{255})...),
			"BAD_MATCH/BAD_PREREQ"},
		{"TCP without a protocol", with(ip, FieldTCPDst, 80), "BAD_MATCH/BAD_PREREQ"},
		{"TCP in UDP", with(with(ip, FieldIPProto, 17), FieldTCPDst, 80), "BAD_MATCH/BAD_PREREQ"},
		{"target of an echo", Match(nil).WithEthType(typeIPv6).WithIPProto(58).WithUint(FieldICMPv6Type,
			128).With(FieldIPv6NDTarget, make([]byte, 16), nil), "BAD_MATCH/BAD_PREREQ"},
		{"source address of an advertisement", Match(nil).WithEthType(typeIPv6).WithIPProto(58).WithUint(
			FieldICMPv6Type, 136).With(FieldIPv6NDSLL, macA[:], nil), "BAD_MATCH/BAD_PREREQ"},
	} {
		if got := codeOf(t, c.m.Validate()); got != c.want {
			t.Errorf("%s: %v: %q, want %q", c.name, c.m, got, c.want)
		}
	}
}

// TestEveryFieldNeedsItsPrerequisites: each field of the valid matches is refused alone, unless it has no
// prerequisites.
func TestEveryFieldNeedsItsPrerequisites(t *testing.T) {
	free := map[Field]bool{FieldInPort: true, FieldMetadata: true, FieldEthDst: true, FieldEthSrc: true,
		FieldEthType: true,
		FieldVLANVID: true, FieldTunnelID: true}
	seen := map[Field]bool{}
	all := matches()
	all["tcp"] = tcpMatch()
	for name, m := range all {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v: %v", name, m, err)
		}
		for o := range m.All() {
			seen[o.Field] = true
			want := "BAD_MATCH/BAD_PREREQ"
			if free[o.Field] {
				want = ""
			}
			if got := codeOf(t, Match(nil).WithOXM(o).Validate()); got != want {
				t.Errorf("%v alone: %q, want %q", o, got, want)
			}
		}
	}
	if len(seen) != int(numFields) {
		t.Errorf("%d of %d fields tried", len(seen), numFields)
	}
}

func TestActionsValidate(t *testing.T) {
	tcp := tcpMatch()
	mask := OXM{Class: ClassBasic, Field: FieldEthDst, HasMask: true, Value: macA[:], Mask: macA[:]}
	for _, c := range []struct {
		name string
		a    Actions
		m    Match
		want string
	}{
		{"empty", nil, nil, ""},
		{"all", everyAction(), nil, ""},
		{"port 0", Actions(nil).Output(0, 0), nil, "BAD_ACTION/BAD_OUT_PORT"},
		{"port above the highest", Actions(nil).Output(PortMax+1, 0), nil, "BAD_ACTION/BAD_OUT_PORT"},
		{"any port", Actions(nil).Output(PortAny, 0), nil, "BAD_ACTION/BAD_OUT_PORT"},
		{"in_port", Actions(nil).Output(PortInPort, 0), nil, ""},
		{"push of a wrong VLAN", Actions(nil).PushVLAN(0x0800), nil, "BAD_ACTION/BAD_ARGUMENT"},
		{"push of a wrong MPLS", Actions(nil).PushMPLS(0x0800), nil, "BAD_ACTION/BAD_ARGUMENT"},
		{"push of a wrong PBB", Actions(nil).PushPBB(0x0800), nil, "BAD_ACTION/BAD_ARGUMENT"},
		{"set in_port", Actions(nil).SetUint(FieldInPort, 1), nil, "BAD_ACTION/BAD_SET_TYPE"},
		{"set another class", Actions(nil).SetField(OXM{Class: ClassNXM1, Value: []byte{1}}), nil,
			"BAD_ACTION/BAD_SET_TYPE"},
		{"set with a mask", Actions(nil).SetField(mask), nil, "BAD_ACTION/BAD_SET_ARGUMENT"},
		{"set too large", Actions(nil).SetUint(FieldIPECN, 4), tcp, "BAD_ACTION/BAD_SET_ARGUMENT"},
		{"set TCP in TCP", Actions(nil).SetUint(FieldTCPSrc, 4), tcp, ""},
		{"set UDP in TCP", Actions(nil).SetUint(FieldUDPSrc, 4), tcp, "BAD_ACTION/MATCH_INCONSISTENT"},
		{"set IPv4 of anything", Actions(nil).SetUint(FieldIPv4Dst, 4), nil, "BAD_ACTION/MATCH_INCONSISTENT"},
		{"set priority without a tag", Actions(nil).SetUint(FieldVLANPCP, 1), nil, "BAD_ACTION/MATCH_INCONSISTENT"},
		{"set priority of a new tag", Actions(nil).PushVLAN(0x8100).SetUint(FieldVLANPCP, 1), nil, ""},
		{"set IPv4 below MPLS", Actions(nil).PopMPLS(0x0800).SetUint(FieldIPv4Dst, 1), Match(nil).WithEthType(typeMPLS),
			""},
	} {
		if got := codeOf(t, c.a.ValidateFor(c.m)); got != c.want {
			t.Errorf("%s: %v for %v: %q, want %q", c.name, c.a, c.m, got, c.want)
		}
	}
}

func TestMatchWith(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Match
		want string
	}{
		{"mask of ones", Match(nil).WithIPv4Dst([4]byte{1, 2, 3, 4}, exact4), "ipv4_dst=1.2.3.4"},
		{"mask of zeros", Match(nil).WithIPv4Dst([4]byte{1, 2, 3, 4}, [4]byte{}), "any"},
		{"bits outside", Match(nil).WithIPv4Dst([4]byte{1, 2, 3, 4}, [4]byte{255, 255}),
			"ipv4_dst=1.2.0.0/255.255.0.0"},
		{"number cut to its field", Match(nil).WithUint(FieldEthType, 0x12345), "eth_type=0x2345"},
	} {
		if got := c.m.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for name, f := range map[string]func(){
		"short value":      func() { Match(nil).With(FieldEthDst, []byte{1}, nil) },
		"short mask":       func() { Match(nil).With(FieldEthDst, macA[:], []byte{1}) },
		"a number of IPv6": func() { Match(nil).WithUint(FieldIPv6Src, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestMatchGet(t *testing.T) {
	m := Match(nil).WithOXM(OXM{Class: ClassNXM1, Field: FieldEthDst, Value: []byte{9}}).WithEthDst(macA)
	if o, ok := m.Get(FieldEthDst); !ok || MAC(o.Value) != macA {
		t.Errorf("got %v, %v: the field of another class", o, ok)
	}
	if _, ok := m.InPort(); ok {
		t.Error("an ingress port from nowhere")
	}
	o, _ := Match(nil).WithMetadata(0x12, 0xff).Get(FieldMetadata)
	if o.Uint64() != 0x12 || o.MaskUint64() != 0xff {
		t.Errorf("metadata %#x/%#x", o.Uint64(), o.MaskUint64())
	}
	o, _ = Match(nil).WithInPort(4).Get(FieldInPort)
	if o.MaskUint64() != ^uint64(0) {
		t.Errorf("mask %#x of an exact field", o.MaskUint64())
	}
}
