package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// newReplayedPair returns a pair with replayed applications, which have begun, and an application of the ledger,
// tag 1, that floods.
func newReplayedPair(t *testing.T, limits ledger.Limits) *pair {
	t.Helper()
	p := newPair(t, limits, "v1", flooder(5))
	p.leader.log.Begin(7)
	p.commit()
	return p
}

// describeInput describes an input without its number.
func describeInput(in *wire.Input) string {
	s := fmt.Sprintf("%d %s %d", in.Time, [...]string{"?", "up", "down", "message", "timer", "request"}[in.Kind],
		in.Switch)
	switch in.Kind {
	case wire.Up:
		s += fmt.Sprintf(" %s %s", in.Features, in.Ports)
	case wire.Message:
		s += fmt.Sprintf(" %d %x %s", in.Message[1], openflow.XID(in.Message), in.Message[openflow.HeaderLen:])
	}
	return s
}

// fedSince describes the committed inputs from a number on.
func fedSince(t *testing.T, r replica, number uint64) (list []string) {
	t.Helper()
	for {
		data, n, err := r.log.Inputs(number, 3, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return list
		}
		for ; n > 0; n-- {
			in, rest, err := wire.ParseInput(data)
			if err != nil || in.Number != number {
				t.Fatalf("input %d where %d belongs, %v", in.Number, number, err)
			}
			list, data, number = append(list, describeInput(&in)), rest, number+1
		}
	}
}

// wantFed commits, and checks the inputs for the hosts of both replicas from a number on.
func (p *pair) wantFed(number uint64, want ...string) {
	p.t.Helper()
	p.commit()
	for i, c := range []replica{p.leader, p.follower} {
		if got := fedSince(p.t, c, number); !slices.Equal(got, want) {
			p.t.Errorf("replica %d feeds\n %q, want\n %q", i, got, want)
		}
	}
}

// result logs a result, and commits.
func (p *pair) result(r wire.Result) []ledger.Release {
	p.t.Helper()
	p.must(p.leader.log.Result(&r))
	return p.commit()
}

// wait advances the leader's clock.
func (p *pair) wait(now int64) {
	p.t.Helper()
	p.now = now
	p.leader.Tick(now)
	p.commit()
}

func command(id openflow.DatapathID, xid uint32, body string) wire.Command {
	return wire.Command{Switch: id, Message: msg(of13.TypePacketOut, xid, body)}
}

// Which input a host gets for each kind of event.
func TestReplayedInputs(t *testing.T) {
	const mine, others, nobodys = message.Replayed, message.Tag(1), message.Tag(3)
	for _, tc := range []struct {
		name string
		do   func(p *pair) // at time 2000, while switch 1 is up; its command 1 has the application's xid 0xabc
		want []string
	}{
		{"up", func(p *pair) { p.up(2) }, []string{"2000 up 2 f "}},
		{"new epoch", func(p *pair) { p.event(1, 2, 1, switchUp()) }, []string{"2000 up 1 f "}},
		{"down", func(p *pair) { p.event(1, 1, 2, switchDown()) }, []string{"2000 down 1"}},
		{"packet", func(p *pair) { p.event(1, 1, 2, packetIn("x")) }, []string{"2000 message 1 10 0 x"}},
		{"answer", func(p *pair) { p.event(1, 1, 2, answer(mine, 1)) },
			[]string{"2000 message 1 21 abc x"}},
		{"answer that continues", func(p *pair) {
			p.event(1, 1, 2,
				answer(mine, message.Continues|1))
		}, []string{"2000 message 1 21 abc x"}},
		{"error that answers", func(p *pair) { p.event(1, 1, 2, msg(of13.TypeError, mine.XID()|1, "x")) },
			[]string{"2000 message 1 1 abc x"}},
		{"answer to what it did not ask", func(p *pair) {
			p.event(1, 1, 2,
				answer(mine, 9))
		}, []string{"2000 message 1 21 7f000009 x"}},
		{"answer to another", func(p *pair) { p.event(1, 1, 2, answer(others, 1)) }, nil},
		{"answer to an application that is gone", func(p *pair) { p.event(1, 1, 2, answer(nobodys, 1)) }, nil},
		{"answer to nobody", func(p *pair) { p.event(1, 1, 2, answer(0, 1)) }, []string{"2000 message 1 21 1 x"}},
		{"error that nobody asked for", func(p *pair) { p.event(1, 1, 2, msg(of13.TypeError, 0, "x")) },
			[]string{"2000 message 1 1 0 x"}},
		{"packet with an xid of another", func(p *pair) {
			p.event(1, 1, 2,
				msg(of13.TypePacketIn, others.XID()|1, "x"))
		},
			[]string{"2000 message 1 10 1000001 x"}},
		{"unreachable and back", func(p *pair) {
			p.leader.Unreachable(1)
			p.leader.Unreachable(1)
			p.leader.Reachable(1, 1)
		}, []string{"2000 down 1", "2000 up 1 f "}},
		{"unreachable, and it speaks", func(p *pair) { p.leader.Unreachable(1); p.event(1, 1, 2, packetIn("x")) },
			[]string{"2000 down 1", "2000 up 1 f ", "2000 message 1 10 0 x"}},
		{"closed", func(p *pair) { p.event(1, 1, 2, packetIn("flood")) },
			[]string{"2000 message 1 10 0 flood", "2000 down 1"}},
		{"request", func(p *pair) { p.leader.log.Request((&wire.HTTPRequest{Method: "GET"}).Append(nil)) },
			[]string{"2000 request 0"}},
		{"mark", func(p *pair) {
			p.event(1, 1, 2, experimenter.SyncMarker{Generation: 1, Number: 7}.Append(nil,
				openflow.Version13))
		}, nil},
		{"duplicate", func(p *pair) { p.event(1, 1, 1, switchUp()) }, nil},
		{"begin", func(p *pair) { p.event(2, 1, 1, switchUp()); p.leader.Unreachable(2); p.leader.log.Begin(8) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newReplayedPair(t, ledger.Limits{QueueCommands: 4})
			p.up(1)
			p.commit()
			// discarded, because it was sent before the switch was up
			p.result(wire.Result{Number: 1, Wake: wire.NoWake, Commands: []wire.Command{command(1, 0xabc, "c")}})
			p.result(wire.Result{Number: 2, Wake: wire.NoWake, Commands: []wire.Command{command(1, 0xabc, "c")}})
			p.wait(2000)
			tc.do(p)
			if tc.name == "begin" {
				p.wantFed(1, "2000 timer 0", "2000 up 1 f ")
				return
			}
			p.wantFed(3, tc.want...)
		})
	}
}

// Begin discards the earlier state at all replicas. Answers to earlier commands have no application's xid any more.
func TestReplayedBegin(t *testing.T) {
	p := newPair(t, ledger.Limits{}, "v1", &script{name: "native"})
	if !p.leader.log.MustBegin() || !p.follower.log.MustBegin() || p.leader.log.Request(nil) != 0 {
		t.Error("it is hosted before it has begun")
	}
	p.up(1)
	p.up(2)
	p.leader.Unreachable(2)
	p.follower.log.Begin(1) // has no effect
	p.commit()
	if slices.Contains(ops(t, snapshot(t, p.leader)), ledger.OpPart) {
		t.Error("a snapshot has what has not begun")
	}
	p.leader.log.Begin(7)
	if got := p.leader.log.Committed(); got != (Committed{}) {
		t.Errorf("committed %+v", got)
	}
	p.wantFed(1, "1000 timer 0", "1000 up 1 f ")
	h := p.leader.log.Hosting()
	if h.Generation != 1 || h.Identity != "v1" || h.Seed != 7 || h.Began != 1000 || h.Inputs != 2 || h.Results != 0 ||
		h != p.follower.log.Hosting() || p.follower.log.MustBegin() {
		t.Errorf("hosting %+v, at the follower %+v", h, p.follower.log.Hosting())
	}
	p.result(wire.Result{Number: 1, Wake: 5000})
	p.result(wire.Result{Number: 2, Wake: wire.NoWake, Commands: []wire.Command{command(1, 0xabc, "c")}})

	p.leader.log.Begin(8)
	err := p.leader.log.Result(&wire.Result{Number: 1})
	if err == nil || !strings.Contains(err.Error(), "generation 1, and generation 2 has begun") {
		t.Errorf("a result of the old generation: %v", err)
	}
	p.event(1, 1, 2, answer(message.Replayed, 1))
	// without an xid that the new applications may use as well
	p.wantFed(1, "1000 timer 0", "1000 up 1 f ", "1000 message 1 21 7f000001 x")
	if want := (Committed{Generation: 2, Input: 3}); p.leader.log.Committed() != want ||
		p.follower.log.Committed() != want {
		t.Errorf("committed %+v and %+v", p.leader.log.Committed(), p.follower.log.Committed())
	}
	if list := timers(t, p.leader); len(list) > 0 {
		t.Errorf("timers of the old generation are set: %q", list)
	}
}

// A leader does not have the applications that the log has.
func TestMustBegin(t *testing.T) {
	native := &script{name: "native"}
	for name, tc := range map[string]struct {
		identity string
		apps     []ledger.Application
		want     bool
	}{
		"the same":          {"v1", []ledger.Application{native}, false},
		"another version":   {"v2", []ledger.Application{native}, true},
		"another beside it": {"v1", []ledger.Application{native, &script{name: "b"}}, false},
		"none":              {"", []ledger.Application{native}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newReplayedPair(t, ledger.Limits{})
			p.result(wire.Result{Number: 1, Wake: 5000})
			c := newReplica(t, ledger.Limits{}, tc.identity, tc.apps...)
			p.must(c.Restore(snapshot(t, p.leader)))
			if got := c.log.MustBegin(); got != tc.want {
				t.Errorf("must begin %v", got)
			}
			p.must(p.leader.Follow())
			p.lead(c)
			if tc.want {
				c.log.Begin(9)
			}
			p.commit()
			if c.log.MustBegin() {
				t.Error("it has begun, and is not hosted")
			}
			if set := timers(t, c); (len(set) > 0) != (tc.identity == "v1") {
				t.Errorf("timers of %q are set", set)
			}
			msg := switchUp()
			for seq := range uint64(window + 2) {
				if name == "none" && !c.Room() {
					t.Fatal("no room, for results that do not come")
				}
				p.event(1, 2, seq+1, msg)
				msg = packetIn("x")
				if !c.Room() {
					p.commit()
				}
			}
		})
	}
}

// ops returns the operations of an entry or snapshot.
func ops(t *testing.T, data []byte) (list []ledger.Op) {
	t.Helper()
	if _, err := ledger.Walk(data, func(r *ledger.Record) error { list = append(list, r.Op); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// timers returns the timers that are set.
func timers(t *testing.T, r replica) (list []string) {
	t.Helper()
	_, err := ledger.Walk(snapshot(t, r), func(r *ledger.Record) error {
		if r.Op == ledger.OpSetTimer {
			list = append(list, fmt.Sprint(r.Actor.App, " ", r.Name, " ", r.Time))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// If the leader's host is behind, the leader accepts no inputs, but results.
func TestReplayedWindow(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	seq := uint64(1)
	for p.leader.log.hosting.waiting() < window {
		if !p.leader.Room() {
			p.commit()
		}
		seq++
		p.event(1, 1, seq, packetIn("x"))
	}
	p.commit()
	if p.leader.Room() || !p.leader.log.ResultRoom() {
		t.Errorf("room %v, for results %v, while %d inputs wait", p.leader.Room(), p.leader.log.ResultRoom(),
			p.leader.log.hosting.waiting())
	}
	p.result(wire.Result{Number: 1, Wake: wire.NoWake})
	if !p.leader.Room() || p.follower.Room() || p.follower.log.ResultRoom() {
		t.Error("no room after a result, or some at a follower")
	}
	n := 0
	for ; p.leader.log.ResultRoom(); n++ {
		p.must(p.leader.log.Result(&wire.Result{Number: p.leader.log.Hosting().Results + 1, Wake: wire.NoWake}))
	}
	if n != 1024 {
		t.Errorf("%d results fill an entry", n)
	}
	p.commit()
}

func TestReplayedResult(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	refused := func(what string, number uint64, want string) {
		t.Helper()
		if err := p.leader.log.Result(&wire.Result{Number: number}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("a result %s: %v", what, err)
		}
	}
	refused("of no input", 0, "1 is next and 1 are committed")
	refused("that is too early", 2, "1 is next and 1 are committed")
	p.must(p.leader.log.Result(&wire.Result{Number: 1, Digest: 0xd1, Wake: wire.NoWake}))
	refused("that comes again", 1, "2 is next and 1 are committed")
	refused("of what is not committed", 2, "2 is next and 1 are committed")
	if d, ok := p.leader.log.Digest(1); ok {
		t.Errorf("digest %x of what is not committed", d)
	}
	p.commit()
	for i, c := range []replica{p.leader, p.follower} {
		d, ok := c.log.Digest(1)
		_, before := c.log.Digest(0)
		_, after := c.log.Digest(2)
		if want := (Committed{Generation: 1, Input: 2, Result: 1}); !ok || d != 0xd1 || before || after ||
			c.log.Committed() != want {
			t.Errorf("replica %d: digest %x %v, committed %+v", i, d, ok, c.log.Committed())
		}
	}
	if err := p.follower.log.Result(&wire.Result{Number: 1}); !errors.Is(err, errNotLeading) {
		t.Errorf("a result at a follower: %v", err)
	}
}

// Commands are sent in order and numbered, to the epoch that the application knew. Reserved messages are not sent.
func TestReplayedCommands(t *testing.T) {
	role := wire.Command{Switch: 1, Message: msg(24, 5, "")}
	half := wire.Command{Switch: 1, Message: msg(13, 5, "xy")[:9]}
	old := wire.Command{Switch: 1, Message: append([]byte{1}, msg(13, 5, "")[1:]...)}
	one, two := command(1, 5, "one"), command(1, 6, "two")
	for _, tc := range []struct {
		name     string
		before   func(p *pair) // runs after input 2 was executed, before its result is logged
		commands []wire.Command
		want     []string // commands to switch 1
		failures []string
	}{
		{"two", nil, []wire.Command{one, two}, []string{"one", "two"}, nil},
		{"switch that is down", func(p *pair) { p.event(1, 1, 2, switchDown()) }, []wire.Command{one}, nil, nil},
		{"next incarnation", func(p *pair) { p.event(1, 2, 1, switchUp()) }, []wire.Command{one}, nil, nil},
		{"unreachable", func(p *pair) { p.leader.Unreachable(1) }, []wire.Command{one}, []string{"one"}, nil},
		{"unreachable and back", func(p *pair) { p.leader.Unreachable(1); p.leader.Reachable(1, 1) },
			[]wire.Command{one}, []string{"one"}, nil},
		{"unknown switch", nil, []wire.Command{command(9, 5, "x")}, nil, nil},
		{"reserved", nil, []wire.Command{one, role, two}, []string{"one", "two"},
			[]string{"message of type 24, version 4"}},
		{"asynchronous messages", nil, []wire.Command{one, {Switch: 1, Message: msg(28, 5, "")}, two},
			[]string{"one", "two"}, nil},
		{"other version", nil, []wire.Command{old}, nil, []string{"message of type 13, version 1"}},
		{"half a message", nil, []wire.Command{half, one}, []string{"one"}, []string{"9 bytes are not one message"}},
		{"nothing", nil, []wire.Command{{Switch: 1}}, nil, []string{"0 bytes are not one message"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newReplayedPair(t, ledger.Limits{})
			p.up(1)
			p.commit()
			p.result(wire.Result{Number: 1, Wake: wire.NoWake})
			if tc.before != nil {
				tc.before(p)
				p.commit()
			}
			var got []string
			for _, r := range p.result(wire.Result{Number: 2, Wake: wire.NoWake, Commands: tc.commands}) {
				if r.Switch == 1 {
					got = append(got, bodies(t, r.Commands)...)
					for rest := r.Commands; len(rest) > 0; rest = rest[binary.BigEndian.Uint16(rest[2:]):] {
						if ledger.Continues(openflow.XID(rest)) {
							t.Errorf("command %x goes and fails with the one before", rest[:openflow.HeaderLen])
						}
					}
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("sent %q, want %q", got, tc.want)
			}
			wantFailures(t, p, tc.failures)
		})
	}
}

// wantFailures checks the failures of the last entry, in the log and as returned to the caller.
func wantFailures(t *testing.T, p *pair, want []string) []ledger.Failure {
	t.Helper()
	var logged []string
	if _, err := ledger.Walk(p.entries[len(p.entries)-1], func(r *ledger.Record) error {
		if r.Op == ledger.OpFailure {
			logged = append(logged, r.App+": "+r.Name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	told := p.leader.Failures()
	if len(logged) != len(want) || len(told) != len(want) {
		t.Fatalf("failures logged %q, told %+v, want %q", logged, told, want)
	}
	for i, w := range want {
		f := told[i]
		if !strings.Contains(logged[i], w) || f.App+": "+f.Err.Error() != logged[i] ||
			f.Input.Kind != ledger.ReplayedInput ||
			f.Input.Seq == 0 {
			t.Errorf("failure %d logged as %q, told as %+v; want %q", i, logged[i], f, w)
		}
	}
	return told
}

// The log contains one line of an exception of an application. The caller gets all of it.
func TestReplayedFailures(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	trace := "Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: 7\n"
	p.result(wire.Result{Number: 1, Wake: wire.NoWake,
		Failures: []wire.Failure{{App: "Switch13", Traceback: trace}, {Traceback: "no parser\n"}}})
	f := wantFailures(t, p, []string{"Switch13: ValueError: 7", "ryu: no parser"})
	if string(f[0].Stack) != trace || f[0].Input.String() != "replayed input 1" {
		t.Errorf("failures %+v", f)
	}
	p.up(1)
	p.commit()
	many := make([]wire.Failure, 1000)
	for i := range many {
		many[i] = wire.Failure{App: strings.Repeat("a", 5000), Traceback: strings.Repeat("b", 5000)}
	}
	p.result(wire.Result{Number: 2, Wake: wire.NoWake, Failures: many})
	if n, size := len(p.leader.Failures()), len(p.entries[len(p.entries)-1]); n != maxFailures ||
		size > maxFailures*2100 {
		t.Errorf("%d failures in %d bytes", n, size)
	}
}

// A result that is too large for an entry sends nothing. The next result is not affected.
func TestReplayedResultTooLarge(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{EntryBytes: 10_000, QueueCommands: 300})
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.event(1, 1, 3, packetIn("x"))
	p.commit()
	p.result(wire.Result{Number: 1, Wake: wire.NoWake})
	large := wire.Result{Number: 2, Wake: wire.NoWake}
	for i := range 400 { // also exceeds the bound of the queue: that the switch is stalled is undone
		// two lengths, because delta encoding would make equal messages short
		large.Commands = append(large.Commands, command(1, uint32(i), "much too much of everything"[i%2:]))
	}
	p.result(large)
	wantFailures(t, p, []string{"no command of input 2 is sent: the entry of this transaction has"})
	if st := p.leader.Switches(); st[0].Commands != 0 || !st[0].Live || len(p.leader.log.sw(1).asked) != 0 {
		t.Errorf("%+v", st[0])
	}
	if n := len(p.entries[len(p.entries)-1]); n > 10_000 {
		t.Errorf("the entry has %d bytes", n)
	}
	r := p.result(wire.Result{Number: 3, Wake: wire.NoWake, Commands: []wire.Command{command(1, 5, "one")}})
	if len(r) != 1 || r[0].First != 1 || r[0].Count != 1 {
		t.Errorf("released %+v", r)
	}
}

func TestReplayedRequest(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{EntryBytes: 10_000})
	get := (&wire.HTTPRequest{Method: "GET", Path: "/", Headers: []wire.Header{{Name: "A", Value: "b"}},
		Body: []byte("x")}).Append(nil)
	large := (&wire.HTTPRequest{Method: "PUT", Body: make([]byte, 10_000)}).Append(nil)
	for name, tc := range map[string]struct {
		c       replica
		request []byte
	}{
		"garbage": {p.leader, []byte("x")}, "more than one": {p.leader, slices.Concat(get, get)},
		"none":      {p.leader, nil},
		"too large": {p.leader, large}, "at a follower": {p.follower, get},
	} {
		if n := tc.c.log.Request(tc.request); n != 0 {
			t.Errorf("a request, %s, is input %d", name, n)
		}
	}
	if n := p.leader.log.Request(get); n != 2 {
		t.Errorf("a request is input %d", n)
	}
	p.wantFed(2, "1000 request 0")
	data, _, err := p.follower.log.Inputs(2, 1, 1)
	in, _, _ := wire.ParseInput(data)
	if err != nil || !bytes.Equal(in.Request, get) {
		t.Errorf("request %q, %v", in.Request, err)
	}
}

func TestReplayedFiles(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{EntryBytes: 10_000})
	files := (&wire.FileSet{First: true, Files: []wire.File{{Path: "/etc/app.yaml", Content: []byte("a: 1")},
		{Path: "/etc/other.yaml", Missing: true}}}).Append(nil)
	large := (&wire.FileSet{Files: []wire.File{{Path: "/etc/app.yaml", Content: make([]byte, 10_000)}}}).Append(nil)
	for name, wrong := range map[string][]byte{"garbage": []byte("x"), "none": nil, "too large": large} {
		if n := p.leader.log.Files(wrong); n != 0 {
			t.Errorf("files, %s, are input %d", name, n)
		}
	}
	if n := p.leader.log.Files(files); n != 2 {
		t.Errorf("files are input %d", n)
	}
	p.commit()
	data, _, err := p.follower.log.Inputs(2, 1, 1)
	in, _, _ := wire.ParseInput(data)
	if err != nil || in.Kind != wire.Files || !bytes.Equal(in.Files, files) {
		t.Errorf("input %+v, %v", in, err)
	}
}

// Hosts execute what is logged, so events are logged with their messages while applications are replayed.
func TestEventsAreLoggedWhole(t *testing.T) {
	p := newPair(t, ledger.Limits{}, "v1", &script{name: "native"})
	p.up(1)
	for seq, on := range []bool{false, true} {
		if on {
			p.leader.log.Begin(7)
		}
		p.must(p.leader.EventByDigest(1, 1, uint64(2+seq), packetIn("x")))
		p.commit()
		list := ops(t, p.entries[len(p.entries)-1])
		if slices.Contains(list, ledger.OpSeen) == on || slices.Contains(list, ledger.OpSeenNext) {
			t.Errorf("begun: %v, the log has %v", on, list)
		}
	}
	without := newReplica(t, ledger.Limits{}, "", &script{name: "native"}) // its lead ends the replayed applications
	for _, e := range p.entries {
		p.must(without.Commit(e))
	}
	p.must(without.Lead(2, p.now))
	p.must(without.EventByDigest(1, 1, 4, packetIn("x")))
	ended, _ := without.Cut()
	if got := ops(t, ended); !slices.Equal(got, []ledger.Op{ledger.OpTransaction, ledger.OpSeen}) {
		t.Errorf("the entry has %v", got)
	}
	p.must(p.follower.Commit(ended))

	again := newReplica(t, ledger.Limits{}, "v1")
	for _, e := range p.entries {
		p.must(again.Commit(e))
	}
	begin := bytes.IndexByte(ended, byte(ledger.OpTransaction))
	length := len((&Record{Kind: Begin}).append(nil))
	seen := append(bytes.Clone(ended[:begin]), ended[begin+2+length:]...) // the entry without that end
	if err := again.Commit(seen); err == nil || !strings.Contains(err.Error(), "without its bytes") {
		t.Errorf("hosts are not fed an event that is in the log, and nobody says so: %v", err)
	}
}

// If an application of the ledger handles messages at a weaker level, hosts still get them.
func TestLevelsDoNotKeepEventsFromHosts(t *testing.T) {
	p := newPair(t, ledger.Limits{}, "v1", weak{&script{name: "native"}})
	p.up(1)
	p.event(1, 1, 2, packetIn("skipped"))
	p.leader.log.Begin(7)
	p.event(1, 1, 3, packetIn("x"))
	p.wantFed(1, "1000 timer 0", "1000 up 1 f ", "1000 message 1 10 0 x")
}

type weak struct{ *script }

func (weak) Level(uint8) (ledger.Level, bool) { return ledger.Unordered, true }
