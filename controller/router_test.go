package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// counter floods each packet, and counts all of them in one cell: so it works in one group, for the switches of all.
func counter() []ledger.Application {
	a := app.New("counter")
	count := app.NewTable[string, uint64](a, "count")
	need := func(app.PacketIn) app.Cells { return app.Need(count.Cell("all")) }
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	app.Handle(a, need, func(tx *app.Tx, in app.PacketIn) error {
		n, _ := count.Get(tx, "all")
		count.Put(tx, "all", n+1)
		tx.PacketOut(in.Switch, of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: flood})
		return nil
	})
	return []ledger.Application{a}
}

// An event of a switch in one group, handled in another, commands the switch, whether or not the controllers have
// replicas of both groups.
func TestFramesBetweenGroups(t *testing.T) {
	for _, replicas := range []int{3, 1} {
		s := startTestCluster(&testCluster{t: t, apps: counter, several: true, replicas: replicas})
		r := s.run(6, 300*time.Millisecond)
		if r.Unanswered != 0 || r.Total.Answered != r.Total.Sent || r.Total.Sent == 0 {
			t.Errorf("%d replicas: %d packet-ins, %d answered, %d not", replicas, r.Total.Sent, r.Total.Answered,
				r.Unanswered)
		}
	}
}

// inGroups makes the leaders of groups 1 and 2. A switch lives in the group of its number; every application that has
// an actor for no switch lives in group 1.
func inGroups(t *testing.T, cfg CoreConfig, hosts replay.Runner) (one, two *stand) {
	t.Helper()
	lead := func(number uint64, hosts replay.Runner) *stand {
		cfg.Group, cfg.Hosts = number, hosts
		cfg.Directory = func(a ledger.Actor) (ledger.Assignment, bool) {
			return ledger.Assignment{Group: max(1, uint64(a.Switch))}, true
		}
		s := newStand(t, cfg)
		s.lead(3)
		return s
	}
	return lead(1, hosts), lead(2, nil)
}

// passFrames passes the frames of two leaders once, and commits what they propose.
func passFrames(one, two *stand) {
	one.t.Helper()
	pass := func(from, to *stand) {
		from.pass(TickInterval)
		from.commit()
		frames := from.frames
		from.frames = nil
		for _, b := range frames {
			to.core.Payload(to.now, 0, FramePayload(b))
		}
	}
	pass(one, two)
	pass(two, one)
}

// The events of a switch whose outbox to another group is full stay at its agent, which sends them again when that
// group has taken something, or half a second later. Those of other switches, which send nothing there, are executed.
func TestEventsWaitAtTheAgentForAnotherGroup(t *testing.T) {
	one, two := inGroups(t, CoreConfig{Limits: ledger.Limits{OutboxItems: 3}}, nil)
	one.app.each = func(tx *ledger.Tx, _ *ledger.Input) { _, _ = tx.SendBytes(2, packetIn) }
	sw := one.up(1, 5)
	sw.events(5, 2, packetIns(10)...)
	one.turn()
	one.said("1: hold", "1: taken")
	if st := one.core.Ledger().Switches()[0]; st.Events != 1+3 {
		t.Errorf("%d events are executed", st.Events)
	}
	one.pass(holdTime - time.Millisecond)
	one.commit()
	one.said("1: ack 5/4")
	one.pass(time.Millisecond)
	one.said("1: resend") // there may be events behind it that send nothing to that group
	sw.events(5, 5, packetIns(7)...)
	one.turn()
	one.said("1: hold", "1: taken")
	passFrames(one, two)
	passFrames(one, two) // the other group has taken the items, and that is committed
	one.trace = nil
	one.pass(TickInterval)
	one.said("1: resend")
	sw.events(5, 5, packetIns(7)...)
	one.turn()
	one.commit()
	one.said("1: hold", "1: taken", "1: ack 5/7")
}

// answering is a host whose applications answer each message with a command to switch 2.
type answering struct {
	s      *stand
	life   uint64
	ready  bool
	frames [][]byte
}

func (a *answering) Start(life uint64, _ replay.Beginning)  { a.life, a.ready = life, false }
func (a *answering) Execute(_ uint64, inputs []byte, _ int) { a.frames = append(a.frames, inputs) }
func (a *answering) Checkpoint(life uint64)                 {}
func (a *answering) Stop(uint64)                            {}
func (a *answering) HandOver()                              {}
func (a *answering) Files()                                 {}

// run starts the host, and executes what it is given.
func (a *answering) run() {
	hosting := a.s.core.Hosting()
	if a.life != 0 && !a.ready {
		a.ready = true
		hosting.Ready(a.life, wire.Ready{})
	}
	frames := a.frames
	a.frames = nil
	for _, inputs := range frames {
		var results []wire.Result
		for len(inputs) > 0 {
			in, rest, err := wire.ParseInput(inputs)
			a.s.ok(err)
			r := wire.Result{Number: in.Number, Wake: wire.NoWake}
			if in.Kind == wire.Message {
				r.Commands = []wire.Command{{Switch: 2, Message: (&of13.BarrierRequest{}).Append(nil, 1)}}
			}
			results, inputs = append(results, r), rest
		}
		hosting.Results(a.life, results)
	}
}

// The group of the applications of Ryu has no room while their host is behind, and that cannot go on while an outbox is
// full. So the acknowledgements that empty the outbox need no room, and that commands are void is not told.
func TestHostWaitsForAnotherGroup(t *testing.T) {
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprintf("switch is up %v", up), func(t *testing.T) {
			host := &answering{}
			one, two := inGroups(t, CoreConfig{Identity: "answering", Limits: ledger.Limits{OutboxItems: 64}}, host)
			host.s = one
			if up {
				two.up(2, 5)
			}
			one.pass(TickInterval)
			one.commit()
			host.run()
			sw := one.up(1, 5)
			const events = 6000 // more inputs than may wait for the host
			for seq := 0; seq < events; seq += 1000 {
				sw.events(5, uint64(2+seq), packetIns(1000)...)
				one.turn()
				one.commit()
			}
			full := false
			hosting := one.core.Hosting()
			waits := func() bool { s := hosting.Status(); return s.Logged < events || s.Logged < s.Inputs }
			for n := 0; n < 2000 && waits(); n++ {
				host.run()
				full = full || !one.core.Ledger().Room()
				passFrames(one, two)
			}
			if s := hosting.Status(); waits() || !full {
				t.Errorf("results of %d inputs are logged of %d; items wait: %+v and %+v; there was no room: %v",
					s.Logged, s.Inputs, one.core.Ledger().Streams(), two.core.Ledger().Streams(), full)
			}
		})
	}
}
