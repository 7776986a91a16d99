package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/admission"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A switch that is gone for good is forgotten (ledger.Core.Forget), because an operator says so, or because it has been
// down for CoreConfig.SwitchExpiry.

// expiry is what the leader knows of switches that are down.
type expiry struct {
	looked time.Time
	down   map[openflow.DatapathID]time.Time // since when, as this leader has seen it
}

// expireEvery is how often the leader looks for switches that have been down for long, and expireAtOnce how many it
// forgets then: each is a transaction.
const (
	expireEvery  = time.Second
	expireAtOnce = 16
)

// connected reports whether this leader has a session of a switch, here or through another controller.
func (c *Core) connected(id openflow.DatapathID) bool {
	return c.sessions[id] != nil || c.spares[id] != nil
}

// refuseForget answers a call to forget a switch that is connected, of which the log may not say that it is up.
func (c *Core) refuseForget(q ledger.Call) bool {
	if !q.Forgets || !c.connected(q.Actor.Switch) {
		return false
	}
	c.outside.Answer(q.Caller, Outcome{q.ID, failed, []byte(ledger.ErrConnected.Error())}.append(nil))
	return true
}

// expire forgets switches that have been down for long.
func (c *Core) expire(now time.Time) {
	x := &c.expiry
	if c.cfg.SwitchExpiry <= 0 || now.Sub(x.looked) < expireEvery {
		return
	}
	was := x.down
	x.looked, x.down = now, map[openflow.DatapathID]time.Time{}
	n := 0
	for _, sw := range c.ledger.Switches() {
		id := sw.Switch
		if sw.Live && sw.Reachable || c.connected(id) {
			continue
		}
		since, known := was[id]
		if !known {
			since = now
		}
		x.down[id] = since
		if now.Sub(since) < c.cfg.SwitchExpiry || n >= expireAtOnce || !c.room() {
			continue
		}
		n++
		if err := c.ledger.Forget(id); err != nil {
			x.down[id] = now // not again at once
			c.log.Warn("a switch that has been down for long is not forgotten", "switch", id, "err", err)
			continue
		}
		c.log.Info("a switch is forgotten, because it has been down for long", "switch", id, "down", now.Sub(since))
	}
}

// forgotten forgets what this controller has in memory of switches that are forgotten, unless they are back.
func (c *Core) forgotten() {
	for _, id := range c.ledger.Forgotten() {
		if c.sessions[id] != nil || c.local[id] != nil {
			continue
		}
		if last, claimed := c.claims[id]; claimed {
			c.bygone = max(c.bygone, last.number+1)
			delete(c.claims, id)
		}
		delete(c.silences, id)
		delete(c.stays, id)
		delete(c.absent, id)
		delete(c.left, id)
	}
}

// Forget is the request to forget a switch that is gone for good.
type Forget struct {
	Switch      string `json:"switch"`                // its datapath id, as in the status
	Certificate bool   `json:"certificate,omitempty"` // only who holds it, see FirstUse
	Holder      string `json:"holder,omitempty"`      // in the answer: who held it
}

// forget forgets a switch, and returns when that is committed.
func (c *Controller) forget(ctx context.Context, f Forget) (Forget, error) {
	a, err := Move{Switch: f.Switch}.actor()
	if err != nil {
		return f, err
	}
	if !f.Certificate {
		if _, err := c.call(ctx, ledger.Call{Actor: a, Forgets: true}); err != nil {
			return f, err
		}
		c.log.Info("a switch is forgotten", "switch", a.Switch)
	}
	done := Forget{Switch: a.Switch.String(), Certificate: f.Certificate}
	switch {
	case c.cfg.FirstUse != nil:
		if done.Holder, err = c.holder(ctx, admission.Forget(a.Switch)); err != nil {
			return f, fmt.Errorf("forget who speaks for switch %s: %w", a.Switch, err)
		}
		c.log.Info("who speaks for a switch is forgotten", "switch", a.Switch, "holder", done.Holder)
	case f.Certificate:
		return f, errNotRemembered
	}
	return done, nil
}

var errNotRemembered = errors.New("the cluster does not remember certificates: its file has no `unlisted: first-use`")
