// Package apptest runs applications for their tests: events go in, and the commands that
// they sent come out, decoded. Behind it is a real ledger that leads alone, or with Group
// three, of which the leader may die; there are no switches or connections.
//
//	net := apptest.New(t, learning.New())
//	net.SwitchUp(1)
//	sent := net.PacketIn(1, 3, of13.NoBuffer, frame)
package apptest

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Net is a network of one controller, which leads one group or several. A failure of an application fails the test,
// unless it MayFail.
type Net struct {
	Passed int // frames that groups have sent to each other

	t      Tester
	groups []*ledger.Core // number 1 first
	slow   bool
	frames []passing
	unsent []Sent // because of calls
	moved  map[ledger.Actor]ledger.Assignment
	failed *[]string // the reasons; nil: a failure fails the test
	now    int64
	epochs map[app.Switch]uint64
	seqs   map[app.Switch]uint64
}

// Sent is a command on its way to a switch.
type Sent struct {
	Switch  app.Switch
	XID     uint32
	Message of13.Message
}

// passing is a frame on its way to a group.
type passing struct {
	to    uint64
	frame []byte
}

// New starts a ledger that runs apps.
func New(t Tester, apps ...*app.App) *Net {
	t.Helper()
	return NewOf(t, 1, apps...)
}

// NewOf starts the ledgers of several groups. Switches are in them by turns, and what an application has besides its
// cells of switches is in one of them.
func NewOf(t Tester, groups uint64, apps ...*app.App) *Net {
	t.Helper()
	list := make([]ledger.Application, len(apps))
	for i, a := range apps {
		list[i] = a
	}
	n := &Net{t: t, now: 1, epochs: map[app.Switch]uint64{}, seqs: map[app.Switch]uint64{},
		moved: map[ledger.Actor]ledger.Assignment{}}
	for g := range groups {
		core, err := ledger.New(list, ledger.Limits{})
		n.must(err)
		if groups > 1 {
			core.Join(g+1, n.home)
			core.Enumerate(n.shards)
		}
		n.must(core.Lead(1, n.now))
		n.groups = append(n.groups, core)
	}
	return n
}

func (n *Net) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%v", err)
	}
}

// home is the Directory.
func (n *Net) home(a ledger.Actor) (ledger.Assignment, bool) {
	if at, moved := n.moved[a]; moved {
		return at, true
	}
	at := uint64(a.Switch)
	if a.Switch == 0 {
		at = uint64(len(a.App)) + a.Key.A + uint64(len(a.Key.S))
	}
	return ledger.Assignment{Group: 1 + at%uint64(len(n.groups)), Version: 1}, true
}

// shards returns what the directory knows of an application: the actors that have cells, and all switches.
func (n *Net) shards(name string) (list []ledger.Shard) {
	for _, core := range n.groups {
		for _, a := range core.Assignable() {
			if a.App == "" || a.App == name {
				list = append(list, a.Shard)
			}
		}
	}
	return list
}

// Move moves an actor of an application, not of a switch, to another group, and returns what is sent meanwhile. Groups
// are numbered from 1.
func (n *Net) Move(a ledger.Actor, to uint64) (sent []Sent) {
	n.t.Helper()
	n.must(n.lives(a).Move(a, to))
	sent = n.commit()
	if at, _ := n.home(a); at.Group != to {
		n.t.Fatalf("%v does not arrive in group %d", a, to)
	}
	return sent
}

// Lives returns the number of the group in which an actor lives.
func (n *Net) Lives(a ledger.Actor) uint64 {
	at, _ := n.home(a)
	return at.Group
}

// lives returns the ledger of an actor.
func (n *Net) lives(a ledger.Actor) *ledger.Core { return n.groups[n.Lives(a)-1] }

// arrived tells everybody where actors live that have arrived in a group.
func (n *Net) arrived(core *ledger.Core) {
	for _, a := range core.Unpublished() {
		n.moved[a], _ = core.Assignment(a)
		for _, other := range n.groups {
			other.Relocated(a)
		}
	}
}

// group returns the ledger of a switch.
func (n *Net) group(id app.Switch) *ledger.Core {
	return n.lives(ledger.Actor{Shard: ledger.AtSwitch(id)})
}

// SwitchUp begins a new epoch of a switch with these ports.
func (n *Net) SwitchUp(id app.Switch, ports ...of13.PortDesc) []Sent {
	n.t.Helper()
	n.epochs[id]++
	n.seqs[id] = 0
	return n.Event(id, Up(id, ports...))
}

// SwitchDown ends the epoch of a switch.
func (n *Net) SwitchDown(id app.Switch) []Sent {
	n.t.Helper()
	return n.Event(id, Down())
}

// Forget forgets a switch that is down.
func (n *Net) Forget(id app.Switch) []Sent {
	n.t.Helper()
	n.must(n.group(id).Forget(id))
	return n.commit()
}

// Up is the event that begins an epoch of a switch with these ports.
func Up(id app.Switch, ports ...of13.PortDesc) []byte {
	var list of13.List[of13.PortDesc]
	for _, p := range ports {
		list = list.With(p)
	}
	features := of13.FeaturesReply{DatapathID: id, NTables: 254}
	reply := of13.MultipartReply{Part: of13.PartPortDesc, Body: list}
	return experimenter.SwitchUp{Features: features.Append(nil, 0), Ports: reply.Append(nil, 0)}.Append(nil,
		openflow.Version13)
}

// Down is the event that ends an epoch.
func Down() []byte {
	return experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonConnectionLost)
}

// PacketIn hands a frame that came in by a port to the controller.
func (n *Net) PacketIn(id app.Switch, port app.Port, buffer uint32, frame string) []Sent {
	n.t.Helper()
	return n.Message(id, &of13.PacketIn{BufferID: buffer, TotalLen: uint16(len(frame)),
		Match: of13.Match(nil).WithInPort(port), Data: []byte(frame)}, 0)
}

// Message gives the controller any message from a switch.
func (n *Net) Message(id app.Switch, m of13.Message, xid uint32) []Sent {
	n.t.Helper()
	return n.Event(id, m.Append(nil, xid))
}

// Event is Message for one that is encoded already.
func (n *Net) Event(id app.Switch, msg []byte) []Sent {
	n.t.Helper()
	n.seqs[id]++
	n.must(n.group(id).Event(id, n.epochs[id], n.seqs[id], msg))
	return n.commit()
}

// Advance lets time pass; timers that are due fire.
func (n *Net) Advance(d time.Duration) []Sent {
	n.t.Helper()
	n.now += int64(d)
	for _, core := range n.groups {
		core.Tick(n.now)
	}
	return n.commit()
}

// MayFail makes failures of applications fail the test no longer. It returns where their reasons will be.
func (n *Net) MayFail() *[]string {
	n.failed = new([]string)
	return n.failed
}

// Rows returns what an application has in its tables.
func (n *Net) Rows(name string) (rows []ledger.Row) {
	n.t.Helper()
	for _, core := range n.groups {
		list, err := core.Rows(name, 1<<30)
		n.must(err)
		rows = append(rows, list...)
	}
	return rows
}

// commit commits all that was executed, and what that causes in other groups. It returns what leaves at once, and then
// what may leave.
func (n *Net) commit() (sent []Sent) {
	n.t.Helper()
	sent, n.unsent = n.unsent, nil
	for more := true; more; {
		more = false
		for _, core := range n.groups {
			list, again := n.commitGroup(core)
			sent, more = append(sent, list...), more || again
		}
	}
	return sent
}

// commitGroup commits what one group has executed, and passes on what it has for the others.
func (n *Net) commitGroup(core *ledger.Core) (sent []Sent, more bool) {
	n.t.Helper()
	for _, f := range core.Failures() {
		if n.failed != nil {
			*n.failed = append(*n.failed, f.Err.Error())
			continue
		}
		n.t.Errorf("application %s failed on %s: %v\n%s", f.App, f.Input.String(), f.Err, f.Stack)
	}
	core.Moves()
	sent = n.decode(nil, core.Immediate())
	entry, more := core.Cut()
	if more {
		n.must(core.Commit(entry))
		sent = n.decode(sent, core.Releases())
		n.arrived(core)
	}
	core.Frames(func(group uint64, frame []byte) {
		more = true
		n.Passed++
		if n.slow {
			n.frames = append(n.frames, passing{group, frame})
			return
		}
		sent = append(sent, n.receive(n.groups[group-1], frame)...)
	})
	return sent, more
}

func (n *Net) receive(core *ledger.Core, frame []byte) (sent []Sent) {
	n.t.Helper()
	for f := ledger.NewFrame(frame); ; {
		finished, err := core.Execute(f)
		n.must(err)
		if finished {
			return sent
		}
		list, _ := n.commitGroup(core)
		sent = append(sent, list...)
	}
}

// Delay makes frames between groups wait until Deliver is called.
func (n *Net) Delay() { n.slow = true }

// Waiting returns how many frames between groups wait.
func (n *Net) Waiting() int { return len(n.frames) }

// Deliver takes one of the frames that wait, 0 being the oldest, to its group.
func (n *Net) Deliver(i int) []Sent {
	n.t.Helper()
	f := n.frames[i]
	n.frames = slices.Delete(n.frames, i, i+1)
	sent := n.receive(n.groups[f.to-1], f.frame)
	return append(sent, n.commit()...)
}

func (n *Net) decode(sent []Sent, list []ledger.Release) []Sent {
	n.t.Helper()
	for _, r := range list {
		rest := r.Commands
		if r.BestEffortCount > 0 {
			rest = r.BestEffort
		}
		for len(rest) > 0 {
			msg, after, err := openflow.Next(rest)
			n.must(err)
			m, err := of13.Decode(msg)
			n.must(err)
			sent, rest = append(sent, Sent{r.Switch, openflow.XID(msg), m}), after
		}
	}
	return sent
}

// Call sends a request to a route of an application, wherever its actor lives, and returns the answer. The commands
// that it causes come with those of the next event or Advance.
func (n *Net) Call(a *app.App, route string, q app.Request) app.Response {
	n.t.Helper()
	message := httpcall.Encode(q)
	shard, err := a.Callee(route, message)
	n.must(err)
	actor := ledger.Actor{App: a.Name(), Shard: shard}
	answers, sent := n.call(ledger.Call{Actor: actor, Name: route, Message: message})
	for range 3 { // its actors may have to come together
		if len(answers) > 0 {
			break
		}
		sent = append(sent, n.Advance(time.Millisecond)...)
		for _, core := range n.groups {
			answers = append(answers, core.Answers()...)
		}
	}
	n.unsent = sent
	for _, answer := range answers {
		if r, err := httpcall.Decode[app.Response](answer.Message); err != nil || answer.Failed {
			n.t.Fatalf("%s is answered with %q (%v)", route, answer.Message, err)
		} else {
			return r
		}
	}
	n.t.Fatalf("%s is not answered", route)
	return app.Response{}
}

// call executes a call, wherever its actor lives.
func (n *Net) call(q ledger.Call) ([]ledger.Answer, []Sent) {
	n.t.Helper()
	core := n.lives(q.Actor)
	n.must(core.Call(q))
	sent := n.commit()
	return core.Answers(), sent
}

// Detached runs what an application has given to app.Detach, one after the other, each until it returns. What it emits
// is handled at once.
func (n *Net) Detached(ctx context.Context, a *app.App) (sent []Sent) {
	n.t.Helper()
	for _, run := range a.Detached() {
		run(ctx, func(_ context.Context, name string, message []byte) error {
			answers, list := n.call(ledger.Call{Actor: ledger.Actor{App: a.Name()}, Name: name, Message: message})
			sent = append(sent, list...)
			if len(answers) != 1 || answers[0].Failed {
				n.t.Fatalf("%s is answered with %v", name, answers)
			}
			return nil
		})
	}
	return sent
}
