package controller

import (
	"cmp"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// An application may say where its actors live (ledger.Placer): where a new one begins, and that they stay there.

// firstGroup returns the group for a new actor of one of the applications. That is here, where its first message is,
// unless the application chooses another one of those that live returns; nil if there is no choice.
func firstGroup(apps []ledger.Application, a ledger.Actor, here uint64, live func() []uint64) uint64 {
	p := placer(apps, a.App)
	if p == nil || live == nil {
		return here
	}
	groups := []uint64{here}
	for _, g := range live() {
		if g != here {
			groups = append(groups, g)
		}
	}
	return cmp.Or(p.Place(a.Shard, groups), here)
}

// placer returns the application with a name, if it is a ledger.Placer.
func placer(apps []ledger.Application, name string) ledger.Placer {
	p, _ := application(apps, name).(ledger.Placer)
	return p
}

// application returns the application with a name; nil if there is none.
func application(apps []ledger.Application, name string) ledger.Application {
	i := slices.IndexFunc(apps, func(a ledger.Application) bool { return a.Name() == name })
	if i < 0 {
		return nil
	}
	return apps[i]
}

// liveGroups returns the home groups that have begun and, as far as this controller knows, have a leader.
func (c *Controller) liveGroups() (live []uint64) {
	for i, row := range c.assigned.layout().Groups {
		n := uint64(i) + 1
		if g := c.router.group(n); len(row.Have) > 0 && (g == nil || g.led.here.Load() || g.led.leader.Load() != 0) {
			live = append(live, n)
		}
	}
	return live
}

// Why the optimizer does not move an actor.
const (
	staysPinned = "pinned" // an operator has said so
	staysSticky = "sticky" // its application has
	staysSwitch = "switch" // it is a switch, or lives with one
	staysHosted = "hosted" // the applications of Ryu, which stay with their host processes
	staysBonded = "bonded" // a handler names its cells together with those of other actors
)

// stays returns why the optimizer does not move an actor; "" if it may.
func (c *Controller) stays(t *ActorTally) string {
	groups, err := c.running(t.App)
	switch {
	case t.Switch != "":
		return staysSwitch
	case c.assigned.pinned(t.actor()):
		return staysPinned
	case err != nil:
		return staysHosted
	case t.Bond != nil:
		return staysBonded
	}
	if p := placer(groups[0].cfg.Applications, t.App); p != nil && p.Stays() {
		return staysSticky
	}
	return ""
}

// limit returns how many messages a second an actor of an application handles at most; 0 is no bound.
func (c *Controller) limit(app string) int {
	groups, err := c.running(app)
	if err != nil {
		return 0
	}
	if l, is := application(groups[0].cfg.Applications, app).(ledger.Limiter); is {
		return l.Limit()
	}
	return 0
}

// actor returns the actor that was counted, which is none at a switch.
func (t *ActorTally) actor() ledger.Actor {
	return ledger.Actor{App: t.App, Shard: ledger.Shard{Key: t.Key}}
}
