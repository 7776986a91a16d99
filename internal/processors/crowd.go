package processors

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// crowded is the least number of threads for each processor that is a crowd. Threads take turns of about 3 ms, so fewer
// delay a heartbeat little; and a controller and its switches on a small machine are some threads, too.
const crowded = 4

// CrowdEvery returns Crowd for many that ask often: it looks once in each interval. Any goroutine may call it.
func CrowdEvery(interval time.Duration) func() int { return every(interval, Crowd) }

func every(interval time.Duration, look func() int) func() int {
	var mu sync.Mutex // guards the other two, and is held while somebody looks
	var looked time.Time
	var seen int
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(looked) >= interval {
			looked, seen = now, look()
		}
		return seen
	}
}

// Lookout has Crowd for a goroutine that asks for it in rounds, and has locks then: it looks between two rounds, if
// somebody has asked in the first one. The zero value is ready to use. It is for one goroutine.
type Lookout struct {
	asked bool
	seen  int
}

// Look begins a round.
func (l *Lookout) Look() {
	l.seen = 0
	if l.asked {
		l.asked, l.seen = false, Crowd()
	}
}

// Crowd returns what was seen before this round; 0: nothing, because nobody had asked. It does not wait.
func (l *Lookout) Crowd() int {
	l.asked = true
	return l.seen
}

// Crowd returns how many threads of all processes of this machine run or wait for a processor, for each of its
// processors, rounded up: so many times as long as on a quiet machine takes what one of them does. It is 1 if these are
// no crowd, or if the system does not say. It takes 20 µs, or what a container needs that imitates /proc.
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
	if each := (n + processors - 1) / processors; each >= crowded {
		return each
	}
	return 1
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
