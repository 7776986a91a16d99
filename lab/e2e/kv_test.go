package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/kv"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// web is a client of the applications over HTTP.
type web struct {
	http.Client
	t *testing.T
}

func newWeb(t *testing.T) *web {
	w := &web{http.Client{Transport: new(http.Transport), Timeout: 15 * time.Second}, t}
	t.Cleanup(w.CloseIdleConnections)
	return w
}

// ask returns status 0 if there is no answer.
func (w *web) ask(c *cluster.Controller, method, path, body string) (status int, text string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+c.REST+path, bytes.NewBufferString(body))
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	resp, err := w.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// TestKeyValues: any controller serves every key, whichever group it lives in.
func TestKeyValues(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"1", "per-controller"} {
		t.Run("groups "+groups, func(t *testing.T) {
			s := startCluster(t, cluster.Config{Apps: []string{kv.Name}, Sections: "groups: " + groups + "\n"})
			w := newWeb(t)
			want := func(c *cluster.Controller, method, path, body string, status int, text string) {
				t.Helper()
				if got, answer := w.ask(c, method, path, body); got != status || text != "*" && answer != text {
					t.Errorf("%s %s at %s: %d %q, want %d %q\n%s", method, path, c.Name, got, answer, status, text,
						s.Logs())
				}
			}
			for i, c := range s.Controllers() {
				path := fmt.Sprintf("/apps/kv/key%d", i)
				want(c, "PUT", path, "first", http.StatusNoContent, "")
				for _, other := range s.Controllers() {
					value := "of " + other.Name
					want(other, "PUT", path, value, http.StatusNoContent, "")
					for _, reader := range s.Controllers() {
						want(reader, "GET", path, "", http.StatusOK, value)
					}
				}
			}
			first := s.Controllers()[0]
			want(first, "DELETE", "/apps/kv/key1", "", http.StatusNoContent, "")
			for _, c := range s.Controllers() {
				want(c, "GET", "/apps/kv/key1", "", http.StatusNotFound, "there is no key \"key1\"\n")
				want(c, "DELETE", "/apps/kv/key1", "", http.StatusNotFound, "*")
			}
			want(first, "PUT", "/apps/kv/empty", "", http.StatusNoContent, "")
			want(first, "GET", "/apps/kv/empty", "", http.StatusOK, "")
			want(first, "PUT", "/apps/kv/large", string(make([]byte, 513<<10)), http.StatusRequestEntityTooLarge, "*")
			want(first, "PUT", "/apps/kv/"+string(bytes.Repeat([]byte("k"), 1025)), "x", http.StatusRequestURITooLong,
				"*")
			want(first, "POST", "/apps/kv/key0", "", http.StatusMethodNotAllowed, "*")
			want(first, "GET", "/apps/nobody/x", "", http.StatusNotFound, "*")
			want(first, "GET", "/elsewhere", "", http.StatusNotFound, "*")
		})
	}
}

// TestKeyValuesKill: clients put values at all controllers while one after the other is killed. Every value whose PUT
// was acknowledged is there.
func TestKeyValuesKill(t *testing.T) {
	t.Parallel()
	const clients, kills = 6, 3
	s := startCluster(t, cluster.Config{Apps: []string{kv.Name}, Sections: "groups: per-controller\n"})
	s.expectDeaths()
	s.check(s.WaitHome(s.ctx))
	w := newWeb(t)
	var acknowledged [clients]map[string]string
	var total, refused atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range clients {
		acknowledged[i] = map[string]string{}
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key, value := fmt.Sprintf("/apps/kv/%d-%d", i, n%50), fmt.Sprint(n)
				for try := 0; ; try++ { // the same value may be put twice
					c := s.Controllers()[(i+n+try)%len(s.Controllers())]
					status, text := w.ask(c, "PUT", key, value)
					if status == http.StatusNoContent {
						break
					}
					if status != 0 && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
						t.Errorf("PUT %s at %s: %d %q", key, c.Name, status, text)
						return
					}
					refused.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
				acknowledged[i][key] = value
				total.Add(1)
			}
		})
	}
	s.killInTurn(kills, &total, 100)
	close(stop)
	running.Wait()
	for _, values := range acknowledged {
		for key, want := range values {
			for _, c := range s.Controllers() {
				var status int
				var got string
				await.Until(t, "an answer", func() bool {
					status, got = w.ask(c, "GET", key, "")
					return status == http.StatusOK || status == http.StatusNotFound
				})
				if got != want {
					t.Errorf("GET %s at %s: %d %q, want %q", key, c.Name, status, got, want)
				}
			}
		}
	}
	t.Logf("%d PUTs were acknowledged, %d attempts were not", total.Load(), refused.Load())
	if t.Failed() {
		t.Error(errors.New(s.Logs()))
	}
}
