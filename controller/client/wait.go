package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// When a wait is told, and told again.
const (
	firstTold = time.Second
	nextTold  = 5 * time.Second
)

// wait tells its Client's user what it waits for, and what the controllers have answered.
type wait struct {
	what string
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	answers map[string]string // by the name of the controller
}

// wait begins one. The caller ends it.
func (c *Client) wait(what string) *wait {
	w := &wait{what: what, stop: make(chan struct{}), answers: map[string]string{}}
	w.done.Go(func() { // ends with end
		next := time.NewTimer(firstTold)
		defer next.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-next.C:
				c.waiting(fmt.Sprintf("%s; %s", w.what, w.tried()))
				next.Reset(nextTold)
			}
		}
	})
	return w
}

func (w *wait) end() {
	close(w.stop)
	w.done.Wait()
}

// asks records that a controller is asked, unless it has answered before.
func (w *wait) asks(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers[name] == "" {
		w.answers[name] = name + " does not answer"
	}
}

// said records the answer of a controller.
func (w *wait) said(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.answers, name)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "ask controller "+name+": ")
		if _, cause, ok := strings.Cut(text, "\": "); ok { // after the method and the URL
			text = cause
		}
		w.answers[name] = name + ": " + text
	}
}

// tried says what the controllers have answered.
func (w *wait) tried() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.answers) == 0 {
		return "all that were asked have answered"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(w.answers)) {
		list = append(list, w.answers[name])
	}
	return strings.Join(list, "; ")
}
