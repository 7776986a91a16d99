package outage

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// pressure is how long, since the machine started, some process has waited for a processor; 0 if the kernel does not
// tell.
func pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return parsePressure(string(text))
}

// parsePressure reads "some avg10=0.12 avg60=0.10 avg300=0.05 total=123456", the total in microseconds.
func parsePressure(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
