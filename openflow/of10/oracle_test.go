package of10

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The oracles are independent implementations of OpenFlow 1.0. os-ken builds messages to which those of FromV13
// must be equal, byte for byte, and parses the input of the tests of ToV13. ovs-ofctl prints both, and finds the
// same meaning in a flow-mod and its translation.

// absent skips the test, or fails it where the oracles are required.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
		t.Fatalf("HOLDFAST_REQUIRE_ORACLES is 1, but "+format, args...)
	}
	t.Skipf(format, args...)
}

func ofpPrint(t *testing.T, msg []byte) string {
	t.Helper()
	out, err := exec.Command("ovs-ofctl", "ofp-print", hex.EncodeToString(msg), "2").CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-ofctl ofp-print: %v: %s", err, out)
	}
	return string(out)
}

func TestOracleOVS(t *testing.T) {
	if _, err := exec.LookPath("ovs-ofctl"); err != nil {
		absent(t, "ovs-ofctl is not here: install openvswitch-common")
	}
	compared := 0
	check := func(name string, msg []byte, parts []string) {
		t.Helper()
		if len(parts) == 0 {
			return // Open vSwitch does not support it
		}
		compared++
		out := ofpPrint(t, msg)
		for _, want := range append(parts, "(xid=0x7)") {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in what ovs-ofctl reads:\n%s", name, want, out)
			}
		}
		if strings.Contains(out, "***") || strings.Contains(out, "decode error") {
			t.Errorf("%s: ovs-ofctl cannot read it:\n%s", name, out)
		}
	}
	for _, c := range toV13Cases() {
		check(c.name, c.msg, c.ovs)
	}
	for _, c := range fromV13Cases() {
		check(c.name, c.want, c.ovs)
	}
	if compared < 35 {
		t.Errorf("ovs-ofctl knows %d messages only", compared)
	}
}

// A flow-mod and its translation mean the same to ovs-ofctl, in both directions.
func TestOracleTranslation(t *testing.T) {
	if _, err := exec.LookPath("ovs-ofctl"); err != nil {
		absent(t, "ovs-ofctl is not here: install openvswitch-common")
	}
	meaning := func(msg []byte) string {
		// Each version prints "no tag" with its own mask.
		out := strings.ReplaceAll(ofpPrint(t, msg), "vlan_tci=0x0000/0x1fff", "vlan_tci=0x0000")
		_, flow, ok := strings.Cut(out, "priority=9")
		if !ok {
			t.Fatalf("no flow in what ovs-ofctl reads: %s", out)
		}
		return flow
	}
	ip := of13.Match(nil).WithEthType(0x0800)
	for _, m := range []of13.Match{
		nil,
		of13.Match(nil).WithInPort(5).WithEthSrc(macA).WithEthDst(macB),
		of13.Match(nil).WithInPort(of13.PortLocal).WithNoVLAN(),
		of13.Match(nil).WithVLAN(77).WithUint(of13.FieldVLANPCP, 4),
		of13.Match(nil).WithUintMasked(of13.FieldVLANVID, 0x1000, 0x1000).WithUint(of13.FieldVLANPCP, 4),
		of13.Match(nil).WithEthType(0x88cc),
		ip.WithIPv4Src([4]byte{10, 1, 2, 0}, [4]byte{255, 255, 255, 0}).WithIPv4Dst([4]byte{192, 168, 0, 1},
			[4]byte{255, 255, 255, 255}),
		ip.WithUint(of13.FieldIPDSCP, 46).WithIPProto(6).WithUint(of13.FieldTCPSrc, 1).WithUint(of13.FieldTCPDst,
			65535),
		ip.WithIPProto(17).WithUint(of13.FieldUDPSrc, 53),
		ip.WithIPProto(1).WithUint(of13.FieldICMPv4Type, 3).WithUint(of13.FieldICMPv4Code, 1),
		of13.Match(nil).WithEthType(0x0806).WithUint(of13.FieldARPOp, 1).WithUintMasked(of13.FieldARPSPA, 0x0a000000,
			0xff000000).WithUint(of13.FieldARPTPA, 1),
	} {
		in := of13.FlowMod{Priority: 9, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
			Match:        m,
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(2, 0).Output(of13.PortController, 128))}
		msg := in.Append(nil, 7)
		out, err := FromV13(nil, msg)
		if err != nil {
			t.Errorf("%v: %v", m, err)
			continue
		}
		if want, got := meaning(msg), meaning(out); got != want {
			t.Errorf("1.3:%s1.0:%s", want, got)
		}
		in.Match = match(out[8 : 8+matchLen]).toV13(nil)
		if want, got := meaning(msg), meaning(in.Append(nil, 7)); got != want {
			t.Errorf("1.3:%sand back:%s", want, got)
		}
	}
}

const osken = `
import json, struct, sys
from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_0 as o, ofproto_v1_0_parser as p
d = ofproto_protocol.ProtocolDesc(version=1)
def echo(cls):
    m = cls(d)
    m.data = b'packet'
    return m
class vendor(p.OFPAction):
    def __init__(self, number, data):
        self.number, self.data, self.len = number, data, 8 + len(data)
    def serialize(self, buf, offset):
        buf[offset:] = struct.pack('!HHI', 0xffff, self.len, self.number) + self.data
for line in sys.stdin:
    case = json.loads(line)
    raw, says = bytes.fromhex(case['msg']), 'ok'
    try:
        if case['build']:
            m = eval(case['build'])
            m.xid = 7
            m.serialize()
            if bytes(m.buf) != raw:
                says = 'built ' + m.buf.hex()
        else:
            m = ofproto_parser.msg(d, *ofproto_parser.header(raw), raw)
            if not eval(case['check']):
                says = 'parsed ' + str(m)
    except Exception as e:
        says = repr(e)
    print(says)
`

func TestOracleOsKen(t *testing.T) {
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" {
		absent(t, "HOLDFAST_PYTHON does not name a python that has os_ken")
	}
	var in bytes.Buffer
	var names []string
	enc := json.NewEncoder(&in)
	ask := func(name string, msg []byte, build, check string) {
		names = append(names, name)
		if err := enc.Encode(map[string]string{"msg": hex.EncodeToString(msg), "build": build,
			"check": check}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range toV13Cases() {
		ask(c.name, c.msg, "", c.check)
	}
	for _, c := range fromV13Cases() {
		if c.py != "" {
			ask(c.name, c.want, c.py, "") // built by FromV13, see TestFromV13
		}
	}
	cmd := exec.Command(python, "-c", osken)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in.Bytes()), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", python, err, stderr.String())
	}
	asked, answers := strings.Split(strings.TrimSpace(in.String()), "\n"),
		strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(answers) != len(names) {
		t.Fatalf("%d answers for %d messages: %s", len(answers), len(names), out)
	}
	for i, name := range names {
		if answers[i] != "ok" {
			t.Errorf("%s: %s: os-ken: %s", name, asked[i], answers[i])
		}
	}
}
