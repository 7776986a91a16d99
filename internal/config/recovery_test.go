package config_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// What protects the network is exactly once. Frames that edge carries may be less.
func TestLevelsOfRecovery(t *testing.T) {
	const refused = ", by which flow entries would be lost or repeated; remove it: what protects the network is " +
		"exactly once"
	for _, c := range []struct{ levels, want string }{
		{"edge: {packet_in: unordered, port_status: ordered}", ""},
		{"recovery:\n    port_status: exactly_once", ""},
		{"recovery:\n    port_status: exactly_once\n    reply: ordered",
			"f:7: level ordered for reply of recovery" + refused},
		{"topology: {packet_in: reliable}", "f:5: level reliable for packet_in of topology" + refused},
		{"edge: &weak {packet_in: unordered}\n  liveness: {<<: *weak}",
			"f:6: level unordered for packet_in of liveness" + refused},
		{"edge: &strong {packet_in: exactly_once}\n  liveness: {<<: *strong}", ""},
		{"liveness: &all {packet_in: unordered}", "f:5: level unordered for packet_in of liveness" + refused},
	} {
		_, err := config.Parse("f", []byte(one+"apps: [recovery]\nlevels:\n  "+c.levels+"\n"),
			[]string{"edge", "liveness", "recovery", "topology"})
		if got := errorText(err); got != c.want {
			t.Errorf("%s: %q\nwant %q", c.levels, got, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
