// Package client asks the controllers of a cluster over their API, as the command line does: all of them, or the one
// that leads, which it looks for. It changes members and waits until a change is in effect.
//
// It prints nothing. Of what tables hold it knows nothing: the applications' packages read them.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Client asks the controllers of one cluster. It is safe for concurrent use.
type Client struct {
	cluster *config.Cluster
	token   string // "": none
	http    *http.Client
	waiting func(string)
}

// New returns a client. With TLS in the cluster file it reads the certificate of whoever uses the command line. Each
// request has the token, if that is not "". While a method has to
// wait, it calls waiting after a second, and then every five seconds, with a line that says for what; nil for nobody.
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
	maxRefusal    = 16 << 10               // bytes that are read of an answer that is not 200
)

// refused is an answer that is not 200.
type refused struct {
	code int
	controller.Refusal
}

func (e *refused) Error() string { return e.Refusal.Error }

// later says that the same question may get another answer soon.
func (e *refused) later() bool { return e.code == http.StatusServiceUnavailable }

// NotFound reports whether a controller answered that it does not have what was asked for: an application that does
// not run, for example.
func NotFound(err error) bool {
	no, ok := errors.AsType[*refused](err)
	return ok && no.code == http.StatusNotFound
}

// call asks one controller.
func (c *Client) call(ctx context.Context, to config.Controller, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+to.API+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", to.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(to, resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("answer of controller %s: %w", to.Name, err)
	}
	return nil
}

// refusal reads an answer that is not 200. A controller whose disk is full answers by a text.
func refusal(from config.Controller, resp *http.Response) error {
	r := &refused{code: resp.StatusCode}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || json.Unmarshal(text, &r.Refusal) != nil || r.Refusal.Error == "" {
		r.Refusal = controller.Refusal{Error: strings.TrimSpace(fmt.Sprintf("controller %s answers %s: %s", from.Name,
			resp.Status, text))}
	}
	return r
}

// Leader asks the controller that leads, and looks for it for 20 seconds at most, or for 5 to read something. body and
// answer are JSON.
func (c *Client) Leader(ctx context.Context, method, path string, body, answer any) error {
	patience := patience
	if method == http.MethodGet {
		patience = readPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := c.cluster.Controllers[0]
	w := c.wait("waiting for a controller that leads")
	defer w.end()
	for others := 1; ; {
		w.asks(at.Name)
		err := c.call(ctx, at, method, path, body, answer)
		w.said(at.Name, err)
		no, isRefusal := errors.AsType[*refused](err)
		switch {
		case err == nil:
			return nil
		case isRefusal && no.Leader != "":
			leader, ok := c.cluster.Controller(no.Leader)
			if !ok {
				return fmt.Errorf("controller %s leads, and this cluster file does not have it; there are %v: use a "+
					"file that does, or drain %s with one first", no.Leader, c.cluster.Names(), no.Leader)
			}
			at = leader
		case isRefusal && !no.later():
			return err
		default:
			at = c.cluster.Controllers[others%len(c.cluster.Controllers)]
			others++
		}
		if ended := sleep(ctx, retryPause); ended != nil {
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
