package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// SuspendedStatus is an actor that is suspended.
type SuspendedStatus struct {
	Actor  string     `json:"actor"` // its name
	Group  uint64     `json:"group"` // in which it lives
	App    string     `json:"app"`
	Switch string     `json:"switch,omitempty"`
	Key    ledger.Key `json:"key,omitzero"`
	// AllInputs: it was not known which actor handles the input that hung. So all inputs of the application fail that
	// come from there.
	AllInputs bool      `json:"all_inputs,omitempty"`
	Reason    string    `json:"reason"`
	Since     time.Time `json:"since"`
	Failed    uint64    `json:"failed_inputs"` // because of it, since the leader of the group leads
}

func describeSuspended(group uint64, list []ledger.Suspended) []SuspendedStatus {
	out := []SuspendedStatus{}
	for _, s := range list {
		d := SuspendedStatus{Actor: s.Actor.String(), Group: group, App: s.App, Key: s.Key, AllInputs: s.Early,
			Reason: s.Reason, Since: s.Since.UTC(), Failed: s.Failed}
		if s.Actor.Switch != 0 {
			d.Switch = s.Actor.Switch.String()
		}
		out = append(out, d)
	}
	return out
}

// refusalsEvery is how often the log says that inputs of suspended actors have failed. There may be many of them.
const refusalsEvery = 10 * time.Second

// refusals is what the log says of inputs of suspended actors.
type refusals struct {
	told  time.Time
	count map[ledger.Actor]uint64 // by then
}

// tellRefusals logs how many inputs of suspended actors have failed.
func (c *Core) tellRefusals(now time.Time) {
	r := &c.refusals
	if now.Sub(r.told) < refusalsEvery {
		return
	}
	r.told = now
	count := map[ledger.Actor]uint64{}
	for _, s := range c.ledger.Suspended() {
		if count[s.Actor] = s.Failed; s.Failed > r.count[s.Actor] {
			c.log.Warn("inputs of a suspended actor fail; holdfast resume resumes it", "actor", s.Actor.String(),
				"inputs", s.Failed, "suspended", s.Reason)
		}
	}
	r.count = count
}

// Resume is the request to resume an actor of an application that is suspended.
type Resume struct {
	App    string     `json:"app"`
	Key    ledger.Key `json:"key,omitzero"`     // as in Move
	Switch string     `json:"switch,omitempty"` // the datapath id, if it is what the application has at a switch
}

// Resumed is the answer.
type Resumed struct {
	Actor  string `json:"actor"`
	Reason string `json:"reason"` // why it was suspended
}

func (r Resume) actor() (ledger.Actor, error) {
	a := ledger.Actor{App: r.App, Shard: ledger.Shard{Key: r.Key}}
	switch {
	case r.Switch == "":
		return a, nil
	case r.Key != ledger.Key{}:
		return a, errors.New("name a key, or a switch")
	}
	id, err := strconv.ParseUint(r.Switch, 16, 64)
	if err != nil || id == 0 {
		return a, fmt.Errorf("datapath id %q is not one that holdfast status shows", r.Switch)
	}
	a.Shard = ledger.AtSwitch(openflow.DatapathID(id))
	return a, nil
}

// resume resumes an actor, and returns when that is committed.
func (c *Controller) resume(ctx context.Context, r Resume) (Resumed, error) {
	a, err := r.actor()
	if err != nil {
		return Resumed{}, err
	}
	if _, err := c.running(r.App); err != nil {
		return Resumed{}, err
	}
	reason, err := c.call(ctx, ledger.Call{Actor: a, Resumes: true})
	if err != nil {
		return Resumed{}, err
	}
	c.log.Info("an actor is resumed", "actor", a.String(), "was", string(reason))
	return Resumed{a.String(), string(reason)}, nil
}
