package of13

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// unhex decodes hexadecimal digits, and ignores blanks.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// TestMalformed: each fault is reported with its offset and kind, and answered by the right error.
func TestMalformed(t *testing.T) {
	const (
		flowMod = "040e%s00000007 0000000000000000 0000000000000000 00 00 0000 0000 0000 ffffffff ffffffff " +
			"ffffffff 0000 0000"
		noMatch = "0001000400000000"
	)
	flow := func(rest string) string {
		b := unhex(strings.Replace(flowMod, "%s", "0000", 1) + rest)
		openflow.SetLength(b)
		return hex.EncodeToString(b)
	}
	for _, c := range []struct {
		name    string
		wire    string
		message string
		offset  int
		kind    openflow.Kind
		answer  string
	}{
		{"no header", "040e00", "FLOW_MOD", 3, openflow.Truncated, "BAD_REQUEST/BAD_LEN"},
		{"nothing", "", "message", 0, openflow.Truncated, "BAD_REQUEST/BAD_LEN"},
		{"another version", "0105000800000001", "FEATURES_REQUEST", 0, openflow.Unknown, "BAD_REQUEST/BAD_VERSION"},
		{"error of another version", "0601000c00000001 00010000", "ERROR", 0, openflow.Unknown,
			"BAD_REQUEST/BAD_VERSION"},
		{"no such type", "04ff000800000001", "unknown(255)", 1, openflow.Unknown, "BAD_REQUEST/BAD_TYPE"},
		{"length too large", "0414000900000001", "BARRIER_REQUEST", 2, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"length too small", "0414000800000001 00", "BARRIER_REQUEST", 2, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"barrier with a body", "0414000900000001 00", "BARRIER_REQUEST", 8, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"short role", "0418000c00000001 00000002", "ROLE_REQUEST", 12, openflow.Truncated, "BAD_REQUEST/BAD_LEN"},
		{"hello element beyond the end", "0400001000000001 0001000900000012", "HELLO", 10, openflow.BadLength,
			"BAD_REQUEST/BAD_LEN"},

		{"flow-mod without a match", flow(""), "FLOW_MOD", 48, openflow.Truncated, "BAD_REQUEST/BAD_LEN"},
		{"old match", flow("0000000400000000"), "FLOW_MOD", 48, openflow.Unknown, "BAD_MATCH/BAD_TYPE"},
		{"match beyond the end", flow("0001000900000000"), "FLOW_MOD", 50, openflow.BadLength, "BAD_MATCH/BAD_LEN"},
		{"match of 3 bytes", flow("0001000300000000"), "FLOW_MOD", 50, openflow.BadLength, "BAD_MATCH/BAD_LEN"},
		{"field header cut", flow("0001000680000000"), "FLOW_MOD", 54, openflow.Truncated, "BAD_MATCH/BAD_LEN"},
		{"in_port of 3 bytes", flow("0001000b80000003 0000010000000000"), "FLOW_MOD", 55, openflow.BadLength,
			"BAD_MATCH/BAD_LEN"},
		{"field beyond the match", flow("0001000a80000004 0000000000000000"), "FLOW_MOD", 55, openflow.BadLength,
			"BAD_MATCH/BAD_LEN"},
		{"odd value and mask", flow("0001000b00010103 0000010000000000"), "FLOW_MOD", 55, openflow.BadLength,
			"BAD_MATCH/BAD_LEN"},
		{"experimenter field without id", flow("0001000affff0002 0000000000000000"), "FLOW_MOD", 55, openflow.BadLength,
			"BAD_MATCH/BAD_LEN"},

		{"no such instruction", flow(noMatch + "0063000800000000"), "FLOW_MOD", 56, openflow.Unknown,
			"BAD_INSTRUCTION/UNKNOWN_INST"},
		{"instruction of length 0", flow(noMatch + "0001000000000000"), "FLOW_MOD", 58, openflow.BadLength,
			"BAD_INSTRUCTION/BAD_LEN"},
		{"instruction not of 8", flow(noMatch + "0001000900000000 00"), "FLOW_MOD", 58, openflow.BadLength,
			"BAD_INSTRUCTION/BAD_LEN"},
		{"instruction cut", flow(noMatch + "00010008"), "FLOW_MOD", 60, openflow.Truncated, "BAD_INSTRUCTION/BAD_LEN"},
		{"long goto", flow(noMatch + "0001001000000000 0000000000000000"), "FLOW_MOD", 58, openflow.BadLength,
			"BAD_INSTRUCTION/BAD_LEN"},
		{"clear with actions", flow(noMatch + "0005001800000000 0000001000000001 0000000000000000"), "FLOW_MOD", 58,
			openflow.BadLength, "BAD_INSTRUCTION/BAD_LEN"},
		{"no such action", flow(noMatch + "0004001000000000 0063000800000000"), "FLOW_MOD", 64, openflow.Unknown,
			"BAD_ACTION/BAD_TYPE"},
		{"second instruction's action", flow(noMatch + "0001000801000000 0004001000000000 0000000800000000"),
			"FLOW_MOD", 74, openflow.BadLength, "BAD_ACTION/BAD_LEN"},
		{"action beyond its instruction", flow(noMatch + "0004001000000000 0000001000000000 0000000000000000"),
			"FLOW_MOD", 66, openflow.BadLength, "BAD_ACTION/BAD_LEN"},
		{"set_field longer than its field", flow(noMatch +
			"0004002000000000 0019001880000004 0000000100000000 0000000000000000"), "FLOW_MOD", 66, openflow.BadLength,
			"BAD_ACTION/BAD_LEN"},
		{"set_field of a wrong size", flow(noMatch + "0004001800000000 0019001080000003 0000000100000000"), "FLOW_MOD",
			71, openflow.BadLength, "BAD_ACTION/BAD_LEN"},

		{"packet-in cut in its match", "040a002200000007 ffffffff 0000 00 00 0000000000000000 0001000c80000004 0000",
			"PACKET_IN", 26, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"packet-out with too many actions", "040d001800000007 ffffffff fffffffd 0010 000000000000", "PACKET_OUT", 16,
			openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"packet-out with an old action", "040d002000000007 ffffffff fffffffd 0008 000000000000 0001000800000000",
			"PACKET_OUT", 24, openflow.Unknown, "BAD_ACTION/BAD_TYPE"},
		{"bucket of 15 bytes", "040f002000000007 0000 00 00 00000001 000f000000000000 0000000000000000", "GROUP_MOD",
			16, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
		{"bucket cut", "040f001800000007 0000 00 00 00000001 0010000000000000", "GROUP_MOD", 24, openflow.Truncated,
			"BAD_REQUEST/BAD_LEN"},
		{"bucket with a bad action", "040f002800000007 0000 00 00 00000001 0018000000000000 0000000000000000 " +
			"0000000800000000", "GROUP_MOD", 34, openflow.BadLength, "BAD_ACTION/BAD_LEN"},
		{"no such band", "041d002000000007 0000 0001 00000001 0009001000000000 0000000000000000", "METER_MOD", 16,
			openflow.Unknown, "METER_MOD_FAILED/BAD_BAND"},
		{"no such part", "0412001000000007 0063 0000 00000000", "MULTIPART_REQUEST", 8, openflow.Unknown,
			"BAD_REQUEST/BAD_MULTIPART"},
		{"request with a body", "0412001100000007 0000 0000 00000000 00", "MULTIPART_REQUEST", 16, openflow.BadLength,
			"BAD_REQUEST/BAD_LEN"},
		{"table property of 3 bytes", "0412005800000007 000c 0000 00000000 0048" + strings.Repeat("00", 62) +
			"0000000300000000", "MULTIPART_REQUEST", 82, openflow.BadLength, "TABLE_FEATURES_FAILED/BAD_LEN"},
		{"no such table property", "0412005800000007 000c 0000 00000000 0048" + strings.Repeat("00", 62) +
			"0063000400000000", "MULTIPART_REQUEST", 80, openflow.Unknown, "TABLE_FEATURES_FAILED/BAD_TYPE"},
		{"desc cut", "0413001100000007 0000 0000 00000000 00", "MULTIPART_REPLY", 17, openflow.Truncated,
			"BAD_REQUEST/BAD_LEN"},
		{"flow statistics of length 0", "0413004800000007 0001 0000 00000000" + strings.Repeat("00", 56),
			"MULTIPART_REPLY", 16, openflow.BadLength, "BAD_REQUEST/BAD_LEN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := unhex(c.wire)
			m, err := Decode(wire)
			var e *openflow.Error
			if !errors.As(err, &e) {
				t.Fatalf("decoded to %v, error %v", m, err)
			}
			if e.Message != c.message || e.Offset != c.offset || e.Kind != c.kind {
				t.Errorf("got %s at %d: %s; want %s at %d: %s", e.Message, e.Offset, e.Kind, c.message, c.offset,
					c.kind)
			}
			if r := Refusal(e, wire); r.String() != c.answer {
				t.Errorf("answered by %v, want %s", &r, c.answer)
			}
		})
	}
}

// TestWrongType: a decoder refuses the messages of every other type.
func TestWrongType(t *testing.T) {
	for name, m := range samples() {
		wire := m.Append(nil, 1)
		for typ, other := range newMessage {
			err := other().Decode(wire)
			if ok := uint8(typ) == m.Type(); ok != (err == nil) {
				t.Errorf("%s read as %s: %v", name, TypeName(uint8(typ)), err)
			}
		}
	}
}

func TestHelloFailedOfAnyVersion(t *testing.T) {
	var m Error
	if err := m.Decode(unhex("0101000e00000001 00000000 6e6f")); err != nil ||
		m.String() != "HELLO_FAILED/INCOMPATIBLE" || string(m.Data) != "no" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestTooLong(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "PACKET_OUT of 70024 bytes") {
			t.Errorf("panic %q", s)
		}
	}()
	(&PacketOut{Data: make([]byte, 70000)}).Append(nil, 1)
}

func TestNames(t *testing.T) {
	for _, c := range [][2]string{
		{TypeName(TypePacketIn), "PACKET_IN"},
		{TypeName(TypeMeterMod), "METER_MOD"},
		{TypeName(30), "unknown(30)"},
		{ErrorName(ErrTypeRoleRequestFailed, RoleRequestFailedStale), "ROLE_REQUEST_FAILED/STALE"},
		{ErrorName(ErrTypeBadRequest, BadRequestMultipartBufferOverflow), "BAD_REQUEST/MULTIPART_BUFFER_OVERFLOW"},
		{ErrorName(ErrTypeBadAction, BadActionBadSetArgument), "BAD_ACTION/BAD_SET_ARGUMENT"},
		{ErrorName(ErrTypeBadInstruction, BadInstructionEPerm), "BAD_INSTRUCTION/EPERM"},
		{ErrorName(ErrTypeBadMatch, BadMatchEPerm), "BAD_MATCH/EPERM"},
		{ErrorName(ErrTypeFlowModFailed, FlowModFailedBadFlags), "FLOW_MOD_FAILED/BAD_FLAGS"},
		{ErrorName(ErrTypeGroupModFailed, GroupModFailedEPerm), "GROUP_MOD_FAILED/EPERM"},
		{ErrorName(ErrTypePortModFailed, PortModFailedEPerm), "PORT_MOD_FAILED/EPERM"},
		{ErrorName(ErrTypeTableModFailed, TableModFailedEPerm), "TABLE_MOD_FAILED/EPERM"},
		{ErrorName(ErrTypeQueueOpFailed, QueueOpFailedEPerm), "QUEUE_OP_FAILED/EPERM"},
		{ErrorName(ErrTypeSwitchConfigFailed, SwitchConfigFailedEPerm), "SWITCH_CONFIG_FAILED/EPERM"},
		{ErrorName(ErrTypeMeterModFailed, MeterModFailedOutOfBands), "METER_MOD_FAILED/OUT_OF_BANDS"},
		{ErrorName(ErrTypeTableFeaturesFailed, TableFeaturesFailedEPerm), "TABLE_FEATURES_FAILED/EPERM"},
		{ErrorName(ErrTypeHelloFailed, 9), "HELLO_FAILED/unknown(9)"},
		{ErrorName(77, 1), "unknown(77)/1"},
		{ErrorName(ErrTypeExperimenter, 5), "EXPERIMENTER/5"},
		{PartGroupFeatures.String(), "GROUP_FEATURES"},
		{Part(99).String(), "unknown(99)"},
		{PortController.String(), "CONTROLLER"},
		{Port(17).String(), "17"},
		{RoleSlave.String(), "slave"},
		{(&Error{ErrType: ErrTypeBadMatch, Code: BadMatchDupField}).Error(), "openflow: refused: BAD_MATCH/DUP_FIELD"},
		{Action{Type: ActionGroup, Group: 3}.String(), "group:3"},
		{ActionExperimenter.String(), "experimenter"},
		{InstructionExperimenter.String(), "experimenter"},
		{Field(99).String(), "field99"},
		{ActionType(99).String(), "action99"},
		{InstructionType(99).String(), "unknown(99)"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s, want %s", c[0], c[1])
		}
	}
}
