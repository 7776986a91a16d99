package recovery

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/reconcile"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// todo is a switch that is up, and has to be compared with what it should hold.
type todo struct {
	_        struct{} `cbor:",toarray"`
	Attempts int      // that have failed
	At       int64    // not before
}

// liveCheck is a check in memory. It is valid if its id is that of the state in the table.
type liveCheck struct {
	id    uint64
	check *reconcile.Check
}

// hasNewcomers reports whether there are switches that have not been checked since they came up.
func (v *visit) hasNewcomers() bool {
	for _, d := range v.todo.All(v.tx, all) {
		if d.Attempts == 0 {
			return true
		}
	}
	return false
}

// startChecks begins the checks that are due, as far as there is room.
func (v *visit) startChecks() error {
	busy := v.countJobs()
	for s, d := range v.todo.All(v.tx, all) {
		if busy >= maxJobs {
			return nil
		}
		if _, at := v.jobs.Get(v.tx, all, s); at || v.now < d.At {
			continue
		}
		if err := v.startCheck(s); err != nil {
			return err
		}
		busy++
	}
	return nil
}

// nextTurn returns when to check one more switch, so that all have been checked within the period.
func (v *visit) nextTurn() int64 {
	n := 0
	for range v.tx.Switches() {
		n++
	}
	return v.now + int64(max(v.config.Reconcile/time.Duration(max(1, n)), minTurn))
}

func (v *visit) setTurn(at int64) {
	v.st.TurnAt = at
	v.set(timerTurn, time.Duration(at-v.now))
}

// turn checks one more switch. After the last one it checks whether the configuration, which may have changed, needs
// another plan.
func (v *visit) turn() error {
	v.setTurn(v.nextTurn())
	switches := slices.Collect(v.tx.Switches())
	if v.changing() || v.countJobs() >= maxJobs || len(switches) == 0 {
		return nil
	}
	i, found := slices.BinarySearch(switches, v.st.Turn)
	if found {
		i++
	}
	if i %= len(switches); i == 0 && v.st.First == 0 && (v.st.Problem != "" ||
		v.st.Installed.Avoid != v.config.Disjoint) {
		v.changed(hostQuiet, "the configuration may be another")
	}
	v.st.Turn = switches[i]
	if _, busy := v.jobs.Get(v.tx, all, v.st.Turn); busy || !v.inSync(v.st.Turn) {
		return nil
	}
	return v.startCheck(v.st.Turn)
}

func (v *visit) startCheck(s app.Switch) error {
	j := job{Check: true, ID: rand.Uint64()}
	want, err := v.want(s)
	if err != nil {
		return err
	}
	c, err := reconcile.New(want, v.policy())
	if err != nil {
		return fmt.Errorf("look at %s: %w", switchName(s), err)
	}
	for i, m := range c.Requests() {
		if j.Requests[i] = v.tx.Send(s, m); j.Requests[i] == 0 {
			return nil // it is gone
		}
	}
	v.remember(s, j.ID, c)
	j.State = c.State()
	v.putJob(s, j)
	return nil
}

// remember keeps a check in memory. When there are too many, those of earlier leaderships are removed.
func (v *visit) remember(s app.Switch, id uint64, c *reconcile.Check) {
	if len(v.checks) > 2*maxJobs {
		clear(v.checks)
	}
	v.checks[s] = liveCheck{id, c}
}

// want is what a switch should hold while no plan is being installed.
func (v *visit) want(s app.Switch) (reconcile.Want, error) {
	c, err := v.plan(installed)
	if err != nil {
		return reconcile.Want{}, err
	}
	w := reconcile.Want{Flows: pipeline(v.config.Table)}
	for _, m := range protect.Diff(protect.Program{}, c.plan.Program(s)).Messages() {
		switch m := m.(type) {
		case *of13.FlowMod:
			w.Flows = append(w.Flows, *m)
		case *of13.GroupMod:
			w.Groups = append(w.Groups, *m)
		}
	}
	return w, nil
}

func (v *visit) policy() reconcile.Policy {
	return reconcile.Policy{
		Flow: func(f of13.FlowStats) reconcile.Owner {
			switch {
			case f.Cookie == protect.Cookie || f.Cookie == Cookie:
				return reconcile.Own
			case f.TableID < v.config.Table, f.Cookie == topology.Cookie, f.Cookie == liveness.Cookie,
				experimenter.IsMarker(f.Cookie):
				return reconcile.Spare
			}
			return reconcile.Foreign
		},
		Group: func(g of13.GroupDesc) reconcile.Owner {
			if id := protect.GroupID(g.GroupID); g.GroupType == id.Type() && bytes.Equal(g.Buckets, id.Buckets()) {
				return reconcile.Own
			}
			return reconcile.Foreign
		},
		RemoveForeign: v.config.RemoveForeign,
	}
}

// checkOf returns the check of a job, from memory or from the table.
func (v *visit) checkOf(s app.Switch, j job) (*reconcile.Check, error) {
	if c, ok := v.checks[s]; ok && c.id == j.ID {
		return c.check, nil
	}
	want, err := v.want(s)
	if err != nil {
		return nil, err
	}
	return reconcile.Resume(want, v.policy(), j.State)
}

// reply handles one part of what a switch holds.
func (v *visit) reply(m app.Reply) error {
	if m.Part == of13.PartPortDesc {
		v.ports(m)
		return nil
	}
	j, busy := v.jobs.Get(v.tx, all, m.Switch)
	if !busy || !j.Check || j.Barrier != 0 || !slices.Contains(j.Requests[:], m.XID) {
		return nil
	}
	c, err := v.checkOf(m.Switch, j)
	delete(v.checks, m.Switch) // what is in memory is newer than the table from here on, in case this is rolled back
	var deletions []of13.Message
	if err == nil {
		deletions, err = c.Reply(m.MultipartReply)
	}
	if err != nil {
		v.fail(m.Switch, err.Error(), "")
		return nil
	}
	for _, d := range deletions {
		v.tx.Send(m.Switch, d)
	}
	j.Removing = j.Removing || len(deletions) > 0
	j.ID, j.State = rand.Uint64(), c.State()
	v.remember(m.Switch, j.ID, c)
	if !c.Complete() {
		v.putJob(m.Switch, j)
		return nil
	}
	if msgs := c.Repair(); j.Removing || len(msgs) > 0 {
		v.send(m.Switch, j, msgs)
		return nil
	}
	v.checked(m.Switch, c.Result())
	return nil
}

// repair sends the next part of the repairs, if there is more.
func (v *visit) repair(s app.Switch, j job) error {
	c, err := v.checkOf(s, j)
	if err != nil {
		v.fail(s, err.Error(), "")
		return nil
	}
	if msgs := c.Repair(); j.Sent < len(msgs) {
		v.remember(s, j.ID, c)
		v.send(s, j, msgs)
		return nil
	}
	v.checked(s, c.Result())
	return nil
}

// checked records that a switch holds what it should.
func (v *visit) checked(s app.Switch, r reconcile.Result) {
	row, _ := v.switches.Get(v.tx, all, s)
	row.Checked = v.now
	row.Right, row.Wrong, row.Missing, row.Surplus, row.Foreign = r.Right, r.Wrong, r.Missing, r.Surplus, r.Foreign
	if v.inSync(s) { // else it was expected
		row.PutBack += uint64(r.Wrong + r.Missing)
		row.Removed += uint64(r.Surplus)
	}
	if v.config.RemoveForeign {
		row.Removed += uint64(r.Foreign)
	}
	row.Failed, row.Error, row.Command = 0, "", ""
	v.switches.Put(v.tx, all, s, row)
	v.todo.Delete(v.tx, all, s)
	v.endJob(s)
	delete(v.checks, s)
}

// maxCommandText bounds the recorded text of a command that a switch refused.
const maxCommandText = 300

func (v *visit) refused(m app.Refused) error {
	command := ""
	if c, err := of13.Decode(m.Command); err == nil {
		command = fmt.Sprint(c)
		command = command[:min(len(command), maxCommandText)]
	}
	v.fail(m.Switch, "refused: "+m.Error.String(), command)
	return nil
}

// fail records that it is unknown what a switch holds. It is compared again, later each time. Errors that follow from
// the first one are not recorded.
func (v *visit) fail(s app.Switch, why, command string) {
	row, _ := v.switches.Get(v.tx, all, s)
	d, behind := v.todo.Get(v.tx, all, s)
	if !row.Up || behind && v.now < d.At {
		return
	}
	v.endJob(s)
	d.Attempts++
	wait := min(time.Second<<min(d.Attempts-1, 6), maxRetry)
	d.At = v.now + int64(wait)
	v.todo.Put(v.tx, all, s, d)
	v.set(timerRetry+s.String(), wait)
	row.Failed, row.Error, row.Command = v.now, why, command
	v.switches.Put(v.tx, all, s, row)
}

// The entries of the first table, above those of topology, which only tell the controller.
const (
	priorityPass  = 0
	priorityTells = 2
)

// pipeline returns the entries that lead packets to the table of hosts. Packets that reveal hosts go to the controller
// too.
func pipeline(first uint8) []of13.FlowMod {
	entry := func(priority uint16, m of13.Match, in of13.Instructions) of13.FlowMod {
		return of13.FlowMod{TableID: first, Cookie: Cookie, Priority: priority, Match: m,
			Instructions: in.Goto(hostTable(first))}
	}
	flows := []of13.FlowMod{entry(priorityPass, nil, nil)}
	tell := func(m of13.Match) {
		toController := of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)
		flows = append(flows, entry(priorityTells, m, of13.Instructions(nil).Apply(toController)))
	}
	const arp, ipv4, ipv6, udp = 0x0806, 0x0800, 0x86dd, 17
	tell(of13.Match(nil).WithEthType(arp))
	for m := range topology.Discovery() {
		tell(m)
	}
	for _, dhcp := range []struct {
		ethType uint16
		port    uint64
	}{{ipv4, 67}, {ipv4, 68}, {ipv6, 546}, {ipv6, 547}} {
		tell(of13.Match(nil).WithEthType(dhcp.ethType).WithIPProto(udp).WithUint(of13.FieldUDPDst, dhcp.port))
	}
	return flows
}
