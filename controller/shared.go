package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// shared is an answer of the API that all get who ask at about the same time. It is made after each of them has asked,
// so nobody gets one that is older than the request, but for counts (inquiry.counted). Where an answer has a basis, it
// is looked at then, and the answer is made if that is another one. Answers are made at most a tenth of the time, so
// that those who ask in a loop leave the loops of the groups alone.
type shared[T any] struct {
	compute func(context.Context) (T, error)
	wrap    func(T) proto.Message
	basis   func(context.Context) (basis, error) // nil: answers differ

	turn chan struct{} // capacity 1: taken while the answer is made
	rest time.Time     // when it may be made again; of who has the turn, as are the following
	of   basis
	last *api.Encoded // made of that; nil if there is none

	mu   sync.Mutex // guards next
	next *sharing   // which has not begun; nil if nobody waits
}

// sharing is an answer that is being made.
type sharing struct {
	done   chan struct{}
	answer *api.Encoded
	err    error
}

// basis is what an answer about counts is made of. Two of the same basis differ only in what a group allows that has
// just ended or begun anew, until the next counts. So dashboards that ask one after the other cost one answer a second.
// To make and encode one takes up to a millisecond.
type basis struct {
	counts     time.Time       // when they came
	assigned   <-chan struct{} // another one when an actor is pinned or moves, or a group begins
	leaderless string
}

// basis returns what an answer about counts would be made of now.
func (q *inquiry) basis(ctx context.Context) (b basis, err error) {
	_, b.counts, err = q.counted(ctx)
	_, b.assigned = q.c.assigned.watch()
	b.leaderless = fmt.Sprint(q.c.leaderless())
	return b, err
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
	f.answer, f.err = s.answer(ctx)
	s.rest = restAfter(time.Since(began))
}

// answer returns the last answer, if one of now would be the same, or another one. The caller has the turn.
func (s *shared[T]) answer(ctx context.Context) (*api.Encoded, error) {
	var of basis
	if s.basis != nil {
		var err error
		if of, err = s.basis(ctx); err != nil {
			return nil, err
		}
		if s.last != nil && of == s.of {
			return s.last, nil
		}
	}
	t, err := s.compute(ctx)
	if err != nil {
		return nil, err
	}
	m := api.NewEncoded(s.wrap(t))
	if s.basis != nil {
		s.last = nil
		if now, err := s.basis(ctx); err == nil && now == of { // else it may be made of either
			s.of, s.last = of, m
		}
	}
	return m, nil
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
