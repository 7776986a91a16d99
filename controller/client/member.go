package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Members asks the leader for the members, or if there is none the controller that has most of the log.
func (c *Client) Members(ctx context.Context) (controller.Members, error) {
	m, err := c.newestMembers(ctx)
	if err != nil { // the cluster file may not have the leader
		m = controller.Members{}
		err = leader(ctx, c, readPatience, plain(peer.ListMembers), &m)
	}
	return m, err
}

func (c *Client) newestMembers(ctx context.Context) (controller.Members, error) {
	w := c.wait("waiting for the members of the cluster")
	defer w.end()
	return newest(ctx, c, w, func(ctx context.Context, n config.Controller) (m controller.Members, err error) {
		err = call(ctx, c, n, plain(peer.ListMembers), &m)
		return m, err
	}, func(m controller.Members) bool { return m.Stale != nil },
		func(a, b controller.Members) bool { return a.Last > b.Last },
		func(a, b error) error { return errors.Join(a, b) })
}

// Change asks for a change of the members until it is in effect or ctx ends. It calls waiting each time it has to wait;
// Members.Waiting and Members.Moving say for what. changed is false if the change had been made before.
func (c *Client) Change(ctx context.Context, wanted controller.MemberChange,
	waiting func(controller.Members)) (m controller.Members, changed bool, err error) {
	for {
		m = controller.Members{}
		if err := change[api.MemberChange](ctx, c, wanted, peer.ChangeMembers, &m); err != nil {
			return m, changed, err
		}
		if m.Done {
			return m, changed, nil
		}
		changed = true
		pause, doing := retryPause, "the change is not finished"
		switch w := m.Waiting; {
		case w != nil:
			pause, doing = catchUpPause, w.Name+" is a learner, and does not have the log yet"
		case len(m.Moving) > 0:
			pause, doing = catchUpPause, fmt.Sprintf("groups %v do not have their replicas yet", m.Moving)
		}
		waiting(m)
		if err := sleep(ctx, pause); err != nil {
			return m, changed, fmt.Errorf("%s: %w", doing, err)
		}
	}
}

// NewMember is the controller of that name in the cluster file.
func (c *Client) NewMember(name string) (*controller.NewMember, error) {
	n, err := c.cluster.Named(name)
	if err != nil {
		return nil, fmt.Errorf("%w; add it, or give its id and address as well", err)
	}
	return &controller.NewMember{Name: n.Name, ID: n.ID, Address: n.Peer}, nil
}

// NewMemberAt is a controller that the cluster file need not have.
func NewMemberAt(name, id, address string) (*controller.NewMember, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 || n > config.MaxID {
		return nil, fmt.Errorf("id %q: use a whole number from 1 to %d", id, uint64(config.MaxID))
	}
	return &controller.NewMember{Name: name, ID: n, Address: address}, nil
}

// MemberID finds a member by name or id, other than the one which replaces it. It returns 0 if that has happened: the
// other is a member, and the one that is sought was one. id is that of who in the cluster file, or 0.
func MemberID(now controller.Members, who string, id, by uint64) (uint64, error) {
	var found []uint64
	var names []string
	replaced := false
	for _, m := range now.Members {
		if m.ID != by && (m.Name == who || strconv.FormatUint(m.ID, 10) == who) {
			found = append(found, m.ID)
		}
		names = append(names, m.Name)
		replaced = replaced || m.ID == by
	}
	former := func(id uint64) bool {
		return id != 0 && slices.Contains(now.Former, id)
	}
	number, _ := strconv.ParseUint(who, 10, 64) // 0 for a name
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && replaced && (former(id) || former(number) || former(config.DefaultID(who))):
		return 0, nil // by the same request, made before
	case len(found) == 0 && replaced && slices.ContainsFunc(now.Members,
		func(m controller.Member) bool { return m.ID == by && m.Name == who }):
		return 0, nil // under another id
	case len(found) == 0:
		return 0, fmt.Errorf("no member is called %q; there are %v", who, names)
	default:
		return 0, fmt.Errorf("several members are called %q: name one by its id, of %v", who, found)
	}
}

// MemberID is the function of that name, with the id that the cluster file has for who.
func (c *Client) MemberID(now controller.Members, who string, by uint64) (uint64, error) {
	n, _ := c.cluster.Controller(who)
	return MemberID(now, who, n.ID, by)
}

// Drain makes a controller give the leadership away, and returns who leads then.
func (c *Client) Drain(ctx context.Context, name string) (leader string, err error) {
	to, err := c.cluster.Named(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w := c.wait("waiting for " + name + " to transfer the leadership")
	defer w.end()
	for {
		w.asks(name)
		var m controller.Members
		err := call(ctx, c, to, plain(peer.Drain), &m)
		w.said(name, err)
		if no, ok := errors.AsType[*refused](err); !ok || !no.later() {
			return m.Leader, err
		}
		if ended := sleep(ctx, retryPause); ended != nil {
			return "", fmt.Errorf("%s did not give the leadership away: %w (%w)", name, err, ended)
		}
	}
}
