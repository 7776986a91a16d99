package processors

import (
	"os/exec"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestCrowdOf(t *testing.T) {
	for _, x := range []struct {
		loadavg    string
		processors int
		want       int
	}{
		{"0.00 1.74 6.16 1/78 20603\n", 2, 1},
		{"6.48 3.03 6.03 24/153 21934\n", 2, 12},
		{"6.48 3.03 6.03 25/153 21934\n", 2, 13},
		{"6.48 3.03 6.03 0/153 21934\n", 64, 1},
		{"6.48 3.03\n", 2, 1},
		{"6.48 3.03 6.03 x/153 21934\n", 2, 1},
		{"", 2, 1},
	} {
		if got := crowd([]byte(x.loadavg), x.processors); got != x.want {
			t.Errorf("%q, %d processors: %d, not %d", x.loadavg, x.processors, got, x.want)
		}
	}
}

func TestListed(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11\n": 7, "": 1, "none": 1, "3-1": 1} {
		if got := listed(list); got != want {
			t.Errorf("%q: %d, not %d", list, got, want)
		}
	}
}

// Busy processes beside are seen.
func TestCrowdOfThisMachine(t *testing.T) {
	want := 3
	for range want * online() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	await.Until(t, "the machine is crowded", func() bool { return Crowd() >= want })
}

func BenchmarkCrowd(b *testing.B) {
	for b.Loop() {
		Crowd()
	}
}
