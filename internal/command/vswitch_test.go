package command

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestVswitchMistakes(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"datapath id", []string{"--dpid", "0"},
			`holdfast: datapath id "0": use a number from 1, such as 17 or 0x11, or 16 hexadecimal digits`},
		{"controller", []string{"--dpid", "1", "--controller", "here"},
			`holdfast: controller address "here": write it like 127.0.0.1:6653`},
		{"too many ports", []string{"--dpid", "1", "--ports", "1025"}, `holdfast: 1025 ports: use at most 1024`},
		{"negative ports", []string{"--dpid", "1", "--ports", "-1"}, `holdfast: --ports -1: use 1 to 1024`},
		{"no such device", []string{"--dpid", "1", "--device", "nonesuch"},
			`holdfast: open interface nonesuch: route ip+net: no such network interface`},
		{"BFD of no interval", []string{"--dpid", "1", "--ports", "1", "--bfd", "1ns", "--bfd-ports", "1"},
			`holdfast: vswitch: BFD at port 1: bfd: interval 1ns is not in 1µs to 1h11m34.967295s`},
		{"BFD at no port", []string{"--dpid", "1", "--ports", "1", "--bfd", "5ms", "--bfd-ports", "2"},
			`holdfast: vswitch: BFD at port 2: there is no such port`},
		{"BFD of nothing", []string{"--dpid", "1", "--ports", "1", "--bfd", "5ms"},
			`holdfast: --bfd has no links to watch: give it ports by --device`},
		{"BFD ports alone", []string{"--dpid", "1", "--ports", "1", "--bfd-ports", "1"},
			`holdfast: --bfd-ports without --bfd: say how often to send, such as --bfd 15ms`},
		{"empty device", []string{"--dpid", "1", "--device", "tap:"}, `holdfast: device "tap:" has no name`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"vswitch", "--controller", "127.0.0.1:1"}, tc.args...)
			code, _, stderr := invoke(t.Context(), args...)
			if code != 1 || stderr != tc.want+"\n" {
				t.Errorf("exit code %d, stderr\n got %swant %s", code, stderr, tc.want)
			}
		})
	}
}

func TestParseDatapathID(t *testing.T) {
	for text, want := range map[string]openflow.DatapathID{"17": 17, "0x11": 17, "0000000000000011": 17,
		"00000000000000a1": 0xa1} {
		if got, err := parseDatapathID(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "a1", "0000000000000000", "111111111111111111111"} {
		if got, err := parseDatapathID(text); err == nil {
			t.Errorf("%q passes as %v", text, got)
		}
	}
}

// The switch connects to a controller, identifies itself, and ends without an error when told to.
func TestVswitch(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		code, _, _ := invoke(ctx, "vswitch", "--dpid", "0x2a", "--ports", "2", "--controller", l.Addr().String(),
			"--log-level", "error")
		ended <- code
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello := (&of13.Hello{Version: openflow.Version13}).Append(nil, 1)
	if _, err := conn.Write((&of13.FeaturesRequest{}).Append(hello, 2)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := readFeatures(t, ofconn.NewReader(conn)); got.DatapathID != 42 {
		t.Errorf("datapath id %v", got.DatapathID)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// readFeatures reads until FEATURES_REPLY.
func readFeatures(t *testing.T, r *ofconn.Reader) of13.FeaturesReply {
	t.Helper()
	for {
		batch, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		for len(batch) > 0 {
			h, err := openflow.ParseHeader(batch)
			if err != nil {
				t.Fatal(err)
			}
			msg := batch[:h.Length]
			batch = batch[h.Length:]
			var features of13.FeaturesReply
			if h.Type == of13.TypeFeaturesReply {
				if err := features.Decode(msg); err != nil {
					t.Fatal(err)
				}
				return features
			}
		}
	}
}
