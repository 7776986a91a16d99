package appctl

import (
	"strconv"
	"strings"
	"time"
)

// Session is what an Open vSwitch says of a BFD session.
type Session struct {
	Forwarding bool          // groups take the port for alive
	Tx, Rx     time.Duration // intervals in use
	Detection  time.Duration // when it goes down, if nothing comes any more
}

// Sessions reads what the command bfd/show prints, by interface. What it does not know it leaves out.
func Sessions(text string) map[string]Session {
	all := map[string]Session{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if inner, ok := strings.CutPrefix(line, "---- "); ok {
			name = strings.TrimSuffix(inner, " ----")
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		s := all[name]
		switch key {
		case "Forwarding":
			s.Forwarding = value == "true"
		case "TX Interval":
			s.Tx = millis(strings.TrimPrefix(value, "Approx "))
		case "RX Interval":
			s.Rx = millis(strings.TrimPrefix(value, "Approx "))
		case "Detect Time":
			s.Detection = millis(strings.TrimPrefix(value, "now "))
		}
		all[name] = s
	}
	delete(all, "")
	return all
}

// millis reads a number of milliseconds, such as 15ms, +8ms or -1000ms.
func millis(s string) time.Duration {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "ms"), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
