package store

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// The answers to requests that may change something are kept until the client acknowledges them. So a request that
// comes again is answered, and not executed again.
const (
	// Window bounds the requests of a session that are not acknowledged.
	Window = 8
	// SessionTime is how long a session is kept at least after the last request with an answer that was kept.
	SessionTime = time.Minute
	// MaxSessions bounds the sessions of a namespace.
	MaxSessions = 1024
	// maxKept bounds the answer to a request with a session, in bytes.
	maxKept = 32 << 10

	expireTimer = "sessions"
)

// session is a session as it is stored: the time at which it ends, in ns since 1970 of ledger time, up to which seq the
// client has the answers, and who that is (Request.Client).
type session struct {
	ends, acked uint64
	client      string
}

func (s session) append(b []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, s.ends), s.acked), s.client...)
}

func decodeSession(b []byte) (s session) {
	n := 0
	s.ends, n = binary.Uvarint(b)
	b = b[max(n, 0):]
	s.acked, n = binary.Uvarint(b)
	s.client = string(b[max(n, 0):])
	return s
}

// session returns a session; false if it is not there.
func (n *namespace) session(id uint64) (s session, there bool) {
	b, there := n.tx.Get(n.tx.Table(sessionTable), n.cell, ledger.Key{A: id})
	return decodeSession(b), there
}

func (n *namespace) openSession(out *Result) error {
	n.meta.lastSession++
	out.Session = n.meta.lastSession
	return n.addSession(out.Session)
}

func (n *namespace) addSession(id uint64) error {
	if n.meta.sessions >= MaxSessions {
		n.removeEnded() // the timer may be late
	}
	if n.meta.sessions++; n.meta.sessions > MaxSessions {
		return Fail(TooLarge, "namespace %s has %d sessions, no more are possible: one ends %v after its last write",
			n.name, MaxSessions, SessionTime)
	}
	n.changed = true
	n.renew(id, 0, n.client)
	if _, set := n.tx.Timer(expireTimer); set {
		return nil
	}
	return n.tx.SetTimer(expireTimer, SessionTime, nil)
}

// renew stores a session.
func (n *namespace) renew(id, acked uint64, client string) {
	s := session{uint64(n.tx.Now().Add(SessionTime).UnixNano()), acked, client}
	n.tx.Put(n.tx.Table(sessionTable), n.cell, ledger.Key{A: id}, s.append(nil))
}

// answered returns the answer to a request that was executed or refused before; nil if it was not.
func (n *namespace) answered(r *Request) (answer []byte, err error) {
	s, there := n.session(r.Session)
	if !there || s.client != r.Client {
		return nil, Fail(Expired, "there is no session %d any more: it is not known here whether its last requests "+
			"were executed", r.Session)
	}
	switch kept, answered := n.tx.Get(n.tx.Table(sessionTable), n.cell, ledger.Key{A: r.Session, B: r.Seq}); {
	case answered:
		return slices.Clip(kept), nil
	case r.Seq <= s.acked:
		return nil, Fail(Outdated, "the client has acknowledged the answers to all requests up to %d", s.acked)
	case r.Seq > max(s.acked, r.Acked)+Window:
		return nil, Fail(Invalid, "seq %d is more than %d after what is acknowledged (%d)", r.Seq, Window,
			max(s.acked, r.Acked))
	}
	return nil, nil
}

// commit stores meta, and the encoded outcomes for a client that asks again. That a request was refused, or that a
// component has changed nothing, is kept too: a late copy could otherwise be executed, after the client was told so.
func (n *namespace) commit(r *Request, answer []byte) {
	if n.closes {
		n.close(r.Session)
	}
	n.save()
	if r.Session != 0 && !n.closes {
		n.keep(r, answer)
	}
}

// keep stores the answer to a request, and removes those that the client has.
func (n *namespace) keep(r *Request, answer []byte) {
	list := n.tx.Table(sessionTable)
	s, _ := n.session(r.Session)
	for i := range uint64(Window) { // there are no later ones
		if seq := s.acked + 1 + i; seq <= r.Acked {
			n.tx.Delete(list, n.cell, ledger.Key{A: r.Session, B: seq})
		}
	}
	n.renew(r.Session, max(s.acked, r.Acked), s.client)
	n.tx.Put(list, n.cell, ledger.Key{A: r.Session, B: r.Seq}, answer)
}

// close removes a session, and the answers to its requests.
func (n *namespace) close(id uint64) {
	list := n.tx.Table(sessionTable)
	s, _ := n.session(id)
	n.tx.Delete(list, n.cell, ledger.Key{A: id})
	for i := range uint64(Window) {
		n.tx.Delete(list, n.cell, ledger.Key{A: id, B: s.acked + 1 + i})
	}
	n.meta.sessions--
}

// expire removes the sessions that have ended, some at a time.
func (n *namespace) expire() error {
	again := SessionTime / 2
	if n.removeEnded() {
		again = time.Second
	}
	n.save()
	if n.meta.sessions == 0 {
		return nil
	}
	return n.tx.SetTimer(expireTimer, again, nil)
}

// maxEnded bounds the sessions that one transaction removes.
const maxEnded = 128

// removeEnded removes sessions that have ended, and reports whether there may be more.
func (n *namespace) removeEnded() (more bool) {
	list := n.tx.Table(sessionTable)
	now, ended := uint64(n.tx.Now().UnixNano()), 0
	removes := false // the session that the next fields belong to
	for field, b := range n.tx.Fields(list, n.cell) {
		if field.B == 0 { // a session; its answers follow
			if removes = decodeSession(b).ends <= now; removes {
				if ended++; ended > maxEnded {
					return true
				}
				n.meta.sessions--
			}
		}
		if removes {
			n.tx.Delete(list, n.cell, field)
		}
	}
	return false
}
