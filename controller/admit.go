package controller

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/admission"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// admitTimeout is how long a switch waits for the log to say who holds it.
const admitTimeout = 3 * time.Second

// FirstUse has the log remember who first speaks for each switch (package admission). It returns who the peer of a
// connection is, and whether its certificate or the cluster file says which switches are its own: then it may speak for
// these, whoever was first.
type FirstUse func(conn net.Conn) (holder string, bound bool, err error)

// southbound is the configuration of the service of switches.
func (c *Controller) southbound() southbound.Config {
	cfg := c.cfg.Southbound
	if c.cfg.FirstUse != nil {
		cfg.Admit = c.admit
	}
	return cfg
}

// admit returns an error if the peer of a connection may not speak for a switch.
func (c *Controller) admit(ctx context.Context, conn net.Conn, id openflow.DatapathID, agent bool) error {
	if admit := c.cfg.Southbound.Admit; admit != nil {
		if err := admit(ctx, conn, id, agent); err != nil {
			return err
		}
	}
	who, bound, err := c.cfg.FirstUse(conn)
	if err != nil {
		return err
	}
	holder, err := c.claim(ctx, id, who)
	switch {
	case bound || err == nil && holder == who:
		return nil
	case err != nil:
		return fmt.Errorf("whether %s may speak for switch %s is not known: %w", who, id, err)
	}
	return fmt.Errorf("%s may not speak for switch %s, since %s was the first that did: use its certificate, or have "+
		"an operator run `holdfast switch forget --certificate %s`", who, id, holder, id)
}

// claim returns who holds a switch. It is who asks if nobody was before. If the replica here does not say that already,
// the log is asked.
func (c *Controller) claim(ctx context.Context, id openflow.DatapathID, who string) (holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	message := admission.Claim(id, who)
	if reply, ok := (backend{c}).Read(ctx, admission.Actor, message); ok {
		if holder, known, err := admission.Holder(reply); err == nil && known && holder == who {
			return holder, nil
		}
	}
	return c.holder(ctx, message)
}

// holder has the log execute a message of package admission, and returns the holder in the reply.
func (c *Controller) holder(ctx context.Context, message []byte) (string, error) {
	reply, err := c.call(ctx, ledger.Call{Actor: admission.Actor, Message: message})
	if err != nil {
		return "", err
	}
	holder, _, err := admission.Holder(reply)
	return holder, err
}
