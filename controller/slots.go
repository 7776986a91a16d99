package controller

import (
	"net"
	"net/http"
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/access"
)

// slots are for the requests that are served at a time. One holder of a certificate or token, or one host where nobody
// has to say who one is, may have three times as many as are free then: alone three quarters of all, and others find
// one, too. Safe for concurrent use.
type slots struct {
	mu   sync.Mutex // guards the fields below
	free int
	of   map[string]int // by holder or host; none has 0
}

func newSlots(free int) *slots { return &slots{free: free, of: map[string]int{}} }

// take takes a slot. leave frees it, and must be called once; it is nil if there is none.
func (s *slots) take(who string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[who] >= 3*s.free {
		return nil
	}
	s.free--
	s.of[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free++
		if s.of[who]--; s.of[who] == 0 {
			delete(s.of, who)
		}
	}
}

// askedBy returns who makes a request: the holder of a certificate or token, or else the host.
func askedBy(r *http.Request) string {
	if id, known := access.IdentityOf(r.Context()); known {
		return id.String()
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
