package queue

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// worker is a client with a name, outside of the controllers: what it keeps survives, and answers to it may be lost.
type worker struct {
	name  string
	taken uint64   // kept together with did
	did   []string // what the messages caused
}

// Producers and consumers repeat requests whose answers are lost, while the queue moves. Others take with
// leases that they forget. Every message is done once by those with a name, or acknowledged once by the others.
func TestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSite(t, 3)
		if status, text := s.call("PUT /{queue}", "q", nil); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, text)
		}
		var put, acknowledged []string
		producer, leased := uint64(0), []Taken{}
		workers := []*worker{{name: "a"}, {name: "b"}}
		work := func(w *worker, lost bool) bool {
			got := s.take("q", fmt.Sprintf("client=%s&after=%d", w.name, w.taken))
			if got.Message == 0 || lost {
				return false
			}
			w.taken, w.did = got.Take, append(w.did, got.Body)
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				body := fmt.Sprint("message ", producer+1)
				times := rapid.IntRange(1, 3).Draw(t, "times")
				for range times { // the answers before the last are lost
					route := fmt.Sprintf("POST /{queue}/messages?client=p&number=%d", producer+1)
					status, text := s.call(route, "q", nil, body)
					if status != 0 {
						t.Fatalf("put: %d %s", status, text)
					}
				}
				producer++
				put = append(put, body)
			},
			"work": func(t *rapid.T) {
				work(rapid.SampledFrom(workers).Draw(t, "worker"), rapid.Bool().Draw(t, "lost"))
			},
			"lease": func(t *rapid.T) {
				if got := s.take("q", "seconds=5"); got.Message > 0 {
					leased = append(leased, got)
				}
			},
			"acknowledge": func(t *rapid.T) {
				if len(leased) == 0 {
					return
				}
				l := rapid.SampledFrom(leased).Draw(t, "lease")
				_, before := s.call("GET /{queue}", "q", nil)
				s.call(fmt.Sprintf("DELETE /{queue}/messages/{message}?take=%d", l.Take), "q",
					map[string]string{"message": fmt.Sprint(l.Message)})
				if _, after := s.call("GET /{queue}", "q", nil); after != before {
					acknowledged = append(acknowledged, l.Body)
				}
			},
			"time": func(t *rapid.T) { s.net.Advance(time.Duration(rapid.IntRange(1, 4).Draw(t, "s")) * time.Second) },
			"move": func(t *rapid.T) {
				shard, err := s.app.Callee("GET /{queue}", encoded("q"))
				if err != nil {
					t.Fatal(err)
				}
				if a := (ledger.Actor{App: Name, Shard: shard}); s.net.Lives(a) != 1 {
					s.net.Move(a, 1)
				} else {
					s.net.Move(a, 2)
				}
			},
			"": func(t *rapid.T) {
				if is := s.status("q"); is.Messages < 0 || is.Messages > len(put) || is.Leases > len(leased) {
					t.Fatalf("%+v, of %d messages", is, len(put))
				}
			},
		})
		s.net.Advance(time.Minute)
		for work(workers[0], false) || work(workers[1], false) { // both acknowledge their last, too
		}
		var did []string
		for _, w := range workers {
			did = append(did, w.did...)
		}
		did = append(did, acknowledged...)
		slices.Sort(did)
		slices.Sort(put)
		if !slices.Equal(did, put) {
			t.Fatalf("put %q, done %q", put, did)
		}
		if is := s.status("q"); is.Messages != 0 || is.Bytes != 0 || is.Leases != 0 {
			t.Fatalf("%+v is left", is)
		}
	})
}

// encoded is a request about a queue, as controllers pass it.
func encoded(queue string) []byte {
	return httpcall.Encode(app.Request{Method: "GET", Values: map[string]string{"queue": queue}})
}
