package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/store"
)

// confirmEvery is how often a watch asks which revision is the present one. So it ends where changes do not arrive any
// more. The client is told each time: of revisions that had no changes for it, and that the controller runs.
const confirmEvery = time.Second

// progressEvery is how often a client is told at most of revisions without changes that it asks for.
const progressEvery = 20 * time.Millisecond

// gatherFor is how long a watch waits after it has looked for changes before it looks again, unless it is behind, or
// asks for another time. In a namespace that is written all the time, each commit would wake it otherwise, which takes
// longer than to tell what has changed. After a pause of that length, a change is told at once.
const gatherFor = 2 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// watch serves a watch, until that fails.
func (s *server) watch(ctx context.Context, r *connect.Request[WatchRequest],
	to *connect.ServerStream[WatchResponse]) error {
	send := func(p store.WatchResponse) error {
		return s.inTime(ctx, func() error { return to.Send(&WatchResponse{p.Append(nil)}) })
	}
	err := s.tell(ctx, r.Msg.Encoded, send)
	if refused, is := errors.AsType[*store.Error](err); is {
		return send(store.WatchResponse{Error: refused})
	}
	return err
}

// tell sends the changes that an encoded WatchRequest asks for. An error that is for the client is a *store.Error.
func (s *server) tell(ctx context.Context, request []byte, send func(store.WatchResponse) error) error {
	var w store.WatchRequest
	if err := w.Decode(request); err != nil {
		return store.Fail(store.Invalid, "the request cannot be decoded: %v", err)
	}
	if err := w.Check(); err != nil {
		return err
	}
	who, _ := access.IdentityOf(ctx)
	if refused := s.access.check(who, w.Namespace, []Right{Read}); refused != nil {
		return refused
	}
	if of := store.Buckets(w.Namespace); of > 0 {
		return s.tellBuckets(ctx, w, of, send)
	}
	changes, err := s.cursor(ctx, w)
	if err != nil {
		return err
	}
	if err := send(store.WatchResponse{Revision: changes.Revision()}); err != nil {
		return err
	}
	return s.tellChanges(ctx, w, changes, send)
}

// cursor returns where a watch begins.
func (s *server) cursor(ctx context.Context, w store.WatchRequest) (*store.Cursor, error) {
	tables, revision, err := s.tables(ctx, w.Namespace, "")
	if err != nil {
		return nil, err
	}
	return s.feed.Cursor(w, tables, revision)
}

// maxWatched bounds the buckets that are watched at a time. Each of them is asked for its revision once a second.
const maxWatched = 4096

// tellBuckets is tell for a namespace with so many buckets. It ends when the watch of one of them does.
func (s *server) tellBuckets(ctx context.Context, w store.WatchRequest, of int,
	send func(store.WatchResponse) error) error {
	defer s.watched.Add(-int64(of))
	if s.watched.Add(int64(of)) > maxWatched {
		return store.Fail(store.Unavailable, "this controller has watches of %d buckets: ask another one", maxWatched)
	}
	ones, cursors, first := make([]store.WatchRequest, of), make([]*store.Cursor, of), make([]uint64, of)
	err := sideBySide(ctx, of, maxParts, func(ctx context.Context, i int) (err error) {
		one := w
		one.Namespace, one.Revisions = store.BucketName(w.Namespace, i), nil
		if len(w.Revisions) > 0 {
			one.After = &w.Revisions[i]
		}
		ones[i] = one
		if cursors[i], err = s.cursor(ctx, one); err == nil {
			first[i] = cursors[i].Revision()
		}
		return err
	})
	if err == nil {
		err = send(store.WatchResponse{Revisions: first})
	}
	if err != nil {
		return err
	}
	var sending sync.Mutex                                                  // guards send
	return sideBySide(ctx, of, of, func(ctx context.Context, i int) error { // until one of them fails
		return s.tellChanges(ctx, ones[i], cursors[i], func(r store.WatchResponse) error {
			sending.Lock()
			defer sending.Unlock()
			r.Bucket = i
			return send(r)
		})
	})
}

// tellChanges sends changes of a namespace or bucket as they come.
func (s *server) tellChanges(ctx context.Context, w store.WatchRequest, changes *store.Cursor,
	send func(store.WatchResponse) error) error {
	namespace, gather := w.Namespace, cmp.Or(time.Duration(w.GatherMS)*time.Millisecond, gatherFor)
	confirm, told, sent := time.Now().Add(confirmEvery), changes.Revision(), time.Now()
	for {
		until := confirm
		if told < changes.Revision() {
			until = earlier(until, sent.Add(progressEvery))
		}
		list, err := s.next(ctx, changes, namespace, until)
		if err != nil {
			return err
		}
		now := time.Now()
		due := !now.Before(confirm)
		if len(list) > 0 || due || told < changes.Revision() && now.Sub(sent) >= progressEvery {
			told, sent = changes.Revision(), now
			if err := send(store.WatchResponse{Revision: told, Changes: list}); err != nil {
				return err
			}
		}
		if due {
			_, revision, err := s.tables(ctx, namespace, store.AfterAll)
			if err != nil {
				return err
			}
			changes.Current(revision)
			confirm = time.Now().Add(confirmEvery)
		}
		if !changes.More() && pause.For(ctx, time.Until(now.Add(gather))) != nil {
			return ctx.Err()
		}
	}
}

// next waits for changes until a time.
func (s *server) next(ctx context.Context, from *store.Cursor, namespace string, until time.Time) ([]store.Change,
	error) {
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	list, err := from.Next(waiting)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !s.behind.Replica(store.ActorOf(namespace)):
		return nil, store.Fail(store.NoReplica, "this controller has no replica of %s, so a watch needs another one",
			namespace)
	}
	return list, err
}

// tables returns the tables of a namespace from a name on, and its revision. The error is a *store.Error.
func (s *server) tables(ctx context.Context, namespace, start string) (all map[string]store.Table, revision uint64,
	err error) {
	all = map[string]store.Table{}
	for {
		q := store.Request{Namespace: namespace, Transactions: [][]store.Op{{{Kind: store.ListTables, Start: start}}}}
		var r store.Response
		if err := r.Decode(s.call(ctx, store.NewCall(&q))); err != nil {
			return nil, 0, store.Fail(store.Failed, "%v", err)
		}
		if r.Error != nil {
			return nil, 0, r.Error
		}
		out := r.Outcomes[0]
		if out.Error != nil {
			return nil, 0, out.Error
		}
		maps.Copy(all, out.Results[0].Tables)
		if revision == 0 {
			revision = out.Revision
		}
		if start = out.Results[0].Next; start == "" {
			return all, revision, nil
		}
	}
}

// A Watch is a stream of changes from one controller.
type Watch struct {
	on     *connect.ServerStreamForClient[WatchResponse]
	cancel func()
}

// OpenWatch opens a watch at the controller at HOST:PORT, with a token if it is not "". It ends with ctx, and with
// Close.
func OpenWatch(ctx context.Context, via *http.Transport, address, token string, w store.WatchRequest) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	request := connect.NewRequest(&WatchRequest{w.Append(nil)})
	authorize(request.Header(), token)
	on, err := newClient[WatchRequest, WatchResponse](via, address, watch).CallServerStream(ctx, request)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watch{on, cancel}, nil
}

// Receive returns the next response. The error is a *store.Error if the controller has ended the watch.
func (w *Watch) Receive() (out store.WatchResponse, err error) {
	if !w.on.Receive() {
		switch err = w.on.Err(); {
		case err == nil:
			err = errors.New("the controller has ended the watch without an error")
		case connect.CodeOf(err) == connect.CodeUnimplemented:
			err = fmt.Errorf("%w (%w)", ErrNoStore, err)
		case connect.CodeOf(err) == connect.CodeUnauthenticated, connect.CodeOf(err) == connect.CodePermissionDenied:
			err = store.Fail(store.Denied, "%v: %v", ErrDenied, err)
		}
		return out, err
	}
	if err = out.Decode(w.on.Msg().Encoded); err == nil && out.Error != nil {
		err = out.Error
	}
	return out, err
}

// Close ends the watch.
func (w *Watch) Close() {
	w.cancel()
	_ = w.on.Close()
}
