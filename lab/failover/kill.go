package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// observed is how long after a kill its silences are looked for. Without a command in that time it is looked again.
const observed = time.Second

// home waits, with several groups, until each is led at home.
func (t *experiment) home(ctx context.Context) error {
	if !t.PerController || t.Soak {
		return nil
	}
	t.resting.Store(t.Rest)
	defer t.resting.Store(false)
	return t.cluster.WaitHome(ctx)
}

// victim returns the controller to kill next: the leader, or with several groups one after the other, since each leads
// one.
func (t *experiment) victim(ctx context.Context) (*cluster.Controller, error) {
	if !t.PerController {
		return t.cluster.WaitLeader(ctx)
	}
	t.killed++
	all := t.cluster.Controllers()
	return all[(t.killed-1)%len(all)], nil
}

// kill kills the leader, waits until the next one has taken over, and restarts the dead one.
func (t *experiment) kill(ctx context.Context) (Kill, error) {
	leader, err := t.victim(ctx)
	if err != nil {
		return Kill{}, err
	}
	k := Kill{Controller: leader.Name}
	s, switches, err := t.serves(ctx, leader)
	if err != nil {
		return k, err
	}
	for _, g := range s.Groups {
		if g.Role == "leader" {
			k.Groups++
		}
	}
	at := time.Now()
	if err := leader.Kill(); err != nil {
		return k, err
	}
	until := at
	for ok := false; !ok; {
		if until = until.Add(observed); until.Sub(at) > patience {
			return k, fmt.Errorf("in the %v after %s was killed, not every one of its %d switches got a command\n%s",
				patience, leader.Name, len(switches), t.cluster.Logs())
		}
		select {
		case <-ctx.Done():
			return k, ctx.Err()
		case <-time.After(time.Until(until)):
		}
		k.Command, ok = t.clock.resumed(at, until, switches)
	}
	next, err := t.cluster.WaitLeader(ctx)
	if err != nil {
		return k, err
	}
	for _, h := range t.net.hosts() {
		k.Hosts = max(k.Hosts, h.longestSilence(at, until))
	}
	leads := fmt.Sprintf("leader %s (SIGKILL); %s leads", leader.Name, next.Name)
	if t.PerController {
		leads = fmt.Sprintf("%s, which led a group (SIGKILL)", leader.Name)
	}
	t.Say(fmt.Sprintf("killed %s; first command after %s, hosts waited %s", leads,
		k.Command.Round(100*time.Microsecond), k.Hosts.Round(100*time.Microsecond)))
	t.resting.Store(t.Rest)
	defer t.resting.Store(false)
	if err := leader.Restart(); err != nil {
		return k, err
	}
	if err := t.caughtUp(ctx, leader); err != nil {
		return k, err
	}
	t.Say(fmt.Sprintf("restarted %s; it has caught up", leader.Name))
	return k, nil
}

// serves returns the status of a controller and the switches of which it is the master. If switches move, it waits
// until there is one.
func (t *experiment) serves(ctx context.Context, c *cluster.Controller) (cluster.Status, []openflow.DatapathID, error) {
	for {
		s, err := c.Status(ctx)
		if err != nil {
			return s, nil, err
		}
		switches, err := mastered(s)
		if err != nil {
			return s, nil, fmt.Errorf("status of %s: %w", c.Name, err)
		}
		if len(switches) > 0 || !t.Migrate {
			return s, switches, nil
		}
		select {
		case <-ctx.Done():
			return s, nil, ctx.Err()
		case <-time.After(moveEvery):
		}
	}
}

// mastered returns the switches of which the controller with this status is the master.
func mastered(s cluster.Status) (ids []openflow.DatapathID, err error) {
	for _, sw := range s.Switches {
		if sw.Role != "master" {
			continue
		}
		id, err := strconv.ParseUint(sw.Switch, 16, 64) // as openflow.DatapathID.String
		if err != nil {
			return nil, err
		}
		ids = append(ids, openflow.DatapathID(id))
	}
	return ids, nil
}

// soakSnapshots is the number of entries between snapshots: a controller that is back reads and audits again what
// follows the last one.
const soakSnapshots = 2000

// killAny kills some controller, most often the leader, and restarts it after a moment.
func (t *experiment) killAny(ctx context.Context) (k Kill, err error) {
	victim, err := t.cluster.WaitLeader(ctx)
	if err != nil {
		return k, err
	}
	if t.PerController || rand.N(4) == 0 {
		all := t.cluster.Controllers()
		victim = all[rand.N(len(all))]
	}
	k.Controller = victim.Name
	if err := victim.Kill(); err != nil {
		return k, err
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	if err := victim.Restart(); err != nil {
		return k, err
	}
	return k, t.caughtUp(ctx, victim)
}

// caughtUp waits until a restarted controller has the leader's log, and is connected to the switches.
func (t *experiment) caughtUp(ctx context.Context, n *cluster.Controller) error {
	var have cluster.Status
	target, err := t.cluster.Wait(ctx, "a leader", func(cluster.Status) bool { return true })
	if err != nil {
		return err
	}
	_, err = t.cluster.Wait(ctx, n.Name+" to catch up", func(cluster.Status) bool {
		have, err = n.Status(ctx)
		return err == nil && have.Reached(target)
	})
	if err != nil {
		return err
	}
	return t.cluster.WaitReady(ctx, t.Switches)
}
