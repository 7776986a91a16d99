// Package client is a client of one namespace of the consistent data store (package store), in any process. It finds a
// controller that answers, and repeats a request until it is answered: with its session, a request takes effect once
// whatever fails. It keeps no copies of rows: each read is linearizable, and goes to the leader.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/holdfast-sdn/holdfast/store"
)

// Client is a client of one namespace. It is safe for concurrent use. The first write opens a session. At most
// store.Window writes are executed at a time; more wait.
type Client struct {
	addresses []string
	path      string
	http      http.Client
	at        atomic.Uint64 // index, modulo their number, of the address that answered last
	sessions  sessions
}

// New returns a client of a namespace. The addresses are those that controllers have as `rest` in the cluster file, as
// HOST:PORT. It connects when it is used. Close is to be called at the end.
func New(namespace string, addresses ...string) (*Client, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no controller has a `rest` address: add one to each controller in the cluster file")
	}
	if err := store.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	c := &Client{addresses: slices.Clone(addresses), path: "/apps/" + store.Name + "/" + namespace}
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: store.Window, IdleConnTimeout: 20 * time.Second}
	c.sessions.open, c.sessions.opening = c.openSession, make(chan struct{}, 1)
	return c, nil
}

// Close ends the session, and closes the connections. Requests must have ended.
func (c *Client) Close() {
	defer c.http.CloseIdleConnections()
	s, seq, acked := c.sessions.take()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_, _, _ = c.ask(ctx, store.Request{Session: s.id, Seq: seq, Acked: acked, // else it expires
		Ops: []store.Op{{Kind: store.CloseSession}}})
}

// closeTimeout bounds how long Close waits for the end of the session.
const closeTimeout = time.Second

// UnknownError is the error of a request that writes and was not answered before its context ended, or whose session
// expired meanwhile: it was executed once, or was not, or may still be.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string {
	return "not known whether the request was executed, so read before you repeat it: " + e.Err.Error()
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Do executes ops as one transaction, and returns a result for each. It repeats them until a controller answers or ctx
// ends. The error is a *store.Error if the namespace refuses them, and has not changed; an *UnknownError; or another
// one if nothing was executed, or only reads were.
func (c *Client) Do(ctx context.Context, ops ...store.Op) (store.Response, error) {
	if !slices.ContainsFunc(ops, func(o store.Op) bool { return o.Kind.Writes() }) {
		out, _, err := c.ask(ctx, store.Request{Ops: ops})
		return out, err
	}
	for {
		s, seq, acked, err := c.sessions.begin(ctx)
		if err != nil {
			return store.Response{}, fmt.Errorf("begin a session: %w", err)
		}
		out, sent, err := c.ask(ctx, store.Request{Session: s.id, Seq: seq, Acked: acked, Ops: ops})
		c.sessions.end(s, seq)
		refused, is := errors.AsType[*store.Error](err)
		switch {
		case is && refused.Code == store.Expired:
			if c.sessions.drop(s); sent == 1 {
				continue // nobody can have executed it
			}
		case is && sent > 1 && (refused.Code == store.Failed || refused.Code == store.Outdated):
			// it says nothing of the first attempt
		case err == nil || is:
			return out, err
		}
		if sent == 0 {
			return out, err
		}
		return out, &UnknownError{err}
	}
}

func (c *Client) openSession(ctx context.Context) (id uint64, err error) {
	out, _, err := c.ask(ctx, store.Request{Ops: []store.Op{{Kind: store.OpenSession}}})
	if err != nil {
		return 0, err
	}
	return out.Results[0].Session, nil
}

// The pauses between two attempts, which grow.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// ask sends a request to one controller after the other until one answers, and says how often it was sent to one that
// may have received it.
func (c *Client) ask(ctx context.Context, r store.Request) (out store.Response, sent int, err error) {
	if err := checkText(r.Ops); err != nil {
		return out, 0, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return out, 0, fmt.Errorf("encode the request: %w", err)
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for wait := leastPause; ; wait = min(2*wait, mostPause) {
		if ctx.Err() != nil {
			return out, sent, fmt.Errorf("no controller answers (%v): %w", err, context.Cause(ctx))
		}
		at := c.at.Load()
		sent++
		if out, err = c.send(ctx, c.addresses[at%uint64(len(c.addresses))], body); err == nil {
			return out, sent, checkResults(out, r)
		}
		if _, is := errors.AsType[*store.Error](err); is {
			return out, sent, err
		}
		if failed, is := errors.AsType[*net.OpError](err); is && failed.Op == "dial" {
			sent--
		}
		if ctx.Err() == nil {
			c.at.CompareAndSwap(at, at+1)
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// checkText refuses keys that are not UTF-8: JSON would make different ones equal.
func checkText(ops []store.Op) error {
	for i, o := range ops {
		for _, text := range []string{o.Key, o.From, o.To, o.Prefix} {
			if !utf8.ValidString(text) {
				return &store.Error{Code: store.Invalid, Message: fmt.Sprintf("%q is not UTF-8", text), Op: i}
			}
		}
	}
	return nil
}

func checkResults(out store.Response, r store.Request) error {
	if len(out.Results) != len(r.Ops) {
		return fmt.Errorf("%d results for %d ops", len(out.Results), len(r.Ops))
	}
	return nil
}

// attemptTimeout is how long one controller has to answer. Controllers answer within 5 seconds.
const attemptTimeout = 8 * time.Second

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// send sends a request once. The error is a *store.Error if the namespace refuses it.
func (c *Client) send(ctx context.Context, address string, body []byte) (out store.Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+c.path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := c.http.Do(q)
	if err != nil {
		return out, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	if err != nil {
		return out, err
	}
	if a.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &out)
		return out, err
	}
	var failed struct{ Error *store.Error }
	if json.Unmarshal(text, &failed) == nil && failed.Error != nil {
		return out, failed.Error
	}
	text = bytes.TrimSpace(text)
	switch {
	case a.StatusCode == http.StatusNotFound:
		return out, &store.Error{Code: store.Failed, Op: -1, Message: fmt.Sprintf(
			"%s has no store: add %s to `apps` in the cluster file (%s)", address, store.Name, text)}
	case a.StatusCode < http.StatusBadGateway: // it will be the same at another one
		return out, &store.Error{Code: store.Failed, Op: -1, Message: fmt.Sprintf("%s: %s", a.Status, text)}
	}
	return out, fmt.Errorf("%s answers with %s: %s", address, a.Status, text)
}
