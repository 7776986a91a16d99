package controller

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/api"
)

// Bounds of what unread keeps, in bytes. Small answers have their own, so that who does not read large ones does not
// keep others from asking.
const (
	unreadLarge = 64 << 20
	unreadSmall = 16 << 20 // for answers up to largeMessage
)

var errUnread = errors.New("answers that clients of this controller have not read take all the memory for answers")

// unread bounds the memory of answers until their clients have read them, or until the write timeout of the server. It
// encodes an answer, so that the memory is known, and refuses it if there is no room. A large answer that is not shared
// is made and encoded in turn with others (unreadAnswer.turn), so there is one at a time that does not count yet. An
// answer counts as half of the room at most, so that any can be sent. Answers about changes are small, and those who
// ask are in the audit log: they are not refused, because the change has been made.
type unread struct{ large, small room }

// room is a number of bytes, of which some are used.
type room struct {
	most int64
	used atomic.Int64
}

// take reserves room for an answer, and returns what frees it.
func (u *unread) take(size int) (free func(), err error) {
	r := &u.small
	if size > largeMessage {
		r = &u.large
	}
	n := min(int64(size), r.most/2)
	if r.used.Add(n) > r.most {
		r.used.Add(-n)
		return nil, errUnread
	}
	return func() { r.used.Add(-n) }, nil
}

// unreadKey is the key of the unreadAnswer in the context of a request.
type unreadKey struct{}

// unreadAnswer is the answer of a request, if there is one already.
type unreadAnswer struct {
	json bool
	free func()
	turn func() // ends the turn of the request in which its answer was made, if it has one
}

// until frees the room of an answer when the handler has sent it.
func (u *unread) until(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := r.Header.Get("Content-Type")
		if r.Method == http.MethodGet {
			format = r.URL.Query().Get("encoding")
		}
		of := &unreadAnswer{strings.Contains(strings.ToLower(format), "json"), func() {}, func() {}}
		defer func() { of.free() }()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), unreadKey{}, of)))
	})
}

// WrapUnary implements connect.Interceptor.
func (u *unread) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		of := ctx.Value(unreadKey{}).(*unreadAnswer) // until has put it there
		defer func() { of.turn() }()
		r, err := next(ctx, q)
		if err != nil || q.Spec().IdempotencyLevel != connect.IdempotencyNoSideEffects {
			return r, err
		}
		size := 0
		switch m := r.Any().(type) {
		case *api.Encoded:
			size = m.SizeIn(of.json)
		case proto.Message:
			a, err := api.EncodeOnce(m, of.json)
			if err != nil {
				return nil, connect.NewError(connect.CodeInternal, err)
			}
			r, size = connect.NewResponse(a), a.Size()
		}
		if of.free, err = u.take(size); err != nil {
			of.free = func() {}
			return nil, problem(err)
		}
		return r, nil
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (*unread) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor: a watch has bounds of its own.
func (*unread) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
