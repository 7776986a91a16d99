package controller

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/feed"
)

// notLeading is the error of a controller that does not lead. It names the leader.
type notLeading struct{ leader string }

func (e *notLeading) Error() string {
	if e.leader == "" {
		return "no controller leads"
	}
	return fmt.Sprintf("controller %s leads", e.leader)
}

// problem returns an error for clients of the API: a code that a program understands, the text, and what to do.
func problem(err error) error {
	var elsewhere *notLeading
	var absent *noApplication
	code, p := connect.CodeFailedPrecondition, &api.Problem{Remedy: "change the request, as the text says"}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &absent):
		code, p.Remedy = connect.CodeNotFound, "put the application among the apps of the cluster file"
	case errors.As(err, &elsewhere) && elsewhere.leader != "":
		p.Remedy, p.Leader = "send the request to controller "+elsewhere.leader, elsewhere.leader
	case errors.Is(err, feed.ErrSlow):
		code, p.Remedy = connect.CodeResourceExhausted, "watch again; name fewer kinds, or read faster"
	case errors.Is(err, errUnread):
		code, p.Remedy = connect.CodeResourceExhausted, "read answers at once; ask again later, ask for fewer rows by "+
			"page_size, or ask another controller"
	case errors.Is(err, errClosing):
		code, p.Remedy = connect.CodeUnavailable, "ask another controller"
	case elsewhere != nil, errors.Is(err, consensus.ErrNotLeader):
		code, p.Remedy = connect.CodeUnavailable, "repeat the request: a majority of the controllers must run and "+
			"reach each other"
	case errors.Is(err, context.DeadlineExceeded):
		code, p.Remedy = connect.CodeUnavailable, "look whether the change has been made, and repeat the request"
	case errors.Is(err, context.Canceled):
		code, p.Remedy = connect.CodeCanceled, ""
	}
	out := connect.NewError(code, err)
	if detail, err := connect.NewErrorDetail(p); err == nil { // it can be encoded
		out.AddDetail(detail)
	}
	return out
}
