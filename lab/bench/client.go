package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// webClient asks applications over HTTP. It is safe for concurrent use.
type webClient struct{ http http.Client }

// newWebClient returns a client that keeps so many connections to each controller.
func newWebClient(connections int) *webClient {
	return &webClient{http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: connections}}} // no Proxy
}

func (w *webClient) close() { w.http.CloseIdleConnections() }

// ask fails unless the status of the answer is one of 200 to 299.
func (w *webClient) ask(ctx context.Context, c *cluster.Controller, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.REST+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = &statusError{resp.StatusCode,
			fmt.Sprintf("%s %s at %s: %s: %s", method, path, c.Name, resp.Status, answer)}
	}
	return answer, err
}

// statusError is an answer that is none of 200 to 299.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// repeat is ask for what may be executed twice: it asks again if the leader has changed.
func (w *webClient) repeat(ctx context.Context, c *cluster.Controller, method, path string, body []byte) ([]byte,
	error) {
	for range repeats {
		answer, err := w.ask(ctx, c, method, path, body)
		if e, is := errors.AsType[*statusError](err); !is || e.status != http.StatusServiceUnavailable {
			return answer, err
		}
		time.Sleep(repeatPause)
	}
	return w.ask(ctx, c, method, path, body)
}

// How often, and after how long, a request is repeated.
const repeats, repeatPause = 100, 100 * time.Millisecond

// timed has callers call f again and again for about so long, n counting the calls of each. It returns how long calls
// took, in µs. The error errEnough ends the calls of a caller, and is none. before, unless it is nil, is called before
// each one, and is not timed.
func timed(callers int, about time.Duration, before func(i, n int), f func(i, n int) error) ([]float64, error) {
	var mu sync.Mutex // guards all
	var all []float64
	began := time.Now()
	err := together(callers, func(i int) error {
		var took []float64
		for n := 0; time.Since(began) < about; n++ {
			if before != nil {
				before(i, n)
			}
			asked := time.Now()
			if err := f(i, n); errors.Is(err, errEnough) {
				break
			} else if err != nil {
				return err
			}
			took = append(took, micros(time.Since(asked)))
		}
		mu.Lock()
		defer mu.Unlock()
		all = slices.Concat(all, took)
		return nil
	})
	return all, err
}

var errEnough = errors.New("it is enough")

// together runs n functions side by side, and waits for them.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errors.Join(errs...)
}
