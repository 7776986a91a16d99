package controller

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// operations implements api.OperationsHandler.
type operations struct{ c *Controller }

// changeTimeout bounds one step of a change. It is shorter than the write timeout of the API.
const changeTimeout = 5 * time.Second

// changed executes a change. Its context ends after changeTimeout.
func changed[A, Q, R any](ctx context.Context, request any, change func(context.Context, Q) (R, error)) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var q Q
	mirror.Copy(&q, request)
	r, err := change(ctx, q)
	if err != nil {
		return nil, problem(err)
	}
	return mirrored[A](r), nil
}

// atLeader returns a change that only the leader of the system group makes. It answers as soon as the directory says
// what is wanted, and that of another controller may be an old one, of before a change that was acknowledged since.
func atLeader[Q, R any](c *Controller, change func(context.Context, Q) (R, error)) func(context.Context, Q) (R, error) {
	return func(ctx context.Context, q Q) (r R, err error) {
		g := c.system()
		if s := g.node.Status(); c.several() && !s.Leading {
			return r, &notLeading{g.memberName(s, s.Leader)}
		}
		return change(ctx, q)
	}
}

// Move implements api.OperationsHandler.
func (o operations) Move(ctx context.Context, q *api.Move) (*api.Moved, error) {
	return changed[api.Moved](ctx, q, atLeader(o.c, o.c.Move))
}

// Pin implements api.OperationsHandler.
func (o operations) Pin(ctx context.Context, q *api.Pin) (*api.Pinned, error) {
	return changed[api.Pinned](ctx, q, atLeader(o.c, o.c.pin))
}

// Resume implements api.OperationsHandler.
func (o operations) Resume(ctx context.Context, q *api.Resume) (*api.Resumed, error) {
	return changed[api.Resumed](ctx, q, o.c.resume)
}

// Forget implements api.OperationsHandler.
func (o operations) Forget(ctx context.Context, q *api.Forget) (*api.Forget, error) {
	return changed[api.Forget](ctx, q, o.c.forget)
}

// ChangeMembers implements api.OperationsHandler.
func (o operations) ChangeMembers(ctx context.Context, q *api.MemberChange) (*api.Members, error) {
	return changed[api.Members](ctx, q, o.c.changeMembers)
}

// Drain implements api.OperationsHandler.
func (o operations) Drain(ctx context.Context, q *emptypb.Empty) (*api.Members, error) {
	return changed[api.Members](ctx, q, func(ctx context.Context, _ struct{}) (Members, error) {
		err := o.c.drain(ctx)
		if err == nil {
			o.c.log.Info("drained: it leads again only if no other controller does")
		}
		g := o.c.system()
		return g.members(g.node.Status()), err
	})
}

// SetCounting implements api.OperationsHandler.
func (o operations) SetCounting(ctx context.Context, q *api.Counting) (*api.Counting, error) {
	return changed[api.Counting](ctx, q, func(ctx context.Context, on Counting) (Counting, error) {
		return on, o.c.count(ctx, on)
	})
}
