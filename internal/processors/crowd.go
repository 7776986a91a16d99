package processors

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Crowd returns how many threads of all processes of this machine run or wait for a processor, for each of its
// processors, rounded up; 1 if the system does not say. It takes 20 µs, or what a container needs that imitates /proc.
func Crowd() int {
	loadavg, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 1
	}
	return crowd(loadavg, string(online))
}

// crowd takes what proc_loadavg(5) describes: three averages, and the number of threads that can run, a slash, and that
// of all. This process may be restricted to some of the processors that are online.
func crowd(loadavg []byte, online string) int {
	fields, processors := bytes.Fields(loadavg), listed(online)
	if len(fields) < 4 || processors == 0 {
		return 1
	}
	threads, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(threads))
	if err != nil {
		return 1
	}
	return max(1, (n+processors-1)/processors)
}

// listed counts the members of a list of the kernel such as "0-3,8". What is none has none.
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
	return n
}
