package await

import (
	"runtime"
	"sync/atomic"
)

// Turns returns how often another goroutine had the only processor while f ran.
func Turns(f func()) (n int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var over atomic.Bool
	ended := make(chan bool)
	go func() { // until f has returned
		for ; !over.Load(); n++ {
			runtime.Gosched()
		}
		close(ended)
	}()
	f()
	over.Store(true)
	<-ended
	return n
}
