package await

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test of which Fatalf records the reason, and ends its goroutine.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails returns the reason with which f ends its test, and how long that takes.
func fails(f func(testing.TB)) (string, time.Duration) {
	t, ended, began := &failing{}, make(chan struct{}), time.Now()
	go func() {
		defer close(ended)
		f(t)
	}()
	<-ended
	return t.why, time.Since(began)
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, when := range []time.Duration{0, time.Millisecond, time.Second, Limit - time.Second} {
			began, calls := time.Now(), 0
			Until(t, "its time", func() bool { calls++; return time.Since(began) >= when })
			if late := time.Since(began) - when; late > 50*time.Millisecond {
				t.Errorf("%v too late for %v", late, when)
			}
			if most := 70 + int(when/(50*time.Millisecond)); calls > most {
				t.Errorf("%d checks in %v, more than %d", calls, when, most)
			}
		}
		why, took := fails(func(t testing.TB) { Until(t, "the end of time", func() bool { return false }) })
		if why != "waited 30s for the end of time" || took < Limit || took > Limit+time.Second {
			t.Errorf("after %v: %s", took, why)
		}
	})
}

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan int, 1)
		ended <- 7
		if v := End(t, "it", ended); v != 7 {
			t.Errorf("got %d", v)
		}
		why, took := fails(func(t testing.TB) { End(t, "the wait", ended) })
		if !strings.HasPrefix(why, "the wait does not end within 30s\n") || !strings.Contains(why, "await.TestEnd") ||
			took != Limit {
			t.Errorf("after %v: %s", took, why)
		}
	})
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Log
		log := l.Logger()
		log.Debug("not kept")
		log.Info("one", "n", 1)
		log.Info("two")
		log.Warn("one", "n", 2)
		if got := l.Lines("msg=one"); len(got) != 2 || !strings.HasSuffix(got[0], "level=INFO msg=one n=1") ||
			!strings.HasSuffix(got[1], "level=WARN msg=one n=2") {
			t.Errorf("%q", got)
		}
		if n := strings.Count(l.String(), "\n"); n != 3 {
			t.Errorf("%d lines: %s", n, &l)
		}
		if got := l.Line(t, "n="); !strings.HasSuffix(got, "msg=one n=1") {
			t.Errorf("not the first line: %s", got)
		}
		go func() {
			for n := range 10 {
				time.Sleep(time.Second)
				log.Info("later", "n", n)
			}
		}()
		began := time.Now()
		l.Line(t, "n=6")
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the line is found after %v", took)
		}
		why, took := fails(func(t testing.TB) { l.Line(t, "three") })
		if took != Limit || !strings.HasPrefix(why, `no line of the log contains "three" after 30s:`) ||
			!strings.Contains(why, "msg=two") {
			t.Errorf("after %v: %s", took, why)
		}
	})
}
