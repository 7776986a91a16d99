package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Bounds of the applications' REST interface.
const (
	maxRequestBody = 1 << 20
	maxServed      = 1024                   // requests at a time; further ones are told to come again
	bodyTimeout    = 30 * time.Second       // of a client that is slow
	requestTimeout = 60 * time.Second       // of one that its application lets wait
	leaderCheck    = 100 * time.Millisecond // while a request waits that was passed on
	// of a client that is slow, or of a leader that does not say that it is none
	answerTimeout = 10 * time.Second
)

// forwarded marks a request that another controller has passed on, so that none goes round.
const forwarded = "Holdfast-Forwarded"

// rest serves the REST interface of hosted applications: a request is an input, logged and executed on every
// controller, and answered once, by the leader. Another controller passes it on to the leader.
type rest struct {
	*web
	c      *Controller
	leader *http.Transport // to whoever leads
	slots  chan struct{}   // taken by requests that are served
}

func (c *Controller) serveREST(l net.Listener) *rest {
	r := newREST(c)
	r.start(l)
	return r
}

func newREST(c *Controller) *rest {
	r := &rest{c: c, slots: make(chan struct{}, maxServed), leader: &http.Transport{
		// and no proxy that the environment names
		DialContext:           (&net.Dialer{Timeout: answerTimeout}).DialContext,
		ResponseHeaderTimeout: requestTimeout + answerTimeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: maxServed,
	}}
	r.web = newWeb(c.log, &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:  bodyTimeout,
		WriteTimeout: bodyTimeout + requestTimeout + 2*answerTimeout, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 64 << 10})
	return r
}

func (r *rest) close() error {
	defer r.leader.CloseIdleConnections()
	return r.web.close()
}

func (r *rest) serve(w http.ResponseWriter, in *http.Request) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		http.Error(w, replay.ErrBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	leader := func() uint64 { return r.c.node.Status().Leader }
	if id := leader(); id != r.c.cfg.Consensus.ID && id != 0 {
		ctx, cancel := whileLeads(in.Context(), id, leader)
		defer cancel()
		r.forward(w, in.WithContext(ctx), r.c.cfg.RESTPeers[id])
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, in.Body, maxRequestBody))
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), bodyStatus(err, http.StatusBadRequest))
		return
	}
	ctx, cancel := context.WithTimeout(in.Context(), requestTimeout)
	defer cancel()
	answer, err := r.c.Request(ctx, requestOf(in, body))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the application does not answer", http.StatusGatewayTimeout)
	case errors.Is(err, replay.ErrLeftOut): // not to be sent again
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		if err := writeAnswer(w, in, &answer); err != nil {
			r.c.log.Debug("answer of an application not written", "to", in.RemoteAddr, "err", err)
		}
	}
}

// whileLeads returns a context that ends, with replay.ErrLeaderChanged, soon after leader says another than id: one
// that hangs, or has no power, would let a request wait for its time-out.
func whileLeads(ctx context.Context, id uint64, leader func() uint64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		tick := time.NewTicker(leaderCheck)
		defer tick.Stop()
		for leader() == id {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel(replay.ErrLeaderChanged)
	}()
	return ctx, func() { cancel(nil) }
}

// bodyStatus is the answer when a request's body could not be read, or passed on: its size may be why.
func bodyStatus(err error, otherwise int) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	return otherwise
}

// requestOf is what applications are told of a request.
func requestOf(in *http.Request, body []byte) *wire.HTTPRequest {
	q := &wire.HTTPRequest{Method: in.Method, Path: in.URL.RequestURI(),
		Headers: []wire.Header{{Name: "Host", Value: in.Host}}, Body: body}
	header := endToEnd(in.Header)
	header.Del(forwarded)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, v := range header[name] {
			q.Headers = append(q.Headers, wire.Header{Name: name, Value: v})
		}
	}
	return q
}

// writeAnswer writes what an application has answered, which may be anything.
func writeAnswer(w http.ResponseWriter, in *http.Request, a *wire.Answer) error {
	if a.Status < 200 || a.Status > 599 {
		http.Error(w, fmt.Sprintf("the application answers with status %d", a.Status), http.StatusBadGateway)
		return nil
	}
	header := http.Header{}
	for _, h := range a.Headers {
		header.Add(h.Name, h.Value)
	}
	header = endToEnd(header)
	if in.Method != http.MethodHead {
		header.Del("Content-Length") // it is known, and may be another
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(a.Status)
	if len(a.Body) == 0 {
		return nil
	}
	_, err := w.Write(a.Body)
	return err
}

// endToEnd returns a header without what concerns the connection that it came on (RFC 9110, section 7.6.1).
func endToEnd(h http.Header) http.Header {
	h = h.Clone()
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
	return h
}

// forward passes a request on to the leader, as it is.
func (r *rest) forward(w http.ResponseWriter, in *http.Request, leader string) {
	switch {
	case in.Header.Get(forwarded) != "":
		http.Error(w, replay.ErrNotLeading.Error()+": ask again, or another one", http.StatusServiceUnavailable)
		return
	case leader == "":
		http.Error(w, replay.ErrNotLeading.Error()+", and the leader has no address for requests: give every "+
			"controller a rest: in the cluster file", http.StatusServiceUnavailable)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: r.leader, ErrorLog: r.server.ErrorLog,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery, p.Out.Host = "http", leader, p.In.URL.RawQuery,
				p.In.Host
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = v
				}
			}
			p.Out.Header.Set(forwarded, "1")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if why := context.Cause(in.Context()); errors.Is(why, replay.ErrLeaderChanged) {
				http.Error(w, why.Error(), http.StatusServiceUnavailable)
				return
			}
			http.Error(w, "pass the request on to the leader at "+leader+": "+err.Error(),
				bodyStatus(err, http.StatusBadGateway))
		},
	}
	in.Body = http.MaxBytesReader(w, in.Body, maxRequestBody)
	proxy.ServeHTTP(w, in)
}

// Request gives the hosted applications an HTTP request and waits for the answer. Safe for concurrent use. The errors
// are those of package hosting, ctx's, and one that says that the controller stops.
func (c *Controller) Request(ctx context.Context, r *wire.HTTPRequest) (wire.Answer, error) {
	if c.core.Hosting() == nil {
		return wire.Answer{}, errors.New("this controller hosts no applications")
	}
	type outcome struct {
		answer wire.Answer
		err    error
	}
	done := make(chan outcome, 1)
	var forget func()
	err := c.inLoop(ctx, func() {
		forget = c.core.Hosting().Request(r.Append(nil), func(a wire.Answer, err error) { done <- outcome{a, err} })
	})
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		_ = c.inLoop(context.Background(), forget) // it fails when the loop has ended, which has forgotten all
		return wire.Answer{}, ctx.Err()
	}
}
