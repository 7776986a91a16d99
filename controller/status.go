package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Status is the state of a controller and of the switches as it knows them.
type Status struct {
	Name        string         `json:"name"`
	ID          uint64         `json:"id"`
	Role        string         `json:"role"` // "leader", "follower" or "no leader"
	Term        uint64         `json:"term"`
	Leader      string         `json:"leader"`       // its name, "" if unknown
	Learner     bool           `json:"learner"`      // it receives the log, and has no vote
	Drained     bool           `json:"drained"`      // it leads only if no other controller does
	LastIndex   uint64         `json:"last_index"`   // of the log
	CommitIndex uint64         `json:"commit_index"` // of the log
	Applied     uint64         `json:"applied_index"`
	Snapshot    uint64         `json:"snapshot_index"`
	Apps        []string       `json:"apps"`
	Members     []MemberStatus `json:"members,omitempty"` // on the leader only
	Election    ElectionStatus `json:"election"`
	Groups      []GroupStatus  `json:"groups"` // its replicas; what is not in them is of the first group
	Switches    []SwitchStatus `json:"switches,omitzero"`
	backlog     []BacklogStatus
	failedMoves uint64
	Replayed    *replay.Status `json:"replayed,omitempty"` // applications of Ryu
	Counters    Counters       `json:"counters"`
	Stale       *Stale         `json:"stale,omitempty"` // nil: it knows a leader
	// Suspended are actors that handle nothing, because a handler did not return.
	Suspended []SuspendedStatus `json:"suspended,omitzero"`
	// Hanging are the handlers at this controller that were given up and have not returned. Each may use a processor.
	Hanging int64 `json:"hanging_handlers"`
	// Rebuilt is how often groups at this controller began anew, because their state differed from that of a majority.
	Rebuilt int64 `json:"rebuilt,omitzero"`
	// LastEvent is the number of the last event of this controller that it keeps.
	LastEvent uint64 `json:"last_event,omitzero"`
}

// ElectionStatus says how fast this controller notices a leader that hangs. The death of a leader's process is noticed
// at once.
type ElectionStatus struct {
	ConfiguredMs int64  `json:"configured_ms"` // election_ms of the cluster file
	TimeoutMs    int64  `json:"timeout_ms"`    // the present election timeout
	HangMs       int64  `json:"hang_noticed_within_ms"`
	Why          string `json:"why"` // it is not the configured one; "" if it is
}

// electionStatus describes the election timeout of a member.
func electionStatus(t consensus.ElectionTimeout) ElectionStatus {
	s := ElectionStatus{ConfiguredMs: t.Configured.Milliseconds(), TimeoutMs: t.Present.Milliseconds(),
		HangMs: 2 * t.Present.Milliseconds()}
	if t.Late != consensus.NotLate {
		s.Why = fmt.Sprintf("%v %d ms", t.Late, t.Waited.Milliseconds())
	}
	return s
}

// MemberStatus is another controller, as the leader sees it.
type MemberStatus struct {
	Name      string `json:"name"`
	ID        uint64 `json:"id"`
	Votes     bool   `json:"votes"`
	Connected bool   `json:"connected"`
	Match     uint64 `json:"match_index"` // the last index that it is known to have stored
}

// SwitchStatus is the state of one switch in the ledger, and of its connection to this controller.
type SwitchStatus struct {
	Switch string `json:"switch"`
	Group  uint64 `json:"group,omitzero"`
	// of its assignment to the group, if there are several groups
	Assignment uint64 `json:"assignment_version,omitzero"`
	State      string `json:"state"` // "up", "unreachable" or "down"
	// of this controller: "master"; "degraded", if it was the master when it lost its majority, and runs the handlers
	// marked for that; "proxy", if the leader is the master through it; "standby" or "none"
	Role string `json:"role"`
	Via  string `json:"via,omitempty"` // at the leader: the controller that is its proxy for the switch
	// address from which the switch, or its agent, is connected to this controller; "" without a session
	Remote  string `json:"remote"`
	Mode    string `json:"mode"`    // "agent", "bundles", "legacy" or ""
	Version string `json:"version"` // of OpenFlow, "" without a session
	// "exactly-once", "at-most-once", "none", or "" if only its master knows
	Guarantee     string `json:"guarantee"`
	Why           string `json:"why"`     // the reason of the guarantee
	InSync        bool   `json:"in_sync"` // this controller could lead now without missing an event of the switch
	Epoch         uint64 `json:"epoch"`
	EventsLogged  uint64 `json:"events_logged"`   // watermark of the epoch
	CommandsSent  uint64 `json:"commands_issued"` // last of the epoch
	CommandsDone  uint64 `json:"commands_done"`   // watermark of the epoch
	TotalEvents   uint64 `json:"total_events"`
	TotalCommands uint64 `json:"total_commands"`
}

// Counters count since the process began.
type Counters struct {
	Transactions uint64 `json:"transactions"`
	Duplicates   uint64 `json:"duplicate_events_dropped"`
	Failures     uint64 `json:"application_failures"`
	Entries      uint64 `json:"entries"`
	Reverted     uint64 `json:"transactions_reverted"`
}

// GroupStatus is the state of a group at a controller.
type GroupStatus struct {
	Group     uint64   `json:"group"`
	Role      string   `json:"role"` // as in Status
	Term      uint64   `json:"term"`
	Leader    string   `json:"leader"`   // its name, "" if unknown
	Home      string   `json:"home"`     // the controller that leads it if it can; "" for none
	Replicas  []string `json:"replicas"` // the controllers that have one
	Switches  int      `json:"switches"`
	LastIndex uint64   `json:"last_index"` // of its log
	Applied   uint64   `json:"applied_index"`
	Drained   bool     `json:"drained"`
	Stale     *Stale   `json:"stale,omitempty"` // nil: it knows a leader
	// items that the leader keeps for other groups, because these have not taken them yet
	Backlog []BacklogStatus `json:"backlog,omitempty"`
	// moves from here that were refused, given up or called off since this controller began, while it led
	FailedMoves uint64 `json:"failed_moves,omitzero"`
}

// BacklogStatus is what a group keeps for another one.
type BacklogStatus struct {
	Group uint64 `json:"group"` // that is to take it
	Items int    `json:"items"`
	Bytes int    `json:"bytes"`
}

// Status returns the present state. Safe for concurrent use.
func (c *Controller) Status(ctx context.Context) (Status, error) {
	var all Status
	for i, g := range c.groups.all() {
		s, err := g.status(ctx)
		if i > 0 && errors.Is(err, errClosing) {
			continue // it has just left the group
		}
		if err != nil {
			return all, fmt.Errorf("status of controller %s: %w", c.cfg.Name, err)
		}
		of := GroupStatus{Group: g.cfg.Consensus.Group, Role: s.Role, Term: s.Term, Leader: s.Leader,
			Home: c.nameOf(c.home(g.number())), Switches: len(s.Switches), LastIndex: s.LastIndex, Applied: s.Applied,
			Replicas: g.replicas(), Drained: s.Drained, Backlog: s.backlog, Stale: s.Stale,
			FailedMoves: s.failedMoves}
		if i == 0 {
			all = s
		} else {
			all.add(s, of.Group)
		}
		all.Groups = append(all.Groups, of)
	}
	for i := range all.Switches {
		id, err := strconv.ParseUint(all.Switches[i].Switch, 16, 64) // as DatapathID.String
		if row, known := c.assigned.ofSwitch(openflow.DatapathID(id)); err == nil && known {
			all.Switches[i].Assignment = row.Version
		}
	}
	all.Hanging, all.Rebuilt, all.LastEvent = c.hanging.Load(), c.rebuilt.Load(), c.journal.number()
	slices.SortFunc(all.Switches, func(a, b SwitchStatus) int { return strings.Compare(a.Switch, b.Switch) })
	return all, nil
}

// nameOf returns the name of a controller; "" if it is not known.
func (c *Controller) nameOf(id uint64) string {
	if id == 0 {
		return ""
	}
	return c.system().memberName(c.system().node.Status(), id)
}

// replicas returns the names of the controllers that have a replica of the group.
func (g *group) replicas() []string {
	s, names := g.node.Status(), []string{}
	for id := range s.Members {
		names = append(names, g.memberName(s, id))
	}
	slices.Sort(names)
	return names
}

// add adds what another group has.
func (s *Status) add(o Status, group uint64) {
	s.Apps = o.Apps
	if o.Replayed != nil {
		s.Replayed = o.Replayed
	}
	for _, sw := range o.Switches {
		sw.Group = group
		s.Switches = append(s.Switches, sw)
	}
	s.Suspended = append(s.Suspended, o.Suspended...)
	k := o.Counters
	s.Counters.Transactions += k.Transactions
	s.Counters.Duplicates += k.Duplicates
	s.Counters.Failures += k.Failures
	s.Counters.Entries += k.Entries
	s.Counters.Reverted += k.Reverted
}

// status returns the state of one group, in the form of that of a controller with one group.
func (g *group) status(ctx context.Context) (Status, error) {
	var s Status
	err := g.inLoop(ctx, func() { s = g.core.Status() })
	if err != nil {
		return s, err
	}
	n := g.node.Status()
	s.LastIndex, s.CommitIndex, s.Drained = n.Last, n.Committed, n.Drained
	s.Learner = !slices.Contains(n.Voters, n.ID)
	s.Election = electionStatus(n.Election)
	for _, p := range n.Peers {
		s.Members = append(s.Members, MemberStatus{g.memberName(n, p.ID), p.ID, p.Votes, p.Connected, p.Match})
	}
	if s.Leader == "" {
		s.Leader = g.memberName(n, n.Leader)
	}
	return s, nil
}

// Status returns the present state, except for the fields that only the consensus knows: LastIndex, CommitIndex,
// Learner, Drained, Members and Election.
func (c *Core) Status() Status {
	k := c.ledger.Counters()
	s := Status{
		Name: c.cfg.Name, ID: c.cfg.ID, Term: c.role.Term, Leader: c.cfg.Names[c.role.Leader],
		Applied: c.applied, Snapshot: c.snapshot,
		Stale: c.stale(), failedMoves: c.failedMoves,
		// not null in JSON
		Apps: []string{}, Switches: []SwitchStatus{}, Suspended: describeSuspended(c.cfg.Group, c.ledger.Suspended()),
		Counters: Counters{k.Transactions, k.Duplicates, k.Failures, k.Entries, k.Reverted},
	}
	switch {
	case c.role.Leading:
		s.Role = "leader"
	case c.role.Leader == 0:
		s.Role = "no leader"
	default:
		s.Role = "follower"
	}
	for _, a := range c.cfg.Applications {
		s.Apps = append(s.Apps, a.Name())
	}
	for _, b := range c.ledger.Streams() {
		if b.Items > 0 {
			s.backlog = append(s.backlog, BacklogStatus{b.Group, b.Items, b.Bytes})
		}
	}
	if c.hosting != nil {
		replayed := c.hosting.Status()
		s.Replayed = &replayed
	}
	known := map[openflow.DatapathID]bool{}
	for _, sw := range c.ledger.Switches() {
		known[sw.Switch] = true
		out := SwitchStatus{Switch: sw.Switch.String(), State: "up", Epoch: sw.Epoch, EventsLogged: sw.Events,
			CommandsSent: sw.Commands, CommandsDone: sw.Done, TotalEvents: sw.TotalEvents,
			TotalCommands: sw.TotalCommands}
		if !sw.Live {
			out.State = "down"
		} else if !sw.Reachable {
			out.State = "unreachable"
		}
		s.Switches = append(s.Switches, c.connection(out, sw.Switch))
	}
	for _, id := range sorted(c.sessions, func(s *attached) bool { return !known[s.Switch()] }) {
		s.Switches = append(s.Switches, c.connection(SwitchStatus{Switch: id.String(), State: "down"}, id))
	}
	return s
}

// connection fills in how the switch is connected to this controller.
func (c *Core) connection(out SwitchStatus, id openflow.DatapathID) SwitchStatus {
	s := c.sessions[id]
	if s == nil {
		out.Role = "none"
		return out
	}
	out.Role = "standby"
	if c.follower.Serves(id) {
		out.Role = "proxy"
	}
	st := s.State()
	switch {
	case !s.master || st.Fenced:
	case c.role.Leading:
		out.Role = "master"
	case c.minority.on:
		out.Role = "degraded"
	}
	out.Version = map[uint8]string{openflow.Version10: "1.0", openflow.Version13: "1.3", openflow.Version14: "1.4",
		openflow.Version15: "1.5"}[st.Version]
	out.Remote, out.Mode, out.InSync = st.Remote, st.Peer.String(), st.InSync
	out.Guarantee, out.Why = st.Guarantee, st.Why
	if c.role.Leading {
		c.connectedTo(&out, id, st)
	}
	return out
}

// nameOf returns the name of a controller, also of one that has joined since the start, or its id; "" for 0.
func (c *Core) nameOf(controller uint64) string {
	if controller == 0 {
		return ""
	}
	return cmp.Or(c.present.Names[controller], c.cfg.Names[controller], fmt.Sprint("id ", controller))
}

// connectedTo says through which controllers the leader can reach a switch, if that is less than it should be.
func (c *Core) connectedTo(out *SwitchStatus, id openflow.DatapathID, st southbound.State) {
	name := c.cfg.Name
	if r := c.remote(id); r != nil {
		name = c.nameOf(r.Member())
		out.Via = name
	}
	sessions := c.leader.Sessions(id)
	if c.local[id] != nil {
		sessions++
	}
	var names []string
	for _, id := range c.present.Controllers {
		names = append(names, c.nameOf(id))
	}
	slices.Sort(names)
	remedy := "give it the addresses of " + strings.Join(names, ", ") +
		" (ovs-vsctl set-controller BRIDGE tcp:ADDRESS:6653 …)"
	switch {
	case sessions > 1 || len(c.present.Controllers) < 2:
	case st.Peer == southbound.Bundles && out.Guarantee == "exactly-once":
		out.Guarantee = "at-most-once"
		out.Why = "it is connected to " + name + " only, and the events that " + name + " holds are lost if it dies: " +
			remedy
	case st.Peer == southbound.Agent && out.Guarantee == "exactly-once":
		out.Why = "its agent is connected to " + name + " only, and nobody reaches the switch while " + name +
			" is down: give the agent the cluster file with all controllers, and look why it does not reach them"
	}
}
