package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// Watch yields the changes of the namespace after a revision, each once and in order, with the revision up to which
// all were yielded. It yields without changes too, about once a second. If table is not "", only those of this table,
// and of rows whose keys begin with prefix. Without after, it begins with the present revision, which is yielded
// first. The watch goes on at another controller if one fails. It ends with ctx, without an error, or with a
// *store.Error: if its code is store.Forgotten, read what is there now and watch after the revision of that.
func (c *Client) Watch(ctx context.Context, table, prefix string, after *uint64) iter.Seq2[store.WatchResponse, error] {
	return func(yield func(store.WatchResponse, error) bool) {
		w := watching{client: c, yield: yield, without: map[string]bool{},
			request: store.WatchRequest{Namespace: c.namespace, Table: table, Prefix: prefix, After: after}}
		w.run(ctx)
	}
}

// watching is a watch that runs.
type watching struct {
	client  *Client
	request store.WatchRequest
	yield   func(store.WatchResponse, error) bool
	ended   bool            // the loop was left
	heard   bool            // from the present controller
	without map[string]bool // the controllers that have forgotten the next changes
}

// run watches at one controller after the other.
func (w *watching) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	wait := leastPause
	for at := 0; ; at = (at + 1) % len(w.client.addresses) {
		w.heard = false
		address := w.client.addresses[at]
		err := w.at(ctx, address)
		switch {
		case w.ended || ctx.Err() != nil:
			return
		case w.final(address, err):
			w.yield(store.WatchResponse{}, err)
			return
		case w.heard:
			wait = leastPause
		}
		pause.Reset(wait)
		wait = min(2*wait, mostPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// final reports whether the other controllers would end the watch with the same error.
func (w *watching) final(address string, err error) bool {
	refused, is := errors.AsType[*store.Error](err)
	switch {
	case errors.Is(err, rpc.ErrNoStore):
		return true
	case !is || refused.Code == store.Unavailable || refused.Code == store.Unknown:
		return false
	case refused.Code == store.Forgotten: // another controller may know them
		w.without[address] = true
		return len(w.without) == len(w.client.addresses)
	}
	return true
}

// at watches at one controller until that fails.
func (w *watching) at(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(answerTimeout, func() { cancel(fmt.Errorf("%s: no answer in %v", address, answerTimeout)) })
	defer late.Stop()
	on, err := rpc.OpenWatch(ctx, w.client.transport, address, w.request)
	if err != nil {
		return err
	}
	defer on.Close()
	for {
		r, err := on.Receive()
		if err != nil {
			return err
		}
		late.Stop()
		w.heard = true
		if after := w.request.After; after == nil || r.Revision > *after {
			clear(w.without)
		}
		w.request.After = &r.Revision
		if !w.yield(r, nil) {
			w.ended = true
			return nil
		}
	}
}
