package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// operator asks controllers to do something.
type operator struct {
	cluster *config.Cluster
	client  *http.Client
}

func newOperator(file string) (*operator, error) {
	s, err := config.Load(file, applicationNames())
	if err != nil {
		return nil, err
	}
	client, err := apiClient(s)
	if err != nil {
		return nil, err
	}
	return &operator{s, client}, nil
}

func (o *operator) close() { o.client.CloseIdleConnections() }

// Times of an operator.
const (
	patience    = 20 * time.Second // looks for a controller that leads
	callTimeout = 7 * time.Second  // for an answer; a controller takes up to 5 s for one
	retryPause  = 50 * time.Millisecond
)

// refused is an answer that is not 200.
type refused struct {
	code int
	controller.Refusal
}

func (e *refused) Error() string { return e.Refusal.Error }

// later says that the same question may get another answer soon.
func (e *refused) later() bool { return e.code == http.StatusServiceUnavailable }

// call asks one controller.
func (o *operator) call(ctx context.Context, c config.Controller, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.API+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", c.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r := &refused{code: resp.StatusCode}
		if err := json.NewDecoder(resp.Body).Decode(&r.Refusal); err != nil || r.Refusal.Error == "" {
			r.Refusal.Error = fmt.Sprintf("controller %s answers %s", c.Name, resp.Status)
		}
		return r
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("answer of controller %s: %w", c.Name, err)
	}
	return nil
}

// askLeader asks the controller that leads, and looks for it as long as patience lasts.
func (o *operator) askLeader(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := o.cluster.Controllers[0]
	for others := 1; ; {
		err := o.call(ctx, at, method, path, body, answer)
		var no *refused
		switch {
		case err == nil:
			return nil
		case errors.As(err, &no) && no.Leader != "":
			leader, ok := o.cluster.Controller(no.Leader)
			if !ok {
				return fmt.Errorf("controller %s leads, and this cluster file does not have it; there are %v: use a "+
					"file that does, or drain %s with one first",
					no.Leader, controllerNames(o.cluster), no.Leader)
			}
			at = leader
		case no != nil && !no.later():
			return err
		default:
			at = o.cluster.Controllers[others%len(o.cluster.Controllers)]
			others++
		}
		if ended := sleep(ctx, retryPause); ended != nil {
			return fmt.Errorf("no controller that leads was found: %w (%w)", err, ended)
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

// members asks the leader for them.
func (o *operator) members(ctx context.Context) (controller.Members, error) {
	var m controller.Members
	err := o.askLeader(ctx, http.MethodGet, "/v1/members", nil, &m)
	return m, err
}
