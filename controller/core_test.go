package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// stand is a Core alone. The test plays its consensus, its clock and its switches.
type stand struct {
	t    rapid.TB
	core *Core
	app  *echoer
	now  time.Time

	term     uint64
	index    uint64
	proposed [][]byte // not committed yet
	entries  [][]byte // committed
	encode   ledger.Frozen
	compacts []uint64
	kept     []byte // state of the last snapshot
	audited  []uint64
	frames   [][]byte // for other groups

	proposeErr, compactErr, auditErr error

	send    func(member uint64, payload []byte) bool // nil: nothing can be sent
	present consensus.Present                        // nobody: those of the configuration

	trace []string // what sessions were told, and which of their events were taken, in order
}

func newStand(t rapid.TB, cfg CoreConfig) *stand {
	s := &stand{t: t, app: &echoer{}, now: time.Unix(1000, 0)}
	cfg.Name, cfg.Logger, cfg.SwitchTimeout = "c1", quiet, timeout
	cfg.Applications = []ledger.Application{s.app}
	var err error
	if s.core, err = NewCore(cfg, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// hundred sets a bound of 100 commands per switch, so that percentages of the bound are numbers of commands.
var hundred = CoreConfig{Limits: ledger.Limits{QueueCommands: 100}}

func (s *stand) Propose(term uint64, entry []byte, _ []uint64) error {
	if s.proposeErr != nil {
		return s.proposeErr
	}
	if term != s.term {
		s.t.Errorf("proposal in term %d, it leads in %d", term, s.term)
	}
	s.proposed = append(s.proposed, entry)
	return nil
}

func (s *stand) Encode(encode ledger.Frozen) {
	if s.encode != nil {
		s.t.Error("two snapshots are encoded at a time")
	}
	s.encode = encode
}

func (s *stand) Compact(index uint64, state []byte) error {
	if s.compactErr != nil {
		return s.compactErr
	}
	s.compacts, s.kept = append(s.compacts, index), state
	return nil
}

func (s *stand) SendFrame(_ uint64, frame []byte) { s.frames = append(s.frames, frame) }
func (s *stand) SendTraced(uint64, []byte)        {}
func (s *stand) AskDirectory([]byte)              {}

func (s *stand) Answer(to uint64, answers []byte) {
	for list := answers; len(list) > 0; {
		var a Outcome
		a, list = nextOutcome(list)
		s.note("answer %d to %d: %d %s", a.id, to, a.kind, a.message)
	}
}

func (s *stand) SendPayload(member uint64, payload []byte) bool {
	return s.send != nil && s.send(member, payload)
}

func (s *stand) Reassign(session Session, to ledger.Assignment) {
	s.note("switch %s reassigned to group %d, version %d", session.Switch(), to.Group, to.Version)
}

func (s *stand) Present() consensus.Present { return s.present }

func (s *stand) DeferElection(on bool) { s.note("defer election %t", on) }

func (s *stand) Audit(index uint64, _ []byte) error {
	s.audited = append(s.audited, index)
	return s.auditErr
}

func (s *stand) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) turn() { s.t.Helper(); s.ok(s.core.Turn(s.now)) }

// pass advances the clock by d, with one tick at the end.
func (s *stand) pass(d time.Duration) {
	s.t.Helper()
	s.now = s.now.Add(d)
	s.ok(s.core.Tick(s.now))
	s.turn()
}

func (s *stand) lead(term uint64) {
	s.t.Helper()
	s.term, s.proposed = term, nil
	s.ok(s.core.Update(s.now, consensus.Update{Role: &consensus.Role{Term: term, Leader: 1, Leading: true}}))
	s.turn()
}

// follow ends the leadership. Nothing that was proposed and is not committed survives.
func (s *stand) follow(term uint64) {
	s.t.Helper()
	s.term, s.proposed = term, nil
	s.ok(s.core.Update(s.now, consensus.Update{Role: &consensus.Role{Term: term, Leader: 2}}))
	s.turn()
}

// deliver delivers committed entries.
func (s *stand) deliver(entries ...[]byte) error {
	var u consensus.Update
	for _, e := range entries {
		s.index++
		u.Entries = append(u.Entries, consensus.Entry{Index: s.index, Term: s.term, Data: e})
	}
	s.entries = append(s.entries, entries...)
	return s.core.Update(s.now, u)
}

// commit commits all that is proposed.
func (s *stand) commit() {
	s.t.Helper()
	list := s.proposed
	s.proposed = nil
	s.ok(s.deliver(list...))
	s.turn()
}

// settle commits until nothing is in flight, completions included.
func (s *stand) settle() {
	s.t.Helper()
	for range 100 {
		s.ok(s.core.Tick(s.now))
		s.turn()
		if len(s.proposed) == 0 {
			return
		}
		s.commit()
	}
	s.t.Fatal("it proposes without end")
}

// said compares what sessions were told since the last call with want.
func (s *stand) said(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.trace, want) {
		s.t.Errorf("sessions were told\n\t%s\nwant\n\t%s", strings.Join(s.trace, "\n\t"), strings.Join(want, "\n\t"))
	}
	s.trace = nil
}

func (s *stand) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// fake is a session that records what it is told.
type fake struct {
	s  *stand
	id openflow.DatapathID
	st southbound.State

	masterErr, sendErr error

	resume southbound.Resume // of the last claim
	sent   uint64            // sequence of the last command that it received
	logged int               // calls of Logged
}

// attached attaches the session of a switch's agent.
func (s *stand) attached(id openflow.DatapathID, epoch uint64) *fake {
	f := s.fake(id, southbound.Agent, epoch)
	s.core.Attached(f)
	return f
}

func (s *stand) fake(id openflow.DatapathID, peer southbound.Peer, epoch uint64) *fake {
	return &fake{s: s, id: id, st: southbound.State{Peer: peer, Version: of13.Version, Epoch: epoch,
		InSync: true, Guarantee: "exactly-once"}}
}

// inTerm shows a generation: the term, and the number of the path unless it is the first.
func inTerm(generation uint64) string {
	term := experimenter.Term(generation)
	if path := generation - experimenter.Generation(1, term, 0); path > 0 {
		return fmt.Sprintf("%d, path %d", term, path)
	}
	return fmt.Sprint(term)
}

func (f *fake) Switch() openflow.DatapathID       { return f.id }
func (f *fake) State() southbound.State           { return f.st }
func (f *fake) Standby(uint64)                    {}
func (f *fake) Logged(_, _ uint64, _ []byte) bool { f.logged++; return true }
func (f *fake) Skipped(uint64, uint64, int) bool  { return true }
func (f *fake) Hold()                             { f.s.note("%d: hold", f.id) }
func (f *fake) Resend()                           { f.s.note("%d: resend", f.id) }
func (f *fake) Close(err error)                   { f.s.note("%d: closed, %v", f.id, err) }

func (f *fake) Claim(generation uint64, r southbound.Resume) error {
	f.resume = r
	f.s.note("%d: master in %s", f.id, inTerm(generation))
	return f.masterErr
}

func (f *fake) Acknowledge(epoch, seq uint64) { f.s.note("%d: ack %d/%d", f.id, epoch, seq) }

func (f *fake) Send(b experimenter.Block, _ []byte) error {
	if b.First == 0 {
		f.s.note("%d: %d best-effort commands of %d in %s", f.id, b.Count, b.Epoch, inTerm(b.Generation))
		return nil
	}
	last := b.First + uint64(b.Count) - 1
	f.s.note("%d: commands %d/%d-%d in %s", f.id, b.Epoch, b.First, last, inTerm(b.Generation))
	f.sent = last
	return f.sendErr
}

func (f *fake) Refuse(reason experimenter.Reason, epoch uint64) {
	f.s.note("%d: refused, %s %d", f.id, reason, epoch)
}

// events delivers a block of events, and records whether they are taken.
func (f *fake) events(epoch, first uint64, messages ...[]byte) {
	b := southbound.Batch{Epoch: epoch, First: first, Count: len(messages), Messages: slices.Concat(messages...)}
	finished := false
	f.s.core.Events(f, b, func(err error) {
		if finished {
			f.s.t.Errorf("events of switch %d from %d are finished twice", f.id, first)
		}
		finished = true
		if err == nil {
			f.s.note("%d: taken", f.id)
		} else {
			f.s.note("%d: not taken, %v", f.id, err)
		}
	})
}

// up attaches a switch, logs its SWITCH_UP, and clears the trace.
func (s *stand) up(id openflow.DatapathID, epoch uint64) *fake {
	s.t.Helper()
	f := s.attached(id, epoch)
	f.events(epoch, 1, switchUp)
	s.turn()
	s.commit()
	s.trace = nil
	return f
}

// echoer is an application that answers each packet-in with a command, and records which switches come and go.
type echoer struct {
	seen []string
	each func(tx *ledger.Tx, in *ledger.Input) // runs instead of the answer to a packet-in
}

func (*echoer) Name() string { return "echoer" }

func (e *echoer) Handle(tx *ledger.Tx, in *ledger.Input) error {
	switch in.Kind {
	case ledger.SwitchUp:
		e.seen = append(e.seen, fmt.Sprintf("up %d", in.Switch))
	case ledger.SwitchDown:
		e.seen = append(e.seen, fmt.Sprintf("down %d %s", in.Switch, in.Reason))
	case ledger.Forgotten:
		e.seen = append(e.seen, fmt.Sprintf("forgotten %d", in.Switch))
	case ledger.Request:
		e.seen = append(e.seen, "request "+string(in.Message))
	case ledger.Called:
		e.seen = append(e.seen, "call "+string(in.Message))
		if string(in.Message) == "bad" {
			return errors.New("bad")
		}
		return tx.Reply(append([]byte("echo "), in.Message...))
	case ledger.Message:
		if e.each != nil {
			e.each(tx, in)
			return nil
		}
		tx.Send(in.Switch, &of13.BarrierRequest{})
	}
	return nil
}

// saw compares the switch events that the application received since the last call with want.
func (s *stand) saw(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.app.seen, want) {
		s.t.Errorf("the application saw %q, want %q", s.app.seen, want)
	}
	s.app.seen = nil
}

var (
	switchUp = experimenter.SwitchUp{Features: (&of13.FeaturesReply{DatapathID: 1}).Append(nil, 0)}.Append(nil,
		of13.Version)
	packetIn = (&of13.PacketIn{BufferID: of13.NoBuffer, Data: []byte("packet")}).Append(nil, 0)
)

// packetIns returns n packet-ins.
func packetIns(n int) [][]byte { return slices.Repeat([][]byte{packetIn}, n) }

// An event is taken when it is executed. Its outputs leave when it is committed, acknowledgements first.
// Completions are logged at the next tick.
func TestControlPath(t *testing.T) {
	s := newStand(t, CoreConfig{})
	one := s.attached(1, 5)
	one.events(5, 1, switchUp)
	s.turn()
	s.said("1: taken") // by a follower, which ignores it
	s.lead(3)
	s.said("1: master in 3")
	two := s.attached(2, 7)
	one.events(5, 1, switchUp, packetIn)
	two.events(7, 1, switchUp, packetIn, packetIn)
	s.turn()
	s.said("2: master in 3", "1: taken", "2: taken")
	if len(s.proposed) != 1 {
		t.Fatalf("%d entries are proposed after one turn", len(s.proposed))
	}
	s.pass(5 * time.Millisecond)
	s.said()
	s.commit()
	s.said("1: ack 5/2", "2: ack 7/3", "1: commands 5/1-1 in 3", "2: commands 7/1-2 in 3")
	s.core.CommandsDone(two, 7, 2)
	s.turn()
	if len(s.proposed) != 0 {
		t.Error("completion alone is proposed before the tick")
	}
	s.pass(5 * time.Millisecond)
	s.commit()
	if done := s.core.Ledger().Switches()[1].Done; done != 2 || !s.core.Ledger().Quiet() {
		t.Errorf("%d commands are done, want 2", done)
	}
	s.said()
	s.core.CommandsDone(one, 5, 9)
	if len(s.trace) != 1 || !strings.HasPrefix(s.trace[0], "1: closed, ") {
		t.Errorf("after an acknowledgement of commands that were never sent: %q", s.trace)
	}
	if want := []uint64{1, 2}; !slices.Equal(s.audited, want) {
		t.Errorf("audit of entries %d, want %d", s.audited, want)
	}
}

// A session never waits for a controller that no longer leads. Each new leader claims all switches, in order.
func TestRoleChanges(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 1, InFlight: 1}})
	var list []*fake
	for _, id := range []openflow.DatapathID{9, 4, 6} {
		list = append(list, s.attached(id, 5))
	}
	s.lead(3)
	s.said("4: master in 3", "6: master in 3", "9: master in 3")
	for _, f := range list {
		f.events(5, 1, switchUp)
	}
	s.turn()
	s.said("9: taken") // an entry has room for one event
	s.turn()
	s.said("4: taken") // one entry is proposed, and there is room for the next event
	s.turn()
	s.said()
	s.follow(4)
	s.said("6: taken")
	s.pass(time.Minute)
	s.said()
	if got := s.core.Ledger().Switches(); len(got) != 0 {
		t.Errorf("what was not committed is still there: %+v", got)
	}
	s.lead(5)
	s.said("4: master in 5", "6: master in 5", "9: master in 5")
	s.attached(2, 1) // a switch that is not in the log
	s.said("2: master in 5")
	s.saw("up 9", "up 4")
}

// Stop answers every session that waits.
func TestStop(t *testing.T) {
	s := newStand(t, CoreConfig{Limits: ledger.Limits{BatchInputs: 1}})
	s.lead(3)
	a, b := s.attached(1, 5), s.attached(2, 5)
	s.trace = nil
	a.events(5, 1, switchUp, packetIn)
	b.events(5, 1, switchUp)
	s.turn()
	s.said() // half of the first block is executed
	s.core.Stop()
	s.said("1: not taken, "+errClosing.Error(), "2: not taken, "+errClosing.Error())
}

// Errors of the surroundings: one that only says that this controller no longer leads is ignored; all others end
// the controller.
func TestOutsideFails(t *testing.T) {
	bad := errors.New("bad disk")
	for _, tc := range []struct {
		name    string
		breaks  func(s *stand)
		act     func(s *stand) error
		isError bool
	}{
		{"propose, not leader", func(s *stand) { s.proposeErr = consensus.ErrNotLeader },
			func(s *stand) error { return s.core.Turn(s.now) }, false},
		{"propose", func(s *stand) { s.proposeErr = bad }, func(s *stand) error { return s.core.Turn(s.now) }, true},
		{"propose at a tick", func(s *stand) { s.proposeErr = bad }, func(s *stand) error { return s.core.Tick(s.now) },
			true},
		{"audit", func(s *stand) { s.auditErr = bad },
			func(s *stand) error { s.turn(); return s.deliver(s.proposed...) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStand(t, CoreConfig{})
			s.lead(3)
			s.attached(1, 5).events(5, 1, switchUp)
			if tc.name == "propose at a tick" {
				s.turn()
				s.commit()
				s.core.sessions[1].Session.(*fake).events(5, 2, packetIns(1)...)
				s.turn()
				s.commit()
				s.core.CommandsDone(s.core.sessions[1].Session, 5, 1) // makes the next tick propose an entry
			}
			tc.breaks(s)
			if err := tc.act(s); errors.Is(err, bad) != tc.isError || err != nil && !tc.isError {
				t.Errorf("got error %v", err)
			}
		})
	}
	s := newStand(t, CoreConfig{})
	if err := s.deliver([]byte("no entry")); err == nil || !strings.Contains(err.Error(), "controller c1: entry 1") {
		t.Errorf("an entry that is none: %v", err)
	}
	if err := s.core.Update(s.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: 9,
		State: []byte("none")}}); err == nil {
		t.Error("a snapshot that is none was taken")
	}
}

// A session that fails is closed. The others continue.
func TestSessionFails(t *testing.T) {
	bad := errors.New("full")
	s := newStand(t, CoreConfig{})
	s.lead(3)
	refusing := s.fake(1, southbound.Agent, 5)
	refusing.masterErr = bad
	s.core.Attached(refusing)
	s.said("1: master in 3", "1: closed, full")
	one, two := s.up(1, 5), s.up(2, 5)
	one.sendErr = bad
	one.events(5, 2, packetIn)
	two.events(5, 2, packetIn)
	s.turn()
	s.commit()
	s.said("1: taken", "2: taken", "1: ack 5/2", "2: ack 5/2", "1: commands 5/1-1 in 3", "1: closed, full",
		"2: commands 5/1-1 in 3")
	// The commands are kept for the next session.
	s.core.Detached(s.now, one)
	s.attached(1, 5)
	s.said("1: master in 3", "1: ack 5/2", "1: commands 5/1-1 in 3")
}

func TestCoreStatus(t *testing.T) {
	s := newStand(t, CoreConfig{ID: 1, Names: map[uint64]string{1: "c1", 2: "c2"}})
	s.follow(2)
	if st := s.core.Status(); st.Role != "follower" || st.Leader != "c2" || st.ID != 1 || st.Name != "c1" {
		t.Errorf("%+v", st)
	}
	s.lead(3)
	s.up(8, 5)
	gone := s.up(4, 5)
	s.core.Detached(s.now, gone)
	s.attached(3, 5)
	s.core.Attached(s.fake(2, southbound.Legacy, 0))
	st := s.core.Status()
	var got []string
	for _, sw := range st.Switches {
		got = append(got, sw.Switch[len(sw.Switch)-1:]+" "+sw.State+" "+sw.Role+" "+sw.Mode)
	}
	if want := []string{"4 up none ", "8 up master agent", "2 down master legacy",
		"3 down master agent"}; !slices.Equal(got, want) {
		t.Errorf("switches %q, want %q", got, want)
	}
	if st.Role != "leader" || st.Term != 3 || st.Applied != 2 || !slices.Equal(st.Apps, []string{"echoer"}) {
		t.Errorf("%+v", st)
	}
}
