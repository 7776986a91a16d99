package of13

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// captured returns the messages of testdata/ovs-3.1.0.txt.
func captured(t testing.TB) [][]byte {
	t.Helper()
	file, err := os.ReadFile("testdata/ovs-3.1.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	var messages [][]byte
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			messages = append(messages, unhex(line))
		}
	}
	return messages
}

// TestCaptured: messages of a real switch decode, and are encoded to the same bytes.
func TestCaptured(t *testing.T) {
	types := map[string]int{}
	for _, wire := range captured(t) {
		m, err := Decode(wire)
		if err != nil {
			t.Errorf("%x: %v", wire, err)
			continue
		}
		checkAny(t, wire)
		if again := m.Append(nil, openflow.XID(wire)); !bytes.Equal(again, wire) {
			t.Errorf("%s: encoded again:\n%x\nnot\n%x", TypeName(m.Type()), again, wire)
		}
		types[describe(m)]++
	}
	for what, n := range map[string]int{
		"HELLO 4 0x12": 1,
		"FEATURES_REPLY 0000000000000042 tables=254":                      1,
		"ROLE_REPLY master 5":                                             1,
		"ERROR ROLE_REQUEST_FAILED/STALE":                                 1,
		"ERROR BAD_MATCH/BAD_FIELD":                                       3,
		"ERROR BAD_MATCH/BAD_PREREQ":                                      1,
		"ERROR PORT_MOD_FAILED/BAD_HW_ADDR":                               1,
		"PACKET_IN in_port=1 reason=action table=0 cookie=0x0 data=62/62": 1,
		"FLOW_REMOVED delete table=1 priority=2 cookie=0x7 " +
			"match=in_port=3,eth_dst=02:00:00:00:00:0a,eth_type=0x800,vlan_vid=0x1005," +
			"ipv4_src=10.1.0.0/255.255.0.0,ipv4_dst=10.0.0.1,ip_proto=6,tcp_dst=80 duration=0.007000000s packets=0 " +
			"bytes=0": 1,
		"DESC Nicira, Inc. Open vSwitch 3.1.0": 1,
		"TABLE 254":                            1,
		"PORT_DESC 1:p2 LOCAL:br0 2:p1":        1,
		"PORT_STATS 1 LOCAL 2":                 1,
		"GROUP 5 6":                            1,
		"GROUP_DESC 5:output:1 5:set_field:eth_src=02:00:00:00:00:0b,output:2 6:output:1 6:output:2": 1,
		"METER_CONFIG 1:1000/100": 1,
		"METER 1":                 1,
		"AGGREGATE 11":            1,
		"TABLE_FEATURES 0 max=1000000 properties=14 goto_table write_metadata write_actions apply_actions " +
			"clear_actions meter fields=178": 1,
		"FLOW 11": 1,
	} {
		if types[what] != n {
			t.Errorf("%d times %q, want %d", types[what], what, n)
		}
	}
	if t.Failed() {
		t.Logf("%v", types)
	}
}

// describe describes a captured message in one line.
func describe(m Message) string {
	switch m := m.(type) {
	case *Hello:
		return fmt.Sprintf("HELLO %d %#x", m.Version, uint32(m.Versions))
	case *FeaturesReply:
		return fmt.Sprintf("FEATURES_REPLY %v tables=%d", m.DatapathID, m.NTables)
	case *RoleReply:
		return fmt.Sprintf("ROLE_REPLY %v %d", m.Role, m.GenerationID)
	case *Error:
		return "ERROR " + m.String()
	case *MultipartReply:
		return m.Part.String() + describeBody(m)
	case fmt.Stringer:
		return m.String()
	}
	return TypeName(m.Type())
}

func describeBody(m *MultipartReply) string {
	var b []byte
	if d, ok := m.Desc(); ok {
		b = fmt.Appendf(b, " %s %s %s", d.Manufacturer, d.Hardware, d.Software)
	}
	if a, ok := m.Aggregate(); ok {
		b = fmt.Appendf(b, " %d", a.FlowCount)
	}
	if n := m.Tables().Len() + m.Flows().Len(); n > 0 {
		b = fmt.Appendf(b, " %d", n)
	}
	for p := range m.PortDescs().All() {
		b = fmt.Appendf(b, " %v:%s", p.Port, p.Name)
	}
	for s := range m.PortStats().All() {
		b = fmt.Appendf(b, " %v", s.Port)
	}
	for g := range m.Groups().All() {
		b = fmt.Appendf(b, " %d", g.GroupID)
	}
	for g := range m.GroupDescs().All() {
		for k := range g.Buckets.All() {
			b = fmt.Appendf(b, " %d:%v", g.GroupID, k.Actions)
		}
	}
	for c := range m.MeterConfigs().All() {
		for k := range c.Bands.All() {
			b = fmt.Appendf(b, " %d:%d/%d", c.MeterID, k.Rate, k.Burst)
		}
	}
	for s := range m.Meters().All() {
		b = fmt.Appendf(b, " %d", s.MeterID)
	}
	for f := range m.TableFeatures().All() {
		b = fmt.Appendf(b, " %d max=%d properties=%d", f.TableID, f.MaxEntries, f.Properties.Len())
		for p := range f.Properties.All() {
			switch p.Property {
			case TableInstructions:
				for i := range p.Types() {
					b = fmt.Appendf(b, " %v", InstructionType(i))
				}
			case TableMatch:
				b = fmt.Appendf(b, " fields=%d", len(slices.Collect(p.Fields())))
			}
		}
	}
	return string(b)
}
