package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	queues "github.com/holdfast-sdn/holdfast/apps/queue"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// The queues of a run. A message of the first is taken exactly once, by consumers with names; one of the second at
// least once, by consumers with leases, some of which they forget.
const (
	onceQueue  = "once"
	leastQueue = "least"
)

// consumersOfEach is how many consumers a queue has.
const consumersOfEach = 2

// queueTrial is the queues, and what their clients know.
type queueTrial struct {
	web
	queues  map[string]*queued
	working int // clients that have not ended
	audited int // queues that were found empty after that
}

// queued is what clients know of a queue.
type queued struct {
	name  string
	put   uint64         // messages whose put was answered
	ended bool           // the producer puts no more
	done  map[string]int // by body: when it was taken for good, counting events of all clients
	event int
}

func newQueueTrial(s *simulation) trial {
	t := &queueTrial{web: web{s, queues.New()}, queues: map[string]*queued{}}
	for _, name := range []string{onceQueue, leastQueue} {
		t.queues[name] = &queued{name: name, done: map[string]int{}}
	}
	return t
}

func (t *queueTrial) applications() []*app.App { return []*app.App{queues.New()} }

func (t *queueTrial) actor() ledger.Actor {
	name := []string{onceQueue, leastQueue}[t.s.w.rand.IntN(2)]
	return t.callee("GET /{queue}", app.Request{Values: map[string]string{"queue": name}})
}

// look does nothing: it is about what is taken, whatever the switches do.
func (t *queueTrial) look(*switchNode, []byte) {}

func (t *queueTrial) start() {
	for _, name := range []string{onceQueue, leastQueue} {
		q := t.queues[name]
		t.working += 1 + consumersOfEach
		t.request("PUT /{queue}", q, nil, "", func(app.Response) {
			t.produce(q, 1)
			for i := range consumersOfEach {
				if name == onceQueue {
					t.takeOnce(q, fmt.Sprint("c", i), 0)
				} else {
					t.lease(q)
				}
			}
		})
	}
}

// request asks a queue for something.
func (t *queueTrial) request(route string, q *queued, query url.Values, body string, take func(app.Response)) {
	values := map[string]string{"queue": q.name}
	if query.Has("message") {
		values["message"] = query.Get("message")
	}
	t.ask(route, app.Request{Values: values, Query: query, Body: []byte(body)}, take)
}

// produce puts a message, and the next one later.
func (t *queueTrial) produce(q *queued, number uint64) {
	t.s.pause(func() {
		if !t.s.traffic {
			q.ended = true
			t.end()
			return
		}
		query := url.Values{"client": {"producer"}, "number": {strconv.FormatUint(number, 10)}}
		t.request("POST /{queue}/messages", q, query, fmt.Sprint("message ", number), func(r app.Response) {
			if r.Status >= 300 {
				t.s.w.fail("queue %s: message %d is refused with status %d: %s", q.name, number, r.Status, r.Body)
			}
			q.put = number
			t.produce(q, number+1)
		})
	})
}

// taken decodes the answer to a take. The message is 0 if there is none.
func (t *queueTrial) taken(q *queued, r app.Response) (got queues.Taken) {
	if r.Status == http.StatusNoContent {
		return got
	}
	if err := json.Unmarshal(r.Body, &got); err != nil {
		t.s.w.fail("queue %s: a take is answered with status %d: %s", q.name, r.Status, r.Body)
	}
	return got
}

// over reports whether a consumer that finds nothing has nothing more to do.
func (t *queueTrial) over(q *queued) bool { return q.ended && uint64(len(q.done)) >= q.put }

// takeOnce takes messages for a client with a name, which has taken some.
func (t *queueTrial) takeOnce(q *queued, client string, after uint64) {
	query := url.Values{"client": {client}, "after": {strconv.FormatUint(after, 10)}}
	t.request("POST /{queue}/take", q, query, "", func(r app.Response) {
		switch got := t.taken(q, r); {
		case got.Message == 0 && t.over(q):
			t.end()
		case got.Message == 0:
			t.s.pause(func() { t.takeOnce(q, client, after) })
		case got.Take != after+1:
			t.s.w.fail("queue %s: client %s has taken %d messages, and gets one with number %d", q.name, client, after,
				got.Take)
		case q.done[got.Body] > 0:
			t.s.w.fail("queue %s: client %s takes %q, which was taken before", q.name, client, got.Body)
		default:
			q.event++
			q.done[got.Body] = q.event
			t.takeOnce(q, client, got.Take)
		}
	})
}

// lease takes a message for a second, and acknowledges it, in time or not, or never.
func (t *queueTrial) lease(q *queued) {
	began := q.event
	t.request("POST /{queue}/take", q, url.Values{"seconds": {"1"}}, "", func(r app.Response) {
		got := t.taken(q, r)
		at, done := q.done[got.Body]
		switch {
		case got.Message == 0 && t.over(q):
			t.end()
		case got.Message == 0:
			t.s.pause(func() { t.lease(q) })
		case done && at <= began:
			t.s.w.fail("queue %s: message %d, %q, is taken after it was acknowledged", q.name, got.Message, got.Body)
		case t.s.traffic && t.s.w.rand.IntN(4) == 0:
			t.lease(q)
		default:
			t.s.w.after(t.s.w.upTo([]time.Duration{0, 1500 * time.Millisecond}[t.s.w.rand.IntN(2)]), nil,
				func() { t.acknowledge(q, got) })
		}
	})
}

func (t *queueTrial) acknowledge(q *queued, got queues.Taken) {
	query := url.Values{"take": {strconv.FormatUint(got.Take, 10)}, "message": {strconv.FormatUint(got.Message, 10)}}
	t.request("DELETE /{queue}/messages/{message}", q, query, "", func(r app.Response) {
		if _, done := q.done[got.Body]; !done && r.Status < 300 {
			q.event++
			q.done[got.Body] = q.event
		}
		t.lease(q)
	})
}

// end is that of one client. The last one looks whether the queues are empty.
func (t *queueTrial) end() {
	if t.working--; t.working > 0 {
		return
	}
	for _, name := range []string{onceQueue, leastQueue} {
		q := t.queues[name]
		t.request("GET /{queue}", q, nil, "", func(r app.Response) {
			var is queues.Status
			err := json.Unmarshal(r.Body, &is)
			if err != nil || is.Put != q.put || is.Messages > 0 || uint64(len(q.done)) != q.put {
				t.s.w.fail("queue %s: %d messages were put, %d have been taken, and its status is %s (%v)", name, q.put,
					len(q.done), r.Body, err)
			}
			t.audited++
		})
	}
}

func (t *queueTrial) unsettled() string {
	if t.audited < len(t.queues) {
		return fmt.Sprintf("%d clients of queues have not ended, %d queues were found empty", t.working, t.audited)
	}
	return ""
}
