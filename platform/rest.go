package platform

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/holdfast-sdn/holdfast/platform/hosting"
	"github.com/holdfast-sdn/holdfast/ryuhost/wire"
)

// Bounds of the applications' REST interface.
const (
	maxRequestBody = 1 << 20
	requestTimeout = 60 * time.Second // of one that its application lets wait
)

// forwarded marks a request that another controller has passed on, so that none goes round.
const forwarded = "Holdfast-Forwarded"

// rest serves the REST interface of hosted applications: a request is an input, logged and executed on every
// controller, and answered once, by the leader. Another controller passes it on to the leader.
type rest struct {
	server *http.Server
	ended  chan error
}

func (c *Controller) serveREST(l net.Listener) *rest {
	server := &http.Server{Handler: http.HandlerFunc(c.serveRequest), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: requestTimeout + 10*time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10}
	r := &rest{server, make(chan error, 1)}
	go func() { r.ended <- r.server.Serve(l) }() // ends with close
	return r
}

func (r *rest) close() error {
	err := r.server.Close()
	if ended := <-r.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

func (c *Controller) serveRequest(w http.ResponseWriter, r *http.Request) {
	if s := c.node.Status(); s.Leader != c.cfg.Consensus.ID && s.Leader != 0 {
		c.forward(w, r, c.cfg.RESTPeers[s.Leader])
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBody))
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	q := wire.HTTPRequest{Method: r.Method, Path: r.URL.RequestURI(), Headers: []wire.Header{{Name: "Host", Value: r.Host}}, Body: body}
	for name, values := range r.Header {
		for _, v := range values {
			q.Headers = append(q.Headers, wire.Header{Name: name, Value: v})
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	answer, err := c.Request(ctx, &q)
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		http.Error(w, err.Error(), status)
		return
	}
	for _, h := range answer.Headers {
		w.Header().Add(h.Name, h.Value)
	}
	w.WriteHeader(answer.Status)
	if _, err := io.Copy(w, bytes.NewReader(answer.Body)); err != nil {
		c.log.Debug("answer of an application not written", "to", r.RemoteAddr, "err", err)
	}
}

// forward passes a request on to the leader.
func (c *Controller) forward(w http.ResponseWriter, r *http.Request, leader string) {
	if leader == "" || r.Header.Get(forwarded) != "" {
		http.Error(w, hosting.ErrNotLeading.Error()+": ask again, or another one", http.StatusServiceUnavailable)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: leader})
			p.Out.Host = r.Host
			p.Out.Header.Set(forwarded, "1")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the leader at "+leader+" does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}

// Request gives the hosted applications an HTTP request and waits for the answer. Safe for concurrent use. The errors are
// those of package hosting, ctx's, and one that says that the controller stops.
func (c *Controller) Request(ctx context.Context, r *wire.HTTPRequest) (wire.Answer, error) {
	if c.core.Hosting() == nil {
		return wire.Answer{}, errors.New("this controller hosts no applications")
	}
	type outcome struct {
		answer wire.Answer
		err    error
	}
	done := make(chan outcome, 1)
	err := c.inLoop(ctx, func() {
		c.core.Hosting().Request(r.Append(nil), func(a wire.Answer, err error) { done <- outcome{a, err} })
	})
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
		return wire.Answer{}, ctx.Err()
	}
}
