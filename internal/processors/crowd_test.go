package processors

import (
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestCrowdOf(t *testing.T) {
	for _, x := range []struct {
		loadavg, online string
		want            int
	}{
		{"0.00 1.74 6.16 1/78 20603\n", "0-1\n", 1},
		{"6.48 3.03 6.03 24/153 21934\n", "0-1\n", 12},
		{"6.48 3.03 6.03 25/153 21934\n", "0-1\n", 13},
		{"6.48 3.03 6.03 7/153 21934\n", "0-1\n", 4},
		{"6.48 3.03 6.03 6/153 21934\n", "0-1\n", 1},
		{"6.48 3.03 6.03 0/153 21934\n", "0-63\n", 1},
		{"6.48 3.03 6.03 24/153 21934\n", "", 1},
		{"6.48 3.03\n", "0-1\n", 1},
		{"6.48 3.03 6.03 x/153 21934\n", "0-1\n", 1},
		{"", "0-1\n", 1},
	} {
		if got := crowd([]byte(x.loadavg), x.online); got != x.want {
			t.Errorf("%q, processors %q: %d, not %d", x.loadavg, x.online, got, x.want)
		}
	}
}

func TestListed(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11\n": 7, "": 0, "none": 0, "3-1": 0} {
		if got := listed(list); got != want {
			t.Errorf("%q: %d, not %d", list, got, want)
		}
	}
}

// Busy processes beside are seen.
func TestCrowdOfThisMachine(t *testing.T) {
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Skip(err)
	}
	for range crowded * listed(string(online)) {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	await.Until(t, "a crowd", func() bool { return Crowd() >= crowded })
}

// A lookout looks only after somebody has asked, and between the rounds.
func TestLookout(t *testing.T) {
	var l Lookout
	for _, asks := range []bool{true, true, false, true} {
		before := l.asked
		l.Look()
		if seen := l.seen > 0; seen != before {
			t.Errorf("it has looked: %t, and somebody had asked: %t", seen, before)
		}
		if asks && l.Crowd() != l.seen {
			t.Error("it says something else than it has seen")
		}
	}
}

// Those who ask in the same interval share a look.
func TestCrowdEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		ask := every(time.Second, func() int { looks++; return looks })
		for i, want := range []int{1, 1, 1, 2, 2, 2, 3} {
			if got := ask(); got != want {
				t.Errorf("after %d thirds of an interval: look %d, not %d", i, got, want)
			}
			time.Sleep(time.Second/3 + 1)
		}
	})
}
