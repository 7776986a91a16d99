package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// maxParts bounds the parts of a request that are executed at a time, and so their responses in memory.
const maxParts = 16

// undoTimeout bounds how long it takes to undo what a request has begun. Clients wait for longer than callTimeout and
// this.
const undoTimeout = time.Second

// split executes an encoded request to a namespace with buckets, and returns an encoded response.
func (s *server) split(ctx context.Context, request []byte) []byte {
	var r store.Request
	if err := r.Decode(request); err != nil {
		return store.Refusal(request, store.Fail(store.Invalid, "the request cannot be decoded: %v", err))
	}
	of, refused := store.NewSplit(r)
	if refused != nil {
		return store.Refusal(request, refused)
	}
	asking, cancel := context.WithTimeout(ctx, callTimeout) // as for one call
	defer cancel()
	for parts := of.Next(); len(parts) > 0; parts = of.Next() {
		s.answer(asking, of, parts)
	}
	out := of.Response()
	if parts := of.Undo(); len(parts) > 0 {
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		s.answer(undoing, of, parts)
	}
	return out.Append(nil)
}

// answer has buckets execute their parts side by side.
func (s *server) answer(ctx context.Context, of *store.Split, parts []store.Part) {
	var taking sync.Mutex // guards of
	_ = sideBySide(ctx, len(parts), maxParts, func(ctx context.Context, i int) error {
		q := &parts[i].Request
		var r store.Response
		if err := r.Decode(s.executeAt(ctx, store.NewCall(q), time.Duration(q.MaxAge)*time.Millisecond)); err != nil {
			r = store.Response{Error: store.Fail(store.Unknown, "the answer cannot be decoded: %v", err)}
		}
		taking.Lock()
		defer taking.Unlock()
		of.Answer(parts[i], r)
		return nil
	})
}

// sideBySide calls f for all numbers below n, at most so many at a time. If one fails, the context of the others ends,
// and its error is returned.
func sideBySide(ctx context.Context, n, most int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, most)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() { // it ends before this does
			defer func() { <-slots }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
