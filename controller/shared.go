package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// shared is an answer of the API that all get who ask at about the same time. It is made after each of them has asked,
// so nobody gets one that is older than the request, but for counts (inquiry.counted). It is made at most a tenth of
// the time, so that those who ask in a loop leave the loops of the groups alone.
type shared[T any] struct {
	compute func(context.Context) (T, error)
	wrap    func(T) proto.Message

	turn chan struct{} // capacity 1: taken while the answer is made
	rest time.Time     // when it may be made again; of who has the turn

	mu   sync.Mutex // guards next
	next *sharing   // which has not begun; nil if nobody waits
}

// sharing is an answer that is being made.
type sharing struct {
	done   chan struct{}
	answer *api.Encoded
	err    error
}

var errPanicked = errors.New("making the answer has failed: the log of this controller says where")

// restMost bounds the time between two answers: making one takes long if a controller does not answer.
const restMost = 200 * time.Millisecond

// restAfter is when the next answer may be made, so that answers take a tenth of the time.
func restAfter(took time.Duration) time.Time { return time.Now().Add(min(9*took, restMost)) }

// computeTimeout bounds how long an answer takes, which a loop that hangs would hold up.
const computeTimeout = 5 * time.Second

// share makes an answer of what compute returns, as a message that wrap makes of it.
func share[T any](compute func(context.Context) (T, error), wrap func(T) proto.Message) *shared[T] {
	return &shared[T]{compute: compute, wrap: wrap, turn: make(chan struct{}, 1)}
}

// mirrorOf returns what makes messages of structures with the same fields.
func mirrorOf[T any, M any, P interface {
	*M
	proto.Message
}](P) func(T) proto.Message {
	return func(t T) proto.Message {
		m := P(new(M))
		mirror.Copy(m, t)
		return m
	}
}

// get returns an answer that is made from now on.
func (s *shared[T]) get(ctx context.Context) (*api.Encoded, error) {
	s.mu.Lock()
	f, first := s.next, s.next == nil
	if first {
		f = &sharing{done: make(chan struct{})}
		s.next = f
	}
	s.mu.Unlock()
	if first {
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), computeTimeout) // others may wait for it
		defer cancel()
		s.work(work, f)
	}
	select {
	case <-f.done:
		return f.answer, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *shared[T]) work(ctx context.Context, f *sharing) {
	defer close(f.done)
	s.turn <- struct{}{} // bounded by the time that an answer takes
	defer func() { <-s.turn }()
	time.Sleep(time.Until(s.rest))
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	f.err = errPanicked // of those that wait, if it does
	began := time.Now()
	t, err := s.compute(ctx)
	took := time.Since(began)
	if s.rest = restAfter(took); err != nil {
		f.err = err
		return
	}
	f.answer = api.NewEncoded(s.wrap(t))
	f.err = nil
}

// unary serves it.
func (s *shared[T]) unary(ctx context.Context, _ *connect.Request[emptypb.Empty]) (*connect.Response[api.Encoded],
	error) {
	m, err := s.get(ctx)
	if err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(m), nil
}
