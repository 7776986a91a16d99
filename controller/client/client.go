// Package client asks the controllers of a cluster over their API, as the command line does: all of them, or the one
// that leads, which it looks for. It changes members and waits until a change is in effect.
//
// It prints nothing. Of what tables hold it knows nothing: the applications' packages read them.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// Client asks the controllers of one cluster. It is safe for concurrent use.
type Client struct {
	cluster *config.Cluster
	token   string // "": none
	http    *http.Client
	waiting func(string)
}

// New returns a client. With TLS in the cluster file it reads the certificate of whoever uses the command line. Each
// request has the token, if that is not "". While a method has to wait, it calls waiting after a second, and then every
// five seconds, with a line that says for what; nil for nobody.
func New(cluster *config.Cluster, log *slog.Logger, token string, waiting func(string)) (*Client, error) {
	dial, err := access.OfOperator(cluster, log)
	if err != nil {
		return nil, err
	}
	transport := new(http.Transport)
	if dial != nil { // TLS is beneath HTTP, so that URLs begin with http in any case
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		}
	}
	if waiting == nil {
		waiting = func(string) {}
	}
	return &Client{cluster, token, &http.Client{Transport: transport}, waiting}, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

const (
	patience      = 20 * time.Second       // looks for a controller that leads, to change something
	readPatience  = 5 * time.Second        // the same, to read something that only the leader has
	callTimeout   = 7 * time.Second        // for an answer; a controller takes up to 5 s for one
	statusTimeout = 3 * time.Second        // for the status of the cluster; a controller waits 1.5 s for the others
	retryPause    = 50 * time.Millisecond  // before the same question again
	catchUpPause  = 100 * time.Millisecond // how often a new member is looked at
	maxAnswer     = 96 << 20               // bytes of an answer: the tables of an application have 64 MiB at most
)

// refused is an error that a controller has answered.
type refused struct {
	code   connect.Code
	text   string
	leader string // send the request to this controller instead
}

func (e *refused) Error() string { return e.text }

// later says that the same question may get another answer soon.
func (e *refused) later() bool { return e.code == connect.CodeUnavailable }

// NotFound reports whether a controller answered that it does not have what was asked for: an application that does
// not run, for example.
func NotFound(err error) bool {
	no, ok := errors.AsType[*refused](err)
	return ok && no.code == connect.CodeNotFound
}

// peer is the API of one controller.
type peer struct {
	api.ClusterClient
	api.OperationsClient
}

// at returns the API of a controller.
func (c *Client) at(to config.Controller) peer {
	options := []connect.ClientOption{connect.WithReadMaxBytes(maxAnswer),
		connect.WithAcceptCompression("gzip", nil, nil)}
	return peer{api.NewClusterClient(c, "http://"+to.API, options...),
		api.NewOperationsClient(c, "http://"+to.API, options...)}
}

// Do implements connect.HTTPClient: it adds the token to a request.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(r)
}

// call asks one controller. What it answers is copied to answer, which has the fields of the message.
func call[M proto.Message](ctx context.Context, c *Client, to config.Controller,
	method func(peer, context.Context) (M, error), answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	said, err := method(c.at(to), ctx)
	if err != nil {
		return c.failure(to, err)
	}
	mirror.Copy(answer, said)
	return nil
}

// failure tells an error that a controller has answered from one of the connection to it.
func (c *Client) failure(to config.Controller, err error) error {
	in, is := errors.AsType[*connect.Error](err)
	if !is || !connect.IsWireError(err) {
		if is && in.Unwrap() != nil {
			err = in.Unwrap() // it names the address
		}
		return fmt.Errorf("ask controller %s: %w", to.Name, err)
	}
	r := &refused{code: in.Code(), text: in.Message()}
	for _, d := range in.Details() {
		if v, err := d.Value(); err == nil {
			if p, is := v.(*api.Problem); is {
				r.leader = p.Leader
			}
		}
	}
	return r
}

// leader asks the controller that leads, and looks for it as long as patience says.
func leader[M proto.Message](ctx context.Context, c *Client, patience time.Duration,
	method func(peer, context.Context) (M, error), answer any) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := c.cluster.Controllers[0]
	w := c.wait("waiting for a controller that leads")
	defer w.end()
	for others := 1; ; {
		w.asks(at.Name)
		err := call(ctx, c, at, method, answer)
		w.said(at.Name, err)
		no, isRefusal := errors.AsType[*refused](err)
		switch {
		case err == nil:
			return nil
		case isRefusal && no.leader != "":
			to, ok := c.cluster.Controller(no.leader)
			if !ok {
				return fmt.Errorf("controller %s leads, and this cluster file does not have it; there are %v: use a "+
					"file that does, or drain %s with one first", no.leader, c.cluster.Names(), no.leader)
			}
			at = to
		case isRefusal && !no.later():
			return err
		default:
			at = c.cluster.Controllers[others%len(c.cluster.Controllers)]
			others++
		}
		ended := sleep(ctx, retryPause)
		if caller.Err() != nil {
			return caller.Err()
		}
		if ended != nil {
			return fmt.Errorf("no controller that leads was found in %v: %s (%w)", patience, w.tried(), ended)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
