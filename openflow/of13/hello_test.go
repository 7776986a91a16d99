package of13

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

func TestNegotiate(t *testing.T) {
	const v10, v13, v14, v15 = openflow.Version10, openflow.Version13, openflow.Version14, openflow.Version15
	for _, c := range []struct {
		name   string
		theirs Hello
		own    Versions
		want   uint8
		ok     bool
	}{
		{"same", NewHello(VersionsOf(v13)), VersionsOf(v13), v13, true},
		{"highest common", NewHello(VersionsOf(v10, v13, v15)), VersionsOf(v10, v13, v14), v13, true},
		{"none in common", NewHello(VersionsOf(v10, v15)), VersionsOf(v13), 0, false},
		{"older without bitmap", Hello{Version: v10}, VersionsOf(v10, v13), v10, true},
		{"older, which we do not speak", Hello{Version: v10}, VersionsOf(v13), v10, false},
		{"newer without bitmap", Hello{Version: v15}, VersionsOf(v10, v13), v13, true},
		{"gap", Hello{Version: 2}, VersionsOf(v10, v13), 2, false},
		{"we speak nothing", Hello{Version: v13}, 0, 0, false},
		{"absurd version", Hello{Version: 0xff}, VersionsOf(v13), v13, true},
	} {
		v, ok := c.theirs.Negotiate(c.own)
		if ok != c.ok || ok && v != c.want {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, v, ok, c.want, c.ok)
		}
	}
}

// TestHelloElements: unknown elements and further bitmaps are skipped, and the body of old versions is not read.
func TestHelloElements(t *testing.T) {
	for _, c := range []struct {
		name string
		wire string
		want Hello
	}{
		{"unknown first", "0500001800000001 0009000500000000 0001000800000012 ", Hello{5, 0x12}},
		{"two words", "0500001800000001 0001000c00000012 0000000100000000", Hello{5, 0x12}},
		{"padding left out", "0500000d00000001 0009000500", Hello{5, 0}},
		{"old version with a body", "0100000b00000001 ffffff", Hello{1, 0}},
	} {
		var m Hello
		if err := m.Decode(unhex(c.wire)); err != nil || m != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, m, err, c.want)
		}
	}
}
