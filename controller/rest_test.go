package controller

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

func TestRequestOf(t *testing.T) {
	in := httptest.NewRequest("PUT", "http://there/a%2Fb?x=1;y", strings.NewReader("body"))
	in.Header = http.Header{"B": {"2", "3"}, "A": {"1"}, "Connection": {"close, x-mine", "Other"}, "X-Mine": {"hop"},
		"Other": {"hop"},
		"Te":    {"trailers"}, "Upgrade": {"h2c"}, forwarded: {"1"}}
	q := requestOf(in, []byte("body"))
	want := []wire.Header{{Name: "Host", Value: "there"}, {Name: "A", Value: "1"}, {Name: "B", Value: "2"},
		{Name: "B", Value: "3"}}
	if q.Method != "PUT" || q.Path != "/a%2Fb?x=1;y" || string(q.Body) != "body" || len(q.Headers) != len(want) {
		t.Fatalf("request %+v", q)
	}
	for i := range want {
		if q.Headers[i] != want[i] {
			t.Errorf("header %+v, want %+v", q.Headers[i], want[i])
		}
	}
	if len(in.Header) != 8 {
		t.Error("the request itself is changed")
	}
}

// What a request names becomes text in tables, which other controllers must be able to read.
func TestRequestsOfText(t *testing.T) {
	for query, want := range map[string]bool{"": true, "a=%C3%BC": true, "a=%ff": false, "%ff=a": false} {
		r := httptest.NewRequest("GET", "/?"+query, nil)
		if got := isText(httpcall.Request{Query: r.URL.Query()}); got != want {
			t.Errorf("%q is text: %v", query, got)
		}
	}
	if isText(httpcall.Request{Values: map[string]string{"name": "\xff"}}) {
		t.Error("bytes in the path are text")
	}
}

// An application may answer anything. The client receives a valid answer, and its connection stays usable.
func TestWriteAnswer(t *testing.T) {
	h := func(pairs ...string) (list []wire.Header) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, wire.Header{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		method string
		answer wire.Answer
		status int
		body   string
		header map[string]string // "" means that the header must be absent
	}{
		{"plain", "GET", wire.Answer{Status: 200, Headers: h("Content-Type", "text/plain", "X", "1"),
			Body: []byte("ok")}, 200, "ok", map[string]string{"Content-Type": "text/plain", "X": "1"}},
		{"no status", "GET", wire.Answer{Body: []byte("x")}, 502, "", nil},
		{"status of a handshake", "GET", wire.Answer{Status: 101}, 502, "", nil},
		{"status 65535", "GET", wire.Answer{Status: 65535}, 502, "", nil},
		{"too long", "GET", wire.Answer{Status: 200, Headers: h("Content-Length", "1000"), Body: []byte("short")}, 200,
			"short", nil},
		{"too short", "GET", wire.Answer{Status: 200, Headers: h("content-length", "1"), Body: []byte("long")}, 200,
			"long", nil},
		{"chunked", "GET", wire.Answer{Status: 200, Headers: h("Transfer-Encoding", "chunked", "Connection",
			"close, X-Hop", "X-Hop", "1", "Keep-Alive", "9"), Body: []byte("text")}, 200, "text",
			map[string]string{"X-Hop": "", "Keep-Alive": ""}},
		{"names that are none", "GET", wire.Answer{Status: 200, Headers: h("a b\r\nX", "1", "", "2", "Y", "a\r\nZ: 1")},
			200, "", map[string]string{"X": "", "Z": ""}},
		{"no content", "GET", wire.Answer{Status: 204, Body: []byte("x")}, 204, "", nil},
		{"head", "HEAD", wire.Answer{Status: 200, Headers: h("Content-Length", "7")}, 200, "",
			map[string]string{"Content-Length": "7"}},
		{"head with a body", "HEAD", wire.Answer{Status: 200, Body: []byte("x")}, 200, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				_ = writeAnswer(w, r, &tt.answer)
			}))
			defer s.Close()
			for range 2 { // the second request uses the same connection if it is still open
				answer, body := exchange(t, s.Client(), tt.method, s.URL)
				if answer.StatusCode != tt.status || tt.body != "" && body != tt.body {
					t.Errorf("answer %d %q", answer.StatusCode, body)
				}
				for name, want := range tt.header {
					if got := answer.Header.Get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
			}
		})
	}
}

func exchange(t *testing.T, c *http.Client, method, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// A request is forwarded unchanged except for a mark. A request with the mark is not forwarded again.
func TestForward(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	seen := make(chan *http.Request, 1)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("X-Answer", "1")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer leader.Close()
	rest := newREST(&Controller{log: quiet})
	defer rest.leader.CloseIdleConnections()
	at := strings.TrimPrefix(leader.URL, "http://")
	in := httptest.NewRequest("GET", "http://here/a%2Fb?x=1;y=%zz", nil)
	in.Header.Set("X-Forwarded-For", "192.0.2.1")
	w := httptest.NewRecorder()
	rest.forward(w, in, at)
	got := <-seen
	if w.Code != http.StatusTeapot || w.Header().Get("X-Answer") != "1" {
		t.Errorf("answer %d %v", w.Code, w.Header())
	}
	if got.RequestURI != "/a%2Fb?x=1;y=%zz" || got.Host != "here" || got.Header.Get(forwarded) != "1" ||
		got.Header.Get("X-Forwarded-For") != "192.0.2.1" {
		t.Errorf("the leader got %s of %s, %v", got.RequestURI, got.Host, got.Header)
	}

	in.Header.Set(forwarded, "1")
	w = httptest.NewRecorder()
	rest.forward(w, in, at)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("passed on twice: answer %d", w.Code)
	}
	in.Header.Del(forwarded)
	for _, address := range []string{"", nobody(t)} {
		w = httptest.NewRecorder()
		rest.forward(w, in, address)
		if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusBadGateway {
			t.Errorf("leader at %q: answer %d", address, w.Code)
		}
		if says := strings.Contains(w.Body.String(), "cluster file"); says != (address == "") {
			t.Errorf("leader at %q: answer %s", address, w.Body)
		}
	}
}

// If the leader hangs, a client that waits for it is told when another controller leads.
func TestForwardToWhoHangs(t *testing.T) {
	var leads atomic.Uint64
	leads.Store(7)
	release := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		leads.Store(8)
		<-release
	}))
	defer leader.Close()
	defer close(release)
	rest := newREST(&Controller{log: quiet})
	defer rest.leader.CloseIdleConnections()
	ctx, cancel := whileLeads(t.Context(), 7, leads.Load)
	defer cancel()
	w := httptest.NewRecorder()
	rest.forward(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx), strings.TrimPrefix(leader.URL, "http://"))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), replay.ErrLeaderChanged.Error()) {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
}

// A body that is too large is answered with 413, whichever controller notices. A body that ends too soon is not.
func TestBody(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_,
			_ = io.Copy(io.Discard, r.Body)
	}))
	defer leader.Close()
	rest := newREST(&Controller{log: quiet})
	defer rest.leader.CloseIdleConnections()
	w := httptest.NewRecorder()
	rest.forward(w, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", maxRequestBody+1))),
		strings.TrimPrefix(leader.URL, "http://"))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("passed on: answer %d %s", w.Code, w.Body)
	}
	if got := bodyStatus(io.ErrUnexpectedEOF, http.StatusBadRequest); got != http.StatusBadRequest {
		t.Errorf("a body that ends too soon: answer %d", got)
	}
}

// nobody returns an address on which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// The number of concurrent requests is bounded, and nobody takes all places.
func TestServed(t *testing.T) {
	rest := newREST(&Controller{log: quiet})
	defer rest.leader.CloseIdleConnections()
	take := func(who string) (leave []func()) {
		for f := rest.slots.take(who); f != nil; f = rest.slots.take(who) {
			leave = append(leave, f)
		}
		return leave
	}
	ask := func(host string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = host + ":1"
		rest.server.Handler.ServeHTTP(w, r)
		return w.Code
	}
	mine := take("192.0.2.1")
	if len(mine) != maxServed*3/4 {
		t.Errorf("one host has %d of %d places", len(mine), maxServed)
	}
	if code := ask("192.0.2.1"); code != http.StatusServiceUnavailable {
		t.Errorf("one more request of it: answer %d", code)
	}
	if code := ask("192.0.2.2"); code != http.StatusNotFound { // nothing is served
		t.Errorf("a request of another host: answer %d", code)
	}
	second := take("192.0.2.2")
	if third := take("192.0.2.3"); len(second) < len(third) || len(third) == 0 {
		t.Errorf("a second host has %d places, a third one %d", len(second), len(third))
	}
	for _, leave := range mine {
		leave()
	}
	if again := take("192.0.2.1"); len(again) == 0 {
		t.Error("places are not free again")
	}
	if s := rest.server; s.ReadHeaderTimeout <= 0 || s.WriteTimeout < s.ReadTimeout+requestTimeout ||
		s.IdleTimeout > time.Minute {
		t.Errorf("a slow client has %v to read, %v in all", s.ReadTimeout, s.WriteTimeout)
	}
}
