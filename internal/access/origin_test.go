package access

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// A page of another site changes nothing through the browser of somebody who reaches a controller. Programs, and pages
// of this site, do.
func TestOtherSites(t *testing.T) {
	const change, page, evil = "POST /holdfast.v1.Operations/ChangeMembers", "http://127.0.0.1:8653", "http://evil.example"
	cluster := &config.Cluster{Controllers: []config.Controller{{API: "Lab.example:8653"}}}
	guard, err := NewGuard(t.Context(), cluster, nil, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	with := newGuarded(t)
	for _, c := range []struct {
		what, request, host string
		header              []string
		open, closed        bool // whether it is served without and with tokens
	}{
		{"a program", change, "127.0.0.1:8653", nil, true, true},
		{"a program by a name of the cluster file", change, "lab.example:8653", nil, true, true},
		{"a program by another name", change, "other.example:8653", nil, false, true},
		{"localhost", change, "localhost:1", nil, true, true},
		{"IPv6", change, "[::1]:8653", nil, true, true},
		{"no port", change, "[::1]", nil, true, true},
		{"HTTP/1.0", change, "", nil, true, true},
		{"the dashboard", change, "127.0.0.1:8653", []string{"Origin", page, "Sec-Fetch-Site", "same-origin"}, true, true},
		{"an old browser", change, "127.0.0.1:8653", []string{"Origin", page}, true, true},
		{"a form of another site", change, "127.0.0.1:8653", []string{"Origin", evil, "Sec-Fetch-Site", "cross-site"},
			false, false},
		{"the same of an old browser", change, "127.0.0.1:8653", []string{"Origin", evil}, false, false},
		{"an image of another site", "GET /", "127.0.0.1:8653", []string{"Sec-Fetch-Site", "cross-site"}, true, true},
		{"a page whose name has our address now", "GET /", "evil.example:8653", nil, false, true},
		{"a WebSocket of a program", "GET /", "127.0.0.1:8653", []string{"Upgrade", "websocket"}, true, true},
		{"a WebSocket of our page", "GET /", "127.0.0.1:8653", []string{"Upgrade", "websocket", "Origin", page}, true, true},
		{"a WebSocket of another site", "GET /", "127.0.0.1:8653", []string{"Upgrade", "websocket", "Origin", evil},
			false, false},
		{"a WebSocket of a file", "GET /", "127.0.0.1:8653", []string{"Upgrade", "websocket", "Origin", "null"}, false, false},
	} {
		method, pattern, _ := strings.Cut(c.request, " ")
		served := func(g *Guard) (done bool) {
			r := httptest.NewRequest(method, "http://127.0.0.1/path", nil)
			r.Host = c.host
			r.Header.Set("Authorization", bearer+with.tokens["admin"])
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
				net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})))
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			g.Serve(httptest.NewRecorder(), r, pattern, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				done = true
			}))
			return done
		}
		if open, closed := served(guard), served(with.Guard); open != c.open || closed != c.closed {
			t.Errorf("%s is served: %v without tokens, %v with tokens", c.what, open, closed)
		}
	}
}
