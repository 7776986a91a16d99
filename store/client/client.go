// Package client is a client of one namespace of the consistent data store (package store), in any process. It finds a
// controller that answers, and repeats requests until they are answered: with its session, a transaction takes effect
// once whatever fails. Transactions that are executed at the same time are sent together. It keeps no copies of rows:
// each read is linearizable, and goes to the leader.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// Client is a client of one namespace. It is safe for concurrent use. The first write opens a session.
type Client struct {
	addresses []string
	namespace string
	dial      rpc.Dial        // nil: plain TCP
	transport *http.Transport // for watches
	token     Token
	at        int // index of the address that is used; of the goroutine run

	mu    sync.Mutex // guards the fields up to wake
	lanes [lanes]lane
	// session is the present one. acked says up to which of its requests all are answered, and last is the last.
	session, acked, last uint64
	opening              bool       // a session is asked for
	asked                time.Time  // when the present session was asked for
	reopen               time.Time  // the next one could not be opened, and is asked for again from then on
	replaced             []replaced // sessions before the present one, to be closed
	batches              uint64
	why                  error       // the last attempt failed
	some                 bool        // is answered since
	on                   *connection // that is used; nil: none
	sending              bool        // a goroutine sends, or is about to, until nothing is left

	wake   chan struct{} // capacity 1: there is something to send
	cancel context.CancelFunc
	ended  chan struct{} // closed when run has ended
}

// New returns a client of a namespace, which may have store.Buckets. The addresses are those that controllers have as
// `rest` in the cluster file, as HOST:PORT. It connects when it is used. Close is to be called at the end.
func New(namespace string, addresses ...string) (*Client, error) {
	return newClient(namespace, nil, Token{}, addresses)
}

// TLS are the files with which a client proves who it is, as PEM. The certificate's role is client, viewer,
// operator or admin.
type TLS struct {
	CA        string // the authority of the cluster
	Cert, Key string // of the client
}

// NewTLS returns a client of a cluster with TLS, as New does. Changed files are used for new connections.
func NewTLS(namespace string, files TLS, addresses ...string) (*Client, error) {
	c, err := mtls.Load(mtls.Files(files), mtls.Role(pki.Client, pki.Viewer, pki.Operator, pki.Admin, pki.Controller),
		slog.Default())
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return newClient(namespace, over(c), Token{}, addresses)
}

// over returns what connects to controllers over TLS.
func over(c *mtls.Credentials) rpc.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return c.Dial(ctx, address, mtls.Role(pki.Controller))
	}
}

// Token is how a client without a certificate says who it is: by a token of `holdfast token add`.
type Token struct {
	Secret string // the token
	File   string // or the file that has it, which is read for each connection
	CA     string // the file with the authority of the cluster; "": without TLS, so who reads the network reads it
}

// secret returns the token; "" if there is none.
func (t Token) secret() (string, error) {
	if t.File == "" {
		return t.Secret, nil
	}
	return token.ReadSecret(t.File)
}

// NewToken returns a client that has a token, as New does. What its holder may do is decided by the role of the token,
// and for clients by the rules for its name.
func NewToken(namespace string, t Token, addresses ...string) (*Client, error) {
	secret, err := t.secret()
	if err == nil && !token.Is(secret) {
		err = errors.New("token: it is not one of `holdfast token add`")
	}
	switch {
	case err != nil:
		return nil, err
	case t.CA == "":
		return newClient(namespace, nil, t, addresses)
	}
	c, err := mtls.LoadAuthority(t.CA, slog.Default())
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return newClient(namespace, over(c), t, addresses)
}

func newClient(namespace string, dial rpc.Dial, t Token, addresses []string) (*Client, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no controller has a `rest` address: add one to each controller in the cluster file")
	}
	if err := store.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	c := &Client{addresses: slices.Clone(addresses), namespace: namespace, dial: dial, token: t,
		transport: rpc.Transport(dial), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.run(ctx) // until Close
	return c, nil
}

// closeTimeout bounds how long Close waits for the end of the session.
const closeTimeout = time.Second

// Close ends the session, and closes the connection. Calls of other methods must have ended.
func (c *Client) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c.mu.Lock()
	there := c.session != 0
	c.mu.Unlock()
	if there {
		_, _ = c.Do(ctx, store.Op{Kind: store.CloseSession}) // else it expires
	}
	c.cancel()
	<-c.ended
	c.transport.CloseIdleConnections()
}

// UnknownError is the error of transactions that write and were not answered before the context ended, or whose session
// expired meanwhile: they were executed once, or were not, or may still be.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string {
	return "not known whether the request was executed, so read before you repeat it: " + e.Err.Error()
}

func (e *UnknownError) Unwrap() error { return e.Err }

// Do executes ops as one transaction, and returns a result for each. It repeats them until a controller answers or ctx
// ends. The error is a *store.Error if the namespace refuses them, and has not changed; an *UnknownError; or another
// one if nothing was executed, or only reads were.
func (c *Client) Do(ctx context.Context, ops ...store.Op) (store.Outcome, error) {
	w, err := newWork(ctx, nil, ops)
	if err != nil {
		return store.Outcome{}, err
	}
	c.put(w)
	return c.one(ctx, w)
}

// Together executes transactions side by side, as that many callers of Do at the same time: in any order, and each
// takes effect or is refused by itself. It returns what Do returns for each.
func (c *Client) Together(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, []error) {
	outcomes, errs := make([]store.Outcome, len(transactions)), make([]error, len(transactions))
	list, by := make([]*work, 0, len(transactions)), &caller{done: make(chan struct{})}
	for i, ops := range transactions {
		w, err := newWork(ctx, by, ops)
		if errs[i] = err; err == nil {
			list = append(list, w)
		}
	}
	c.put(list...)
	for i := range transactions {
		if errs[i] == nil {
			outcomes[i], errs[i] = c.one(ctx, list[0])
			list = list[1:]
		}
	}
	return outcomes, errs
}

// Batch executes transactions in order, at most store.MaxOps ops in all, and returns an outcome for each. A transaction
// that is refused does not hold up the next. Its error is that of Do.
func (c *Client) Batch(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, error) {
	w, err := newWork(ctx, nil, transactions...)
	if err != nil {
		return nil, err
	}
	c.put(w)
	return c.wait(ctx, w)
}

// newWork returns work that is to be put, and then waited for. by is who waits for other work too; nil: nobody does.
func newWork(ctx context.Context, by *caller, transactions ...[]store.Op) (*work, error) {
	w := &work{transactions: len(transactions), caller: by}
	if by == nil {
		w.only.done, w.caller = make(chan struct{}), &w.only
	}
	if err := w.encode(transactions); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("nothing was sent: %w", context.Cause(ctx))
	}
	w.caller.left++
	return w, nil
}

// put queues work, and sends what can be sent now.
func (c *Client) put(list ...*work) {
	c.mu.Lock()
	for _, w := range list {
		c.lanes[w.lane].queue = append(c.lanes[w.lane].queue, w)
	}
	sends := c.begin()
	c.mu.Unlock()
	if sends {
		c.send()
	}
}

// wait waits for work that was put.
func (c *Client) wait(ctx context.Context, w *work) ([]store.Outcome, error) {
	select { // it costs much less than the next one
	case <-w.caller.done:
		return w.outcomes, w.err
	default:
	}
	select {
	case <-w.caller.done:
		return w.outcomes, w.err
	case <-ctx.Done():
	case <-c.ended:
	}
	return c.giveUp(ctx, w)
}

// one is wait for work of one transaction.
func (c *Client) one(ctx context.Context, w *work) (store.Outcome, error) {
	list, err := c.wait(ctx, w)
	if err != nil {
		return store.Outcome{}, err
	}
	if list[0].Error != nil {
		return store.Outcome{}, list[0].Error
	}
	return list[0], nil
}

// giveUp ends the wait for work, because ctx or the client has ended.
func (c *Client) giveUp(ctx context.Context, w *work) ([]store.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.givenUp = true
	err := errors.New("the client is closed")
	if ctx.Err() != nil {
		err = fmt.Errorf("no controller answers, of which a majority must run (%v): %w", c.why, context.Cause(ctx))
	}
	switch {
	case w.answered:
		return w.outcomes, w.err
	case w.sent && w.lane == writes:
		return nil, &UnknownError{err}
	}
	l := &c.lanes[w.lane]
	l.queue = slices.DeleteFunc(l.queue, func(o *work) bool { return o == w })
	return nil, err
}

// Trouble returns why the last attempt to reach a controller has failed; nil if the client has a connection, or has not
// tried to have one.
func (c *Client) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on != nil {
		return nil
	}
	return c.why
}

// nudge has run look whether there is something to send.
func (c *Client) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin reports whether the caller is to call send: there is a connection, and no other goroutine sends. c.mu is held.
func (c *Client) begin() bool {
	if c.on == nil {
		c.nudge()
		return false
	}
	begins := !c.sending
	c.sending = true
	return begins
}

// send sends what waits, in the goroutine that has noticed it: to wake another one takes as long as to write. Requests
// that can be sent at the same time leave in one write, so the leader executes them in one turn.
func (c *Client) send() {
	runtime.Gosched() // others that are about to ask, because the same responses came, do it first
	c.mu.Lock()
	defer c.mu.Unlock()
	for on := c.on; on != nil; on = c.on {
		r := c.next(on)
		if r == nil {
			break
		}
		for ; r != nil; r = c.next(on) {
			on.Queue(r)
		}
		c.mu.Unlock()
		on.Flush()
		c.mu.Lock()
	}
	c.sending = false
}

// opRoom is how many bytes most encoded ops need at most.
const opRoom = 160

// encode encodes the transactions, so that the caller may change them when it has given up.
func (w *work) encode(transactions [][]store.Op) error {
	w.alone = len(transactions) > 1 // so that it keeps its order, see distribute
	for _, ops := range transactions {
		if len(ops) == 0 {
			return store.Fail(store.Invalid, "a transaction has no ops")
		}
		w.ops += len(ops)
		for i := range ops {
			o := &ops[i]
			if !o.IsText() {
				refused := store.Fail(store.Invalid, "%q has a text that is not UTF-8", o.Key)
				refused.Op = i
				return refused
			}
			if o.Kind.Writes() {
				w.lane = writes
			}
			w.alone = w.alone || o.Kind.LooksAtMany() || o.Kind == store.CloseSession
		}
	}
	if w.ops == 0 || w.ops > store.MaxOps {
		return store.Fail(store.Invalid, "a batch has 1 to %d ops, this one has %d", store.MaxOps, w.ops)
	}
	w.encoded = store.AppendTransactions(make([]byte, 0, w.ops*opRoom), transactions)
	if size := len(w.encoded); size > store.MaxRequest-maxHeader {
		return store.Fail(store.TooLarge, "a batch has at most %d bytes, this one has %d", store.MaxRequest-maxHeader,
			size)
	}
	return nil
}

// maxHeader bounds what a request has besides its transactions, in bytes.
const maxHeader = 512
