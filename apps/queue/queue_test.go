package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
)

// site is a controller of several groups with the application.
type site struct {
	t   apptest.Tester
	app *app.App
	net *apptest.Net
}

func newSite(t apptest.Tester, groups uint64) *site {
	a := New()
	return &site{t, a, apptest.NewOf(t, groups, a)}
}

// call sends a request such as "POST /{queue}/take?client=c" about a queue. The last argument may be a body.
func (s *site) call(route, queue string, values map[string]string, body ...string) (int, string) {
	s.t.Helper()
	pattern, query, _ := strings.Cut(route, "?")
	method, _, _ := strings.Cut(pattern, " ")
	q, err := url.ParseQuery(query)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	r := app.Request{Method: method, Values: map[string]string{"queue": queue}, Query: q,
		Body: []byte(strings.Join(body, ""))}
	for name, v := range values {
		r.Values[name] = v
	}
	answer := s.net.Call(s.app, pattern, r)
	return answer.Status, string(answer.Body)
}

// take is a call that takes a message; none has number 0.
func (s *site) take(queue, query string) (t Taken) {
	s.t.Helper()
	status, text := s.call("POST /{queue}/take?"+query, queue, nil)
	if status == http.StatusNoContent {
		return t
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil || status != 0 {
		s.t.Fatalf("take %s: %d %q", query, status, text)
	}
	return t
}

// status is what is in a queue.
func (s *site) status(queue string) (is Status) {
	s.t.Helper()
	if code, text := s.call("GET /{queue}", queue, nil); json.Unmarshal([]byte(text), &is) != nil {
		s.t.Fatalf("GET: %d %q", code, text)
	}
	return is
}

// steps are requests about queue q, one after the other, and how they are answered.
var steps = []struct {
	route  string
	values string // of the wildcard besides the queue
	body   string
	status int
	text   string
}{
	{"GET /{queue}", "", "", 404, `there is no queue "q": create it with PUT`},
	{"POST /{queue}/messages", "", "a", 404, `there is no queue "q": create it with PUT`},
	{"PUT /{queue}", "", "", 204, ""},
	{"PUT /{queue}", "", "", 204, ""},
	{"POST /{queue}/take", "", "", 204, ""},
	{"POST /{queue}/messages", "", "a", 0, `{"message":1}`},
	{"POST /{queue}/messages", "", "\xff", 400, "the message is not UTF-8: encode it, for example as base64"},
	{"POST /{queue}/messages", "", strings.Repeat("x", MaxBody+1), 413, "the message has 65537 bytes, 65536 are possible"},
	{"POST /{queue}/messages?client=p&number=2", "", "b", 409, "client p has put 0 messages: the next one has number 1"},
	{"POST /{queue}/messages?client=p&number=1", "", "b", 0, `{"message":2}`},
	{"POST /{queue}/messages?client=p&number=1", "", "b", 0, `{"message":2}`}, // repeated
	{"POST /{queue}/messages?number=1", "", "b", 400, "client=: use 1 to 64 letters, digits and ._-"},
	{"POST /{queue}/messages?client=p", "", "b", 400, "number= is not a number"},
	{"POST /{queue}/take?seconds=0", "", "", 400, "seconds=0: use 1 to 43200"},
	{"POST /{queue}/take?seconds=x", "", "", 400, "seconds=x is not a number"},

	{"POST /{queue}/take?client=c&after=1", "", "", 409,
		"client c has taken 0 messages, not 1: ask for what comes after 0"},
	{"POST /{queue}/take?client=c&after=0", "", "", 0, `{"message":1,"take":1,"body":"a"}`},
	{"POST /{queue}/take?client=c&after=0", "", "", 0, `{"message":1,"take":1,"body":"a"}`}, // repeated
	{"POST /{queue}/take", "", "", 0, `{"message":2,"take":1,"body":"b"}`},
	{"GET /{queue}", "", "", 0, `{"messages":2,"bytes":2,"leases":1,"clients":2,"put":2,"taken":1}`},
	{"POST /{queue}/take?client=c&after=1", "", "", 204, ""},
	{"POST /{queue}/take?client=c&after=0", "", "", 409,
		"client c has taken 1 messages, not 0: ask for what comes after 1"},
	{"GET /{queue}/clients/{client}", "c", "", 0, `{"put":0,"last":0,"taken":1,"holds":0}`},
	{"GET /{queue}/clients/{client}", "d", "", 404, `queue q has no client "d"`},

	{"DELETE /{queue}/messages/{message}", "2", "", 400, "take= is not a number"},
	{"DELETE /{queue}/messages/{message}?take=1", "x", "", 400, `message "x" is not a number`},
	{"DELETE /{queue}/messages/{message}?take=7", "2", "", 409,
		"message 2 is not leased by take 7: its lease is over, so it is taken again"},
	{"DELETE /{queue}/messages/{message}?take=1", "2", "", 204, ""},
	{"DELETE /{queue}/messages/{message}?take=1", "2", "", 204, ""}, // repeated
	{"GET /{queue}", "", "", 0, `{"messages":0,"bytes":0,"leases":0,"clients":2,"put":2,"taken":1}`},

	{"POST /{queue}/messages", "", "c", 0, `{"message":3}`},
	{"POST /{queue}/take?client=c&after=1", "", "", 0, `{"message":3,"take":2,"body":"c"}`},
	{"DELETE /{queue}/clients/{client}", "c", "", 204, ""},
	{"POST /{queue}/take?client=d&after=0", "", "", 0, `{"message":3,"take":1,"body":"c"}`},
	{"GET /{$}", "", "", 0, `["q"]`},
	{"DELETE /{queue}", "", "", 204, ""},
	{"GET /{$}", "", "", 0, `[]`},
	{"GET /{queue}", "", "", 404, `there is no queue "q": create it with PUT`},
}

// Each request is answered as the package says, with one group and with several.
func TestRequests(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		s := newSite(t, groups)
		for _, step := range steps {
			values := map[string]string{"message": step.values, "client": step.values}
			status, text := s.call(step.route, "q", values, step.body)
			if status != step.status || strings.TrimSpace(text) != step.text {
				t.Fatalf("%d groups: %s: %d %q, want %d %q", groups, step.route, status, text, step.status, step.text)
			}
		}
		if rows := s.net.Rows(Name); len(rows) > 0 {
			t.Errorf("rows %+v", rows)
		}
	}
}

// A message whose lease is over is taken again, before those that were put after it, and the late acknowledgement is
// refused. One that is acknowledged in time is not.
func TestLease(t *testing.T) {
	s := newSite(t, 3)
	s.call("PUT /{queue}", "q", nil)
	for _, body := range []string{"a", "b", "c"} {
		s.call("POST /{queue}/messages", "q", nil, body)
	}
	a, b := s.take("q", "seconds=10"), s.take("q", "seconds=20")
	if a.Body != "a" || b.Body != "b" {
		t.Fatalf("taken %v and %v", a, b)
	}
	s.net.Advance(10*time.Second - 1)
	if again := s.take("q", "seconds=1000"); again.Body != "c" {
		t.Fatalf("taken %v before the lease is over", again)
	}
	s.net.Advance(1)
	again := s.take("q", "seconds=1000")
	if again.Body != "a" || again.Take == a.Take {
		t.Fatalf("taken %v, want a again", again)
	}
	late := fmt.Sprintf("DELETE /{queue}/messages/{message}?take=%d", a.Take)
	if status, text := s.call(late, "q", map[string]string{"message": "1"}); status != http.StatusConflict {
		t.Errorf("a late acknowledgement: %d %q", status, text)
	}
	in := fmt.Sprintf("DELETE /{queue}/messages/{message}?take=%d", b.Take)
	if status, text := s.call(in, "q", map[string]string{"message": "2"}); status != http.StatusNoContent {
		t.Errorf("an acknowledgement: %d %q", status, text)
	}
	s.net.Advance(time.Minute)
	if more := s.take("q", ""); more.Message != 0 {
		t.Errorf("taken %v", more)
	}
	if got := s.status("q"); got.Leases != 2 || got.Messages != 2 {
		t.Errorf("%+v", got)
	}
}

// At each bound the request is refused, and after there is room it is not.
func TestBounds(t *testing.T) {
	s := newSite(t, 1)
	s.call("PUT /{queue}", "q", nil)
	refused := func(says, route, queue, body string) {
		t.Helper()
		before := s.net.Rows(Name)
		status, text := s.call(route, queue, nil, body)
		if status != http.StatusInsufficientStorage || !strings.Contains(text, says) {
			t.Errorf("%s: %d %q, want one that says %s", route, status, text, says)
		}
		if len(s.net.Rows(Name)) != len(before) {
			t.Errorf("%s was refused, and has changed something", route)
		}
	}
	for range MaxBytes / MaxBody {
		s.call("POST /{queue}/messages", "q", nil, strings.Repeat("x", MaxBody))
	}
	refused("16777216 bytes of messages", "POST /{queue}/messages", "q", "x")
	s.call("DELETE /{queue}", "q", nil)
	s.call("PUT /{queue}", "q", nil)
	for range MaxMessages {
		s.call("POST /{queue}/messages", "q", nil)
	}
	refused("10000 messages: take", "POST /{queue}/messages", "q", "")
	for range MaxLeases {
		s.take("q", "")
	}
	refused("1024 leases: acknowledge", "POST /{queue}/take", "q", "")
	for i := range MaxClients {
		s.take("q", fmt.Sprintf("client=%d&after=0", i))
	}
	refused("1024 clients: remove", "POST /{queue}/take?client=more&after=0", "q", "")
	refused("1024 clients: remove", "POST /{queue}/messages?client=more&number=1", "q", "")
	for i := range MaxQueues - 1 {
		s.call("PUT /{queue}", fmt.Sprint(i), nil)
	}
	refused("4096 queues: delete one", "PUT /{queue}", "more", "")
	s.call("DELETE /{queue}", "q", nil)
	if status, text := s.call("PUT /{queue}", "more", nil); status != http.StatusNoContent {
		t.Errorf("PUT when there is room: %d %q", status, text)
	}
}

// unanswered is a test in which a call that is not answered panics.
type unanswered struct{ *testing.T }

func (u unanswered) Fatalf(string, ...any) { panic(u) }

// create sends a request to create a queue, and reports whether it is answered at once.
func (s *site) create(queue string) (answered bool) {
	defer func() { answered = recover() == nil }()
	s.call("PUT /{queue}", queue, nil)
	return true
}

// A queue that is not created, because the actor of the names answers late, has no name there, and one that is has.
func TestLateCreation(t *testing.T) {
	for name, again := range map[string]bool{"once": false, "again meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(unanswered{t}, 3)
			s.net.Delay()
			queue := "q"
			for s.create(queue) { // it is in the group of the names
				queue += "q"
			}
			if s.net.Advance(600 * time.Millisecond); again {
				s.create(queue)
			}
			s.net.Advance(600 * time.Millisecond)
			for s.net.Waiting() > 0 {
				s.net.Deliver(0)
			}
			names, queues := map[string]bool{}, map[string]bool{}
			for _, r := range s.net.Rows(Name) {
				switch r.Table {
				case "names":
					names[r.Field.S] = true
				case "queues":
					queues[r.Cell.S] = true
				}
			}
			if !maps.Equal(names, queues) || queues[queue] != again {
				t.Errorf("the names are %v, and the queues %v", names, queues)
			}
		})
	}
}
