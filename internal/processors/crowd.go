package processors

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Crowd returns how many threads of all processes of this machine run or wait for a processor, for each of its
// processors, rounded up; 1 if the system does not say. It takes some 10 µs.
func Crowd() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return crowd(b, online())
}

// crowd reads proc_loadavg(5): three averages, and the number of threads that can run, a slash, and that of all.
func crowd(loadavg []byte, processors int) int {
	fields := bytes.Fields(loadavg)
	if len(fields) < 4 {
		return 1
	}
	threads, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(threads))
	if err != nil {
		return 1
	}
	return max(1, (n+processors-1)/processors)
}

// online is the number of processors of the machine. This process may be restricted to some of them.
var online = sync.OnceValue(func() int {
	b, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return listed(string(b))
})

// listed counts the members of a list of the kernel such as "0-3,8", at least 1.
func listed(list string) (n int) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		to := from
		if isRange {
			to, _ = strconv.Atoi(last)
		}
		n += max(0, to-from+1)
	}
	return max(1, n)
}
