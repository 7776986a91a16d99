package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// Watch yields the changes of the namespace after a revision, each once and in order, with the revision up to which
// all were yielded. It yields without changes too, about once a second. If table is not "", only those of this table,
// and of rows whose keys begin with prefix. Without after, it begins with the present revision, which is yielded
// first. The watch goes on at another controller if one fails. It ends with ctx, without an error, or with a
// *store.Error: if its code is store.Forgotten, read what is there now and watch after the revision of that. It is
// store.NoReplica if none of the addresses of the client is of a controller that has a replica of what has changed.
//
// A namespace with buckets has a revision for each of them. Then after has all of these, and each response is of one
// Bucket, but the first. Revisions of a response are what a later Watch goes on after, in any namespace.
func (c *Client) Watch(ctx context.Context, table, prefix string,
	after ...uint64) iter.Seq2[store.WatchResponse, error] {
	return c.watch(ctx, store.WatchRequest{Table: table, Prefix: prefix}, after...)
}

// watch is Watch for what a request says.
func (c *Client) watch(ctx context.Context, request store.WatchRequest,
	after ...uint64) iter.Seq2[store.WatchResponse, error] {
	request.Namespace = c.namespace
	return func(yield func(store.WatchResponse, error) bool) {
		w := watching{client: c, request: request, yield: yield, without: map[string]bool{}, lack: map[string]int{},
			after: slices.Clone(after), silence: answerTimeout}
		w.run(ctx)
	}
}

// watching is a watch that runs.
type watching struct {
	client  *Client
	request store.WatchRequest // but for the revisions
	after   []uint64           // those up to which everything was yielded; none yet: the present ones
	yield   func(store.WatchResponse, error) bool
	silence time.Duration   // without a response, after which another controller is tried
	ended   bool            // the loop was left
	heard   bool            // from the present controller
	without map[string]bool // the controllers that have forgotten the next changes
	lack    map[string]int  // how often controllers have said that they have no replica of what has these
}

// maxLack is how often each controller has to say that it has no replica: buckets may be moving.
const maxLack = 2

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
	case refused.Code == store.NoReplica: // another controller may have one, or this one soon
		w.lack[address]++
		enough := func(a string) bool { return w.lack[a] >= maxLack || w.without[a] }
		return !slices.ContainsFunc(w.client.addresses, func(a string) bool { return !enough(a) })
	}
	return true
}

// at watches at one controller until that fails.
func (w *watching) at(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(w.silence, func() { cancel(fmt.Errorf("%s: no answer in %v", address, w.silence)) })
	defer late.Stop()
	secret, err := w.client.token.secret()
	if err != nil {
		return err
	}
	on, err := rpc.OpenWatch(ctx, w.client.transport, address, secret, w.next())
	if err != nil {
		return err
	}
	defer on.Close()
	for {
		late.Reset(w.silence) // it sends something each second, but may hang
		r, err := on.Receive()
		if err != nil {
			return err
		}
		late.Stop()
		w.heard = true
		if w.told(&r) {
			clear(w.without)
			clear(w.lack)
		}
		if !w.yield(r, nil) {
			w.ended = true
			return nil
		}
	}
}

// next returns the request for what was not yielded yet.
func (w *watching) next() store.WatchRequest {
	r := w.request
	if store.Buckets(r.Namespace) > 0 || len(w.after) > 1 {
		r.Revisions = w.after
	} else if len(w.after) > 0 {
		r.After = &w.after[0]
	}
	return r
}

// told notes what a response says, and completes it. It reports whether the watch has come further.
func (w *watching) told(r *store.WatchResponse) (further bool) {
	switch {
	case len(r.Revisions) > 0: // the first one of several buckets
		further, w.after = len(w.after) == 0, r.Revisions
	case r.Bucket < len(w.after):
		further = r.Revision > w.after[r.Bucket]
		w.after[r.Bucket] = r.Revision
	default: // the first one
		further, w.after = true, []uint64{r.Revision}
	}
	r.Revisions = slices.Clone(w.after)
	return further
}
