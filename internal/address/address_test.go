package address

import "testing"

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
