package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/queue"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestQueueKill: producers and consumers that number their requests repeat them at other controllers, while one after
// the other is killed. Each message is consumed once, and those of a producer in its order.
func TestQueueKill(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"1", "per-controller"} {
		t.Run("groups "+groups, func(t *testing.T) { killQueues(t, groups) })
	}
}

func killQueues(t *testing.T, groups string) {
	const pairs, kills = 3, 2
	s := startCluster(t, cluster.Config{Apps: []string{queue.Name}, Sections: "groups: " + groups + "\n"})
	s.expectDeaths()
	s.check(s.WaitHome(s.ctx))
	w := newWeb(t)
	repeated := atomic.Int64{}
	// answered repeats a request until it is answered.
	answered := func(i int, method, path, body string) (int, string) {
		for try := 0; ; try++ {
			c := s.Controllers()[(i+try)%len(s.Controllers())]
			status, text := w.ask(c, method, path, body)
			switch status {
			case http.StatusOK, http.StatusNoContent:
				return status, text
			case 0, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			default:
				t.Errorf("%s %s at %s: %d %q", method, path, c.Name, status, text)
				return status, text
			}
			repeated.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	var consumed atomic.Int64
	for i := range pairs {
		q := fmt.Sprintf("/apps/queue/q%d", i)
		answered(i, "PUT", q, "")
		put := make(chan int, 1)
		running.Go(func() {
			n := 0
			for more := true; more; {
				n++
				answered(i+n, "POST", fmt.Sprintf("%s/messages?client=p&number=%d", q, n), fmt.Sprint(n))
				select {
				case <-stop:
					more = false
				default:
				}
			}
			put <- n
		})
		running.Go(func() {
			taken, of := 0, -1
			for taken != of && !t.Failed() {
				status, text := answered(i+taken, "POST", fmt.Sprintf("%s/take?client=c&after=%d", q, taken), "")
				select {
				case of = <-put:
				default:
				}
				if status != http.StatusOK {
					continue
				}
				var got queue.Taken
				if err := json.Unmarshal([]byte(text), &got); err != nil || got.Body != fmt.Sprint(taken+1) {
					t.Errorf("consumer %d has taken %d messages, and then %q", i, taken, text)
					return
				}
				taken++
				consumed.Add(1)
			}
			if _, text := answered(i, "POST", fmt.Sprintf("%s/take?client=c&after=%d", q, taken), ""); text != "" {
				t.Errorf("consumer %d has taken all %d messages, and then %q", i, taken, text)
			}
		})
	}
	s.killInTurn(kills, &consumed, 60)
	close(stop)
	running.Wait()
	t.Logf("%d messages were consumed, %d requests repeated", consumed.Load(), repeated.Load())
	if t.Failed() {
		t.Error(s.Logs())
	}
}
