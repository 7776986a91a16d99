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

	replica "github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// Bounds of the applications' REST interface.
const (
	maxRequestBody = 1 << 20
	maxServed      = 1024                   // requests at a time; further ones get status 503
	bodyTimeout    = 30 * time.Second       // to read a request
	requestTimeout = 60 * time.Second       // until the application answers
	leaderCheck    = 100 * time.Millisecond // how often the leader is checked while a forwarded request waits
	pingAfter      = 15 * time.Second       // when a connection of HTTP/2 without traffic is checked
	// to write an answer, or to connect to the leader
	answerTimeout = 10 * time.Second
)

// forwarded is the header of a request that another controller has forwarded. It prevents loops.
const forwarded = "Holdfast-Forwarded"

// rest serves the handlers over HTTP of applications, below appsPath and at paths of their own, and the REST interface
// of replayed applications.
// A request to these is an input: it is logged, executed on every controller, and answered once, by the leader. The
// other controllers forward it to the leader.
type rest struct {
	*web
	c      *Controller
	apps   *http.ServeMux  // handlers of applications; nil if there are none
	leader *http.Transport // connections to the leader
	slots  *slots          // of requests that are served
	cancel func()          // ends connections that a handler has taken over
}

func (c *Controller) serveREST(l net.Listener) *rest {
	r := newREST(c)
	if mux := http.NewServeMux(); c.serveApplications(mux) {
		r.apps = mux
	}
	r.start(l)
	return r
}

func newREST(c *Controller) *rest {
	base, cancel := context.WithCancel(context.Background())
	r := &rest{c: c, slots: newSlots(maxServed), cancel: cancel, leader: &http.Transport{
		// no Proxy: those of the environment are not used
		DialContext:           c.dialREST,
		ResponseHeaderTimeout: requestTimeout + answerTimeout, IdleConnTimeout: time.Minute, MaxConnsPerHost: maxServed,
	}}
	r.web = newWeb(c.log, &http.Server{Handler: http.HandlerFunc(r.guard), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:  bodyTimeout,
		WriteTimeout: bodyTimeout + requestTimeout + 2*answerTimeout, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 64 << 10, Protocols: protocols(), ConnContext: mtls.WithConn,
		BaseContext: func(net.Listener) context.Context { return base },
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}})
	return r
}

// dialREST connects to the REST interface of another controller.
func (c *Controller) dialREST(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if c.cfg.DialAPI != nil {
		return c.cfg.DialAPI(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// protocols are HTTP/1.1, and HTTP/2 for clients that begin with it.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func (r *rest) close() error {
	defer r.leader.CloseIdleConnections()
	r.cancel()
	return r.web.close()
}

// guard lets only those use an application who may.
func (r *rest) guard(w http.ResponseWriter, in *http.Request) {
	path := in.URL.Path
	if !access.Known(path) {
		path = access.Applications
	}
	r.c.cfg.Guard.Serve(w, in, path, http.HandlerFunc(r.serve))
}

func (r *rest) serve(w http.ResponseWriter, in *http.Request) {
	leave := r.slots.take(askedBy(in))
	if leave == nil {
		http.Error(w, replay.ErrBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	if r.apps != nil {
		if _, pattern := r.apps.Handler(in); pattern != "" || strings.HasPrefix(in.URL.Path, appsPath) {
			r.apps.ServeHTTP(w, in)
			return
		}
	}
	r.replayed(w, in)
}

// replayed serves a request to the replayed applications.
func (r *rest) replayed(w http.ResponseWriter, in *http.Request) {
	if !slices.ContainsFunc(r.c.groups.all(), func(g *group) bool { return g.cfg.Identity != "" }) {
		http.Error(w, "applications are served below "+appsPath+"NAME/", http.StatusNotFound)
		return
	}
	leader := func() uint64 { return replica.ControllerOf(r.c.hosting().node.Status().Leader) }
	if id := leader(); id != r.c.cfg.Consensus.ID && id != 0 {
		ctx, cancel := whileLeads(in.Context(), id, leader)
		defer cancel()
		r.forward(w, in.WithContext(ctx), r.c.cfg.RESTPeers[id])
		return
	}
	if wantsWebSocket(in) {
		r.websocket(w, in)
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
	r.answer(w, in, answer, err)
}

// answer writes what Request has returned.
func (r *rest) answer(w http.ResponseWriter, in *http.Request, answer wire.Answer, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the application does not answer", http.StatusGatewayTimeout)
	case errors.Is(err, replay.ErrLeftOut): // the client should not repeat it
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		if err := writeAnswer(w, in, &answer); err != nil {
			r.c.log.Debug("answer of an application not written", "to", in.RemoteAddr, "err", err)
		}
	}
}

// whileLeads returns a context that ends, with replay.ErrLeaderChanged, soon after leader returns another id. Without
// it, a request to a leader that hangs or has lost power would wait for its timeout.
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

// bodyStatus returns the status for a request whose body could not be read or forwarded, possibly because of its size.
func bodyStatus(err error, otherwise int) int {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	return otherwise
}

// requestOf converts a request to the input for applications.
func requestOf(in *http.Request, body []byte) *wire.HTTPRequest {
	q := &wire.HTTPRequest{Method: in.Method, Path: in.URL.RequestURI(),
		Headers: []wire.Header{{Name: "Host", Value: in.Host}}, Body: body}
	header := endToEnd(in.Header)
	header.Del(forwarded)
	header.Del(websocketHeader)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, v := range header[name] {
			q.Headers = append(q.Headers, wire.Header{Name: name, Value: v})
		}
	}
	return q
}

// writeAnswer writes the answer of an application, after checking it.
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
		header.Del("Content-Length") // the server sets it; the application's may be wrong
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(a.Status)
	if len(a.Body) == 0 {
		return nil
	}
	_, err := w.Write(a.Body)
	return err
}

// endToEnd returns a header without hop-by-hop fields (RFC 9110, section 7.6.1).
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

// forward forwards a request to the leader unchanged.
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
			access.Forward(p.In.Context(), p.Out.Header)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if why := context.Cause(in.Context()); errors.Is(why, replay.ErrLeaderChanged) {
				http.Error(w, why.Error(), http.StatusServiceUnavailable)
				return
			}
			http.Error(w, "forward the request to the leader at "+leader+": "+err.Error(),
				bodyStatus(err, http.StatusBadGateway))
		},
	}
	in.Body = http.MaxBytesReader(w, in.Body, maxRequestBody)
	proxy.ServeHTTP(w, in)
}

// Request passes an HTTP request to the replayed applications and waits for the answer. Safe for concurrent use. The
// errors are those of package replay, that of ctx, and one that says that the controller is stopping.
func (c *Controller) Request(ctx context.Context, r *wire.HTTPRequest) (wire.Answer, error) {
	g := c.hosting()
	if g.core.Hosting() == nil {
		return wire.Answer{}, errors.New("this controller hosts no applications")
	}
	type outcome struct {
		answer wire.Answer
		err    error
	}
	done := make(chan outcome, 1)
	var forget func()
	err := g.inLoop(ctx, func() {
		forget = g.core.Hosting().Request(r.Append(nil), func(a wire.Answer, err error) { done <- outcome{a, err} })
	})
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		_ = g.inLoop(context.Background(), forget) // fails only when the loop has ended
		return wire.Answer{}, ctx.Err()
	}
}
