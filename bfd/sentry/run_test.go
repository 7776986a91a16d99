package sentry

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The Go runtime sends signals to a thread that seems busy, such as one that sleeps in a system call. They must not
// wake it early, because the watch's clock would run ahead, and then stop.
func TestSignals(t *testing.T) {
	t.Parallel()
	w := newWatch(400*ms, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := w.run(ctx, false); err != nil {
			t.Error(err)
		}
	})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	l := &link{socket: &socket{fd: fds[0]}, changed: make(chan struct{}, 1)}
	defer l.socket.close()
	began := time.Now()
	if err := w.add(l); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	w.order(func(time.Duration) {
		if most := 2 + uint64(time.Since(began)/(400*ms/passes)); w.made > most {
			t.Errorf("%d passes in %v, want %d at most", w.made, time.Since(began), most)
		}
	})
	cancel()
	running.Wait() // before the socket is closed
}

// Watches that start and end at the same time leave GOMAXPROCS as it was.
func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() { _ = newWatch(ms, 3).run(ctx, false) })
		}
		running.Wait()
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, want %d", after, before)
		runtime.GOMAXPROCS(before)
	}
}
