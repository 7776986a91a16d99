package address

import (
	"net"
	"path/filepath"
	"testing"
)

func TestOf(t *testing.T) {
	for address, want := range map[string][2]string{
		"127.0.0.1:6653":            {"tcp", "127.0.0.1:6653"},
		"[::1]:6653":                {"tcp", "[::1]:6653"},
		"unix:/run/holdfast/s.sock": {"unix", "/run/holdfast/s.sock"},
		"unix:":                     {"unix", ""},
		"unix":                      {"tcp", "unix"},
		"":                          {"tcp", ""},
	} {
		if network, at := Of(address); network != want[0] || at != want[1] {
			t.Errorf("%s: %s, %s", address, network, at)
		}
	}
}

func TestPeer(t *testing.T) {
	for network, at := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		dialed, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer dialed.Close()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		want := dialed.LocalAddr().String()
		if network == "unix" {
			want = at
		}
		if got := Peer(accepted).String(); got != want {
			t.Errorf("%s: the peer of the accepted end is %s, want %s", network, got, want)
		}
		if got := Peer(dialed).String(); got != l.Addr().String() {
			t.Errorf("%s: the peer of the dialed end is %s, want %s", network, got, l.Addr())
		}
	}
}
