package promises

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
)

// A stream knows which of its frames have arrived, how often and where, and how long none did.
func TestCount(t *testing.T) {
	w := &network{}
	from := vswitch.NewHost(machine(1), [4]byte{10, 0, 0, 1})
	to, other := vswitch.NewHost(machine(2), [4]byte{10, 0, 0, 2}), vswitch.NewHost(machine(3), [4]byte{10, 0, 0, 3})
	w.add(from, to, to.MAC, allowedPort, 0)
	s := w.add(from, to, to.MAC, allowedPort, 0)
	if id, n, ok := parse(s.frame); id != 1 || n != 0 || !ok {
		t.Fatalf("the frame is number %d of stream %d: %v", n, id, ok)
	}
	begin := time.Now()
	for i := range 10 {
		s.sent, s.times = append(s.sent, begin.Add(time.Duration(i)*time.Second)), append(s.times, 0)
	}
	s.right = func(f []byte) bool { return f[0] == 1 }
	for _, n := range []uint64{0, 3, 3, 4, 8} {
		s.arrive(to, n, []byte{1})
	}
	s.arrive(other, 5, []byte{1})
	s.arrive(to, 5, []byte{0})
	for _, c := range []struct {
		since, before int
		want          count
	}{
		{0, 10, count{10, 4, 1, 2, 3 * time.Second}},
		{1, 4, count{3, 1, 1, 2, 2 * time.Second}},
		{5, 8, count{3, 0, 0, 2, 2 * time.Second}},
		{3, 5, count{2, 2, 1, 2, 0}},
	} {
		if got := s.count(c.since, c.before); got != c.want {
			t.Errorf("frames %d to %d: %+v, want %+v", c.since, c.before, got, c.want)
		}
	}
	if !s.flows(8) || s.flows(9) {
		t.Error("frame 8 has arrived, and frame 9 has not")
	}
}

// One broken promise is an error.
func TestErr(t *testing.T) {
	var r Result
	r.add("a", "does", true, "%d", 1)
	if r.Err() != nil {
		t.Error("all promises are kept, and there is an error")
	}
	if r.add("b", "does", false, "%d", 2); r.Err() != ErrBroken || r.Promises[1].Measured != "2" {
		t.Errorf("%+v", r)
	}
}
