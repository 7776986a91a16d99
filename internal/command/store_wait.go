package command

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfast-sdn/holdfast/store/client"
)

// storeWait says that the store does not answer, as the other commands do of controllers (controller/client).
type storeWait struct {
	answers, stop, ended chan struct{}
}

// tellWait tells it when there was no answer for a time, and then every five seconds, until end.
func tellWait(out io.Writer, c *client.Client, after time.Duration) *storeWait {
	w := &storeWait{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(w.ended)
		next := time.NewTimer(after)
		defer next.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-w.answers:
				next.Reset(after)
			case <-next.C:
				why := ""
				if err := c.Trouble(); err != nil {
					why = " (" + err.Error() + ")"
				}
				fmt.Fprintf(out, "holdfast: waiting for an answer of the store%s; a majority of the controllers must "+
					"run: see holdfast status\n", why)
				next.Reset(5 * time.Second)
			}
		}
	}()
	return w
}

// answered notes an answer, after which another one is waited for.
func (w *storeWait) answered() { w.answers <- struct{}{} }

func (w *storeWait) end() {
	close(w.stop)
	<-w.ended
}
