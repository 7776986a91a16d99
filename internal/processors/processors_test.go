package processors

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

func TestLook(t *testing.T) {
	const in = 50 * time.Millisecond
	for _, x := range []struct {
		name      string
		now, most int
		percent   []int // of one processor, in each look
		want      int
	}{
		{"idle", 8, 8, repeat(1, 3*calm), 1},
		{"idle, not for long", 8, 8, repeat(1, calm-1), 8},
		{"an odd number", 6, 6, repeat(1, 2*calm), 2},
		{"one is enough", 1, 8, repeat(grow, 100), 1},
		{"one is not enough", 1, 8, []int{grow + 1}, 2},
		{"all are needed", 1, 6, []int{100, 200, 400, 600}, 6},
		{"a burst", 4, 4, append(repeat(10, calm-1), 4*grow+1), 4},
		{"much now and then", 4, 4, repeats(11, 0, 9, 4*grow), 2},
		{"a little more than half of half", 4, 4, repeat(4*shrink-1, 2*calm), 2},
		{"half would be too few", 4, 4, repeat(4*shrink, 100), 4},
	} {
		u := use{now: x.now, most: x.most}
		for _, p := range x.percent {
			u.look(in*time.Duration(p)/100, in)
		}
		if u.now != x.want {
			t.Errorf("%s: %d processors, not %d", x.name, u.now, x.want)
		}
	}
}

// repeats is so many of one, and then of another.
func repeats(n, percent, m, then int) []int { return append(repeat(percent, n), repeat(then, m)...) }

func repeat(percent, times int) (all []int) {
	for range times {
		all = append(all, percent)
	}
	return all
}

// A process whose use does not change has another number of processors at most as often as that doubles or halves.
func TestSteadyUseSettles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		u := use{most: 1 + r.IntN(64)}
		u.now = 1 + r.IntN(u.most)
		percent, changes := r.IntN(100*u.most+1), 0
		for range 20 * calm {
			used := time.Duration(min(percent, 100*u.now)) * interval / 100 // it cannot use more than it has
			if u.look(used, interval) {
				changes++
			}
		}
		if changes > 7 || u.now < 1 || u.now > u.most {
			t.Fatalf("%d %% of %d processors: %d changes, %d in the end", percent, u.most, changes, u.now)
		}
	}
}

// TestFollow looks at the process of the test, which does nothing.
func TestFollow(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	stop := Follow()
	Follow()() // of another controller in this process, which ends first
	await.Until(t, "one processor", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	if stop(); runtime.GOMAXPROCS(0) != 4 {
		t.Errorf("%d processors in the end", runtime.GOMAXPROCS(0))
	}
	t.Setenv("GOMAXPROCS", "4")
	Follow()()
}
