package ledger

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// groups is two groups, 1 and 2, each a pair. A switch lives in the group of its number. Of the applications, "two"
// lives in group 2, any other in group 1.
type groups struct {
	t        *testing.T
	of       map[uint64]*pair
	nobodies map[Actor]bool // that the directories do not know
}

func newGroups(t *testing.T, limits Limits, apps ...Application) *groups {
	t.Helper()
	g := &groups{t: t, of: map[uint64]*pair{}, nobodies: map[Actor]bool{}}
	for n := uint64(1); n <= 2; n++ {
		p := &pair{t: t, leader: mustNew(t, limits, apps...), follower: mustNew(t, limits, apps...), now: 1000}
		p.leader.Join(n, g.lives)
		p.follower.Join(n, g.lives)
		p.must(p.leader.Lead(1, p.now))
		g.of[n] = p
	}
	return g
}

func (g *groups) lives(a Actor) (Assignment, bool) {
	switch {
	case g.nobodies[a]:
		return Assignment{}, false
	case a.Switch != 0:
		return Assignment{Group: uint64(a.Switch)}, true
	case a.App == "two":
		return Assignment{Group: 2}, true
	}
	return Assignment{Group: 1}, true
}

// sent commits what a group has, and returns its frames for the other group.
func (g *groups) sent(from uint64) (frames [][]byte) {
	g.t.Helper()
	g.of[from].commit()
	g.of[from].leader.Frames(func(_ uint64, b []byte) { frames = append(frames, b) })
	return frames
}

// take executes frames in a group, which commits whenever it has no room.
func (g *groups) take(to uint64, frames [][]byte) {
	g.t.Helper()
	p := g.of[to]
	for _, b := range frames {
		for f, finished := NewFrame(b), false; !finished; {
			var err error
			finished, err = p.leader.Execute(f)
			p.must(err)
			if !finished {
				p.commit()
			}
		}
	}
}

// settle passes frames until there are no more.
func (g *groups) settle() {
	g.t.Helper()
	for range 100 {
		one, two := g.sent(1), g.sent(2)
		if len(one)+len(two) == 0 {
			return
		}
		g.take(2, one)
		g.take(1, two)
	}
	g.t.Fatal("the groups send without end")
}

// waiting returns how many items of a group wait for the other.
func (g *groups) waiting(from uint64) (n int) {
	for _, s := range g.of[from].leader.Streams() {
		n += s.Items
	}
	return n
}

// whole is a script with one actor, to which all inputs belong.
type whole struct{ script }

func (w *whole) Handle(tx *Tx, in *Input) error {
	if !tx.Enter(Shard{}) {
		return nil
	}
	return w.script.Handle(tx, in)
}

// onPacket makes a whole that handles packet-ins by their bodies.
func onPacket(name string, do func(tx *Tx, body string) error) *whole {
	return &whole{script{name: name, do: func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		return do(tx, string(in.Message[openflow.HeaderLen:]))
	}}}
}

// sendsTo2 makes an application in group 1 that sends a command to switch 2 for each packet-in "send".
func sendsTo2() *whole {
	return onPacket("one", func(tx *Tx, body string) error {
		if body == "send" {
			tx.Send(2, simCommand("command"))
		}
		return nil
	})
}

// Acknowledgements are taken when there is no room for an input, and the items behind them when there is.
func TestAcknowledgementsNeedNoRoom(t *testing.T) {
	one := sendsTo2()
	g := newGroups(t, Limits{BatchInputs: 1}, one)
	g.of[2].up(2)
	g.of[1].up(1)
	g.settle()
	g.of[1].event(1, 1, 2, packetIn("send"))
	g.take(2, g.sent(1))
	g.of[2].event(2, 1, 2, packetIn("item"))
	acknowledged := g.sent(2)
	one.told = nil

	p := g.of[1]
	p.event(1, 1, 3, packetIn("no more room"))
	if p.leader.Room() || g.waiting(1) != 1 || len(acknowledged) != 1 {
		t.Fatalf("there is room %v, %d items wait, %d frames came", p.leader.Room(), g.waiting(1), len(acknowledged))
	}
	f := NewFrame(acknowledged[0])
	p.must(p.leader.Acknowledge(f))
	p.commit()
	if n := g.waiting(1); n != 0 {
		t.Errorf("%d items wait although all are acknowledged", n)
	}
	p.event(1, 1, 4, packetIn("again"))
	if finished, err := p.leader.Execute(f); finished || err != nil {
		t.Errorf("an item was executed without room (%v)", err)
	}
	p.commit()
	if finished, err := p.leader.Execute(f); !finished || err != nil {
		t.Errorf("the item was not executed (%v)", err)
	}
	wantTold(t, &one.script, "message of switch "+sw1, "message of switch "+sw1, "message of switch 0000000000000002")
	if err := p.leader.Acknowledge(NewFrame([]byte{2, frameTaken, 1})); !errors.Is(err, errShort) {
		t.Errorf("a frame that is cut off: %v", err)
	}
}

// What one transaction sends fits into an entry of the receiver, behind a whole batch: many commands are several items,
// and a message that is larger than an item makes the application fail.
func TestItemsFitIntoAnEntry(t *testing.T) {
	const count, size = 40, 60_000
	body := func(i int) string { return fmt.Sprint(i, strings.Repeat(" ", size)) }
	one := onPacket("one", func(tx *Tx, how string) error {
		switch how {
		case "commands":
			for i := range count {
				tx.Send(2, simCommand(body(i)))
			}
		case "short commands":
			for range count * 1000 {
				tx.Send(2, simCommand(""))
			}
		case "message":
			return tx.Emit("large", make([]byte, 600<<10))
		}
		return nil
	})
	two := &whole{script{name: "two"}}
	for _, tc := range []struct {
		what  string
		queue uint64 // commands of switch 2 in the end
	}{{"commands", count}, {"short commands", count * 1000}, {"message", 0}} {
		g := newGroups(t, Limits{}, one, two)
		g.of[2].up(2)
		g.of[1].up(1)
		g.settle()
		g.of[1].event(1, 1, 2, packetIn(tc.what))
		frames, p := g.sent(1), g.of[2]
		for seq := uint64(2); len(p.leader.batch.buf) < p.leader.limits.BatchBytes-2*size; seq++ {
			p.event(2, 1, seq, newMessage(of13.TypeBarrierReply, 2<<tagShift, body(0))) // for application two
		}
		g.take(2, frames)
		g.settle()
		for _, entry := range p.entries {
			if len(entry) > p.leader.limits.EntryBytes {
				t.Errorf("%s: an entry of the receiver has %d bytes", tc.what, len(entry))
			}
		}
		sw := p.leader.state.find(2)
		if sw.queue.Last() != tc.queue {
			t.Errorf("%s: %d commands are queued", tc.what, sw.queue.Last())
		}
		for i := range min(count, tc.queue) {
			if got := sw.queue.Item(i + 1)[openflow.HeaderLen:]; tc.what == "commands" && string(got) != body(int(i)) {
				t.Errorf("command %d is another one", i+1)
			}
		}
		failures := g.of[1].leader.Failures()
		if failed := len(failures) > 0 && strings.Contains(failures[0].Err.Error(),
			"a message for application two"); failed !=
			(tc.what == "message") || len(failures) > 1 {
			t.Errorf("%s: failures %v", tc.what, failures)
		}
		if two.told = slices.DeleteFunc(two.told, func(in string) bool { return in != "emitted large" }); len(
			two.told) > 0 {
			t.Errorf("%s: application two was told %v", tc.what, two.told)
		}
	}
}

// The commands of an item are void together, which one item tells. The application is told of each.
func TestVoidCommands(t *testing.T) {
	const count = 3
	var sent, void []uint32
	one := &whole{script{name: "one"}}
	one.do = func(tx *Tx, in *Input) error {
		switch {
		case in.Kind == Message:
			for range count {
				sent = append(sent, tx.Send(2, simCommand("x")))
			}
		case in.Kind == Discarded:
			void = append(void, uint32(in.Seq))
		}
		return nil
	}
	g := newGroups(t, Limits{}, one)
	g.of[1].up(1)
	g.of[1].event(1, 1, 2, packetIn("to a switch that was never up"))
	g.of[1].event(1, 1, 3, packetIn("another item"))
	g.take(2, g.sent(1))
	g.of[2].commit()
	if n := g.waiting(2); n != 2 {
		t.Errorf("%d items tell that the commands of 2 are void", n)
	}
	g.settle()
	if len(sent) != 2*count || !slices.Equal(void, sent) {
		t.Errorf("commands %x were sent, %x are void", sent, void)
	}
}

// That commands are void is told beyond the bound at which events wait. At the hard bound the commands are not
// accepted, and come again.
func TestVoidCommandsAtTheHardBound(t *testing.T) {
	one := sendsTo2()
	g := newGroups(t, Limits{OutboxItems: 1}, one)
	p := g.of[2]
	p.up(2)
	g.of[1].up(1)
	g.settle()
	p.event(2, 1, 2, switchDown()) // an item
	g.sent(2)
	one.told = nil
	g.of[1].event(1, 1, 2, packetIn("send"))
	g.take(2, g.sent(1)) // a second one: the command is void
	p.commit()
	if g.waiting(2) != 2 || p.leader.state.links.in[Link{Actor{App: "one"}, theSwitch(2)}].watermark != 1 {
		t.Fatalf("%d items wait", g.waiting(2))
	}
	p.must(g.of[1].leader.Acknowledged(Link{Actor{App: "one"}, theSwitch(2)}, 1, false))
	g.of[1].commit()
	g.of[1].event(1, 1, 3, packetIn("send"))
	before := len(p.entries)
	g.take(2, g.sent(1))
	p.commit()
	if g.waiting(2) != 2 || len(p.entries) != before {
		t.Errorf("at the hard bound %d items wait, %d entries were made", g.waiting(2), len(p.entries)-before)
	}
	p.leader.Resend(1)
	g.settle()
	g.of[1].leader.Resend(2)
	g.settle()
	const void, down = "void command 16777217 of switch 0000000000000002", "switch down of switch 0000000000000002"
	wantTold(t, &one.script, "message of switch "+sw1, "message of switch "+sw1, down, void, strings.Replace(void,
		"17 of", "18 of", 1))
}

// The epoch for which an actor sends commands to a switch of another group depends on what it has received of that
// switch.
func TestEpochOfCommands(t *testing.T) {
	const down, anyone = ^uint64(0), 0
	up := func(e uint64) Input { return Input{Kind: SwitchUp, Epoch: e, Message: switchUp()} }
	end := func(e uint64) Input { return Input{Kind: SwitchDown, Epoch: e} }
	msg := func(e uint64) Input { return Input{Kind: Message, Epoch: e, Message: packetIn("x")} }
	void := Input{Kind: Discarded, Epoch: 1, Seq: 1}
	for _, tc := range []struct {
		name     string
		received []Input
		want     uint64
	}{
		{"nothing", nil, anyone},
		{"up", []Input{up(5)}, 5},
		{"up and down", []Input{up(5), end(5)}, down},
		{"up and down, as the next epoch begins", []Input{up(5), end(0)}, down},
		{"up again", []Input{up(5), end(0), up(6)}, 6},
		{"up, and void", []Input{up(5), void}, 5},
		{"a message", []Input{msg(5)}, 5},
		{"messages of two epochs", []Input{up(5), msg(6)}, 6},
		{"a message after the end", []Input{end(5), msg(5)}, 5},
		{"a message after the end of an epoch that was never heard of", []Input{end(0), msg(5)}, 5},
		{"a message, and void", []Input{msg(5), void}, anyone},
		{"a message, void, and the next", []Input{msg(5), void, msg(6)}, 6},
		{"up, a message of the next epoch, and void", []Input{up(5), msg(6), void}, anyone},
		{"the end of what was never up", []Input{end(0)}, anyone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			one := &whole{script{name: "one"}}
			one.do = func(tx *Tx, in *Input) error {
				if in.Kind == Request {
					tx.Send(2, simCommand("x"))
				}
				return nil
			}
			g := newGroups(t, Limits{}, one)
			p, from := g.of[1], Link{theSwitch(2), Actor{App: "one"}}
			for i, in := range tc.received {
				in.Switch, in.exact = 2, true
				p.must(p.leader.Receive(2, from, uint64(i+1), appendInputItem(nil, &in)))
			}
			p.leader.Request("one", nil)
			p.commit()
			got := down
			if o := p.leader.state.links.out[Link{from.To, from.From}]; o != nil {
				_, it, _, err := nextItem(o.outbox.Item(1))
				p.must(err)
				got = it.epoch
			}
			if got != tc.want {
				t.Errorf("sends for epoch %d, want %d", got, tc.want)
			}
		})
	}
}

// A timer that is held because it sends to a full outbox does not stop the timers after it.
func TestHeldTimerStopsNoOther(t *testing.T) {
	one := &whole{script{name: "one"}}
	one.do = func(tx *Tx, in *Input) error {
		switch {
		case in.Kind == Message:
			tx.Send(2, simCommand("x"))
			return errors.Join(tx.SetTimer("sends", 10, nil), tx.SetTimer("late", 20, nil))
		case in.Name == "sends":
			tx.Send(2, simCommand("y"))
		}
		return nil
	}
	g := newGroups(t, Limits{OutboxItems: 1}, one)
	p := g.of[1]
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.commit()
	one.told = nil
	for now := p.now; now <= p.now+30; now += 5 {
		p.leader.Tick(now)
	}
	wantTold(t, &one.script, "timer sends", "timer late")
	p.commit()
	p.leader.Tick(p.now + 40)
	wantTold(t, &one.script)
	g.settle()
	one.told = nil
	p.leader.Tick(p.now + 50)
	wantTold(t, &one.script, "timer sends")
	p.commit()
}

// At the soft bound of an outbox an ordinary event is held. The beginning and the end of an epoch are not, nor an event
// that is unordered: they fail at the hard bound only.
func TestFullOutbox(t *testing.T) {
	two := &whole{script{name: "two"}}
	g := newGroups(t, Limits{OutboxItems: 2}, two)
	p := g.of[1]
	p.up(1)
	p.event(1, 1, 2, packetIn("the second item"))
	if err := p.leader.Event(1, 1, 3, packetIn("x")); !errors.Is(err, ErrFull) {
		t.Errorf("an event beyond the soft bound: %v", err)
	}
	p.event(1, 1, 3, switchDown())
	p.event(1, 2, 1, switchUp())
	if f := p.leader.Failures(); len(f) > 0 || g.waiting(1) != 4 {
		t.Errorf("failures %v, %d items wait", f, g.waiting(1))
	}
	p.event(1, 2, 2, switchDown())
	if f := p.leader.Failures(); len(f) != 1 || f[0].App != "two" || g.waiting(1) != 4 {
		t.Errorf("failures %v, %d items wait", f, g.waiting(1))
	}
	p.commit()

	g = newGroups(t, Limits{OutboxItems: 1}, relaxed{two, map[uint8]Level{of13.TypePacketIn: Unordered}})
	p = g.of[1]
	p.up(1)
	p.event(1, 1, 2, packetIn("the second item"))
	if f := p.leader.Failures(); len(f) > 0 || g.waiting(1) != 2 {
		t.Errorf("unordered: failures %v, %d items wait", f, g.waiting(1))
	}
	p.event(1, 1, 3, packetIn("x"))
	if f := p.leader.Failures(); len(f) != 1 || g.waiting(1) != 2 {
		t.Errorf("unordered: failures %v, %d items wait", f, g.waiting(1))
	}
}

// An item is dropped if its receiver does not live in this group, as far as it knows. That is no error, and the item
// comes again.
func TestReceiveBeforeTheDirectoryKnows(t *testing.T) {
	one := sendsTo2()
	g := newGroups(t, Limits{}, one)
	g.of[1].up(1)
	g.of[1].event(1, 1, 2, packetIn("send"))
	frames := g.sent(1)
	g.nobodies[theSwitch(2)] = true
	g.take(2, frames)
	p := g.of[2]
	p.must(p.leader.Receive(1, Link{Actor{App: "one"}, theSwitch(1)}, 1, nil))
	if !p.leader.Quiet() {
		t.Error("an item was received whose receiver does not live here")
	}
	delete(g.nobodies, theSwitch(2))
	g.take(2, frames)
	if g.settle(); g.waiting(1) != 0 {
		t.Error("the item was not received when the directory knew")
	}
}

// hosted is a replayed application that notes its inputs.
type hosted struct {
	Replayed
	told []string
}

func (h *hosted) Name() string             { return "hosted" }
func (h *hosted) Lead()                    {}
func (h *hosted) Present() bool            { return true }
func (h *hosted) Active() bool             { return true }
func (h *hosted) Full() bool               { return false }
func (h *hosted) Input(_ int64, in *Input) { h.told = append(h.told, in.String()) }
func (h *hosted) Position() uint64         { return uint64(len(h.told)) }
func (h *hosted) Commit(uint64) error      { return nil }
func (h *hosted) Revert(to uint64)         { h.told = h.told[:to] }
func (h *hosted) Freeze() iter.Seq[[]byte] { return slices.Values(h.parts()) }
func (h *hosted) parts() (parts [][]byte)  { return append(parts, []byte(strings.Join(h.told, "\n"))) }
func (h *hosted) Restore(_ [][]byte) error { return nil }

// The replayed application has one actor. A leader and its followers pass it what is for that actor, and nothing else.
func TestReplayedApplicationIsOneActor(t *testing.T) {
	g := newGroups(t, Limits{})
	p := g.of[1]
	var apps []*hosted
	for _, c := range []**Core{&p.leader, &p.follower} {
		h := &hosted{}
		apps = append(apps, h)
		*c = mustNew(t, Limits{})
		(*c).Join(1, g.lives)
		p.must((*c).Replay(h))
	}
	p.must(p.leader.Lead(1, p.now))
	for _, at := range []Shard{{}, AtSwitch(1)} {
		in := Input{Kind: Message, Switch: 2, Epoch: 1, Seq: 2, Message: packetIn("x"), exact: true}
		p.must(p.leader.Receive(2, Link{theSwitch(2), Actor{"hosted", at}}, 1, appendInputItem(nil, &in)))
	}
	p.commit()
	want := []string{"message of switch 0000000000000002"}
	if !slices.Equal(apps[0].told, want) || !slices.Equal(apps[1].told, want) {
		t.Errorf("the leader has told it %q, the follower %q", apps[0].told, apps[1].told)
	}
}

// An actor gets an input although a handler has sent it a message in the same call.
func TestInputAfterMessageToSameActor(t *testing.T) {
	s := newSwitchPairs(t)
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if in.Kind == SwitchUp && tx.Enter(AtSwitch(1)) {
				return tx.SetTimer("t", 1, nil)
			}
			if in.Kind == Timer && tx.Enter(AtSwitch(1)) {
				if err := tx.EmitTo(Actor{"a", AtSwitch(2)}, "m", nil); err != nil {
					return err
				}
				tx.Leave()
				tx.Enter(AtSwitch(2)) // of another handler
			}
			return nil
		}
	}
	s.groups[2].up(2)
	s.groups[1].up(1)
	s.run()
	s.app[2].told = nil
	s.groups[1].leader.Tick(5000)
	s.run()
	wantTold(t, s.app[2], "emitted m", "timer t of switch "+sw1)
}

// Commands for a switch wait while the leader's directory is behind and does not have it, if the group has sent
// something there before. Else they are discarded, as those for a switch that does not exist.
func TestSwitchThatDirectoryLacks(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := newPairs(t)
		s.handlers(func(tx *Tx, in *Input) {
			if in.Kind == Message {
				tx.Send(2, simCommand(fmt.Sprint(in.Seq)))
			}
		})
		s.app[2].do = nil // group 1 hears nothing from switch 2
		s.groups[1].up(1)
		s.groups[2].up(2)
		s.run()
		var want []string
		next := uint64(2)
		if known {
			s.groups[1].event(1, 1, next, packetIn("p"))
			s.run()
			next, want = 3, []string{"2", "3"}
		}
		lacks := true
		s.groups[1].leader.directory = func(a Actor) (Assignment, bool) {
			if lacks && a.Switch == 2 {
				return Assignment{}, false
			}
			return s.directory(a)
		}
		s.groups[1].leader.RelocatedAll()
		s.groups[1].event(1, 1, next, packetIn("p"))
		s.run()
		lacks = false
		s.groups[1].leader.RelocatedAll()
		s.run()
		if got := s.queued(2); !slices.Equal(got, want) {
			t.Errorf("sent before: %t: the switch gets %q, want %q", known, got, want)
		}
	}
}
