package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/tally"
)

// shardedScript is a script whose cells belong to shards by their number, if they have one.
type shardedScript struct{ script }

func (*shardedScript) Shard(_ string, cell Key) Shard { return Shard{Key: cell} }

// described writes what a leader has counted, without times.
func described(t *testing.T, c *Core) string {
	t.Helper()
	r, ok := c.Report()
	if !ok {
		t.Fatal("nothing is counted")
	}
	r.Measure(func() {})
	typ := func(n tally.Type) string {
		switch {
		case n < typeOfInput:
			return of13.TypeName(uint8(n))
		case r.Name(n) != "":
			return r.Name(n)
		}
		return (&Input{Kind: KindOfType(n)}).String()
	}
	var lines []string
	for _, a := range r.Actors {
		line := fmt.Sprintf("%v: %d in, %d out, %d failed, %d bytes", a.ID, a.Inputs, a.Outputs, a.Failures, r.Bytes[a.ID])
		for _, p := range a.Peers {
			line += fmt.Sprintf("; %v: %d to, %d from", p.ID, p.Sent, p.Received)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, h := range r.Handlers {
		line := fmt.Sprintf("%s, %s: %d, %d failed, of %d", h.App, typ(h.Type), h.Inputs, h.Failures, h.Sources)
		for _, e := range h.Effects {
			line += fmt.Sprintf("; %s: %d", typ(e.Type), e.Count)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, fmt.Sprintf("local: %d, bytes besides: %d", r.Local, r.OtherBytes)), "\n") + "\n"
}

// TestReport: what handlers do is counted by actor and by type. A handler that fails has only its input counted, and a
// new leader begins at zero.
func TestReport(t *testing.T) {
	table := TableName{App: "b", Name: "t"}
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message || !tx.Enter(AtSwitch(in.Switch)) || !tx.Enter(AtSwitch(in.Switch)) {
			return nil
		}
		if in.Message[8] == 'f' {
			_ = tx.Emit("note", []byte("lost")) // undone with the rest
			return errors.New("fails")
		}
		return tx.Emit("note", in.Message)
	}}
	b := &shardedScript{script{name: "b", do: func(tx *Tx, in *Input) error {
		switch in.Kind {
		case SwitchUp:
			return nil // does not handle it
		case Emitted:
			key := Key{A: uint64(in.Message[8])}
			if !tx.Enter(Shard{Key: key}) {
				return nil
			}
			tx.Put(tx.Table(table.Name), key, Key{}, in.Message)
			for range 3 {
				tx.Send(1, simCommand("x"))
			}
			tx.Send(2, simCommand("y"))
			return tx.SetTimer("later", 1, nil)
		case Timer:
			tx.Enter(tx.Shard())
			tx.Send(1, simCommand("z"))
		}
		return nil
	}}}
	p := newPair(t, Limits{}, a, b)
	p.up(1)
	p.up(2)
	p.event(1, 1, 2, packetIn("1"))
	p.event(1, 1, 3, packetIn("fail"))
	p.event(2, 1, 2, packetIn("1"))
	p.event(2, 1, 2, packetIn("1")) // a duplicate
	p.commit()
	p.now += 1000
	p.leader.Tick(p.now)
	p.commit()
	const want = `application a at switch 0000000000000001: 2 in, 1 out, 1 failed, 0 bytes; switch 0000000000000001: 0 to, ` +
		`2 from; application b at 31: 1 to, 0 from
application a at switch 0000000000000002: 1 in, 1 out, 0 failed, 0 bytes; switch 0000000000000002: 0 to, 1 from; ` +
		`application b at 31: 1 to, 0 from
application b at 31: 3 in, 9 out, 0 failed, 15 bytes; switch 0000000000000001: 7 to, 0 from; ` +
		`switch 0000000000000002: 2 to, 0 from; application a at switch 0000000000000001: 0 to, 1 from; ` +
		`application a at switch 0000000000000002: 0 to, 1 from
switch 0000000000000001: 7 in, 3 out, 0 failed, 0 bytes; application b at 31: 0 to, 7 from; ` +
		`application a at switch 0000000000000001: 2 to, 0 from
switch 0000000000000002: 2 in, 2 out, 0 failed, 0 bytes; application b at 31: 0 to, 2 from; ` +
		`application a at switch 0000000000000002: 1 to, 0 from
a, PACKET_IN: 3, 1 failed, of 0; note: 2
b, timer : 1, 0 failed, of 0; PACKET_OUT: 1
b, note: 2, 0 failed, of 2; PACKET_OUT: 8
local: 14, bytes besides: 0
`
	if got := described(t, p.leader); got != want {
		t.Errorf("%s", got)
	}
	if _, ok := p.follower.Report(); ok {
		t.Error("a follower reports")
	}
	p.must(p.leader.Lead(2, p.now))
	if got := described(t, p.leader); got != "local: 0, bytes besides: 15\n" {
		t.Errorf("a new leader reports %s", got)
	}
}

// TestCount: nothing is counted between Count(false) and Count(true), and the rest is one report. A new leadership goes
// on as the last one, from zero.
func TestCount(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == Message && tx.Enter(AtSwitch(in.Switch)) {
			tx.Send(in.Switch, simCommand("x"))
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	seq := uint64(1)
	event := func() {
		seq++
		p.event(1, 1, seq, packetIn("1"))
		p.commit()
	}
	inputs := func(want string) {
		t.Helper()
		if got := described(t, p.leader); !strings.HasPrefix(got, "application a at switch 0000000000000001: "+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	event()
	inputs("1 in, 1 out")
	for range 2 {
		p.leader.Count(false)
	}
	event()
	if r, ok := p.leader.Report(); ok {
		t.Errorf("reported while nothing is counted: %+v", r)
	}
	for range 2 {
		p.leader.Count(true)
	}
	event()
	inputs("2 in, 2 out")
	p.leader.Count(false)
	p.must(p.leader.Follow())
	p.must(p.leader.Lead(2, p.now))
	event()
	p.leader.Count(true)
	event()
	inputs("1 in, 1 out")
}

// TestReportOfRepetitions: events that all cause the same are counted like any other, by switch, if two applications
// handle them, at their switch and elsewhere, and if handlers take something back or name their actor twice.
func TestReportOfRepetitions(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message || !tx.Enter(AtSwitch(in.Switch)) {
			return nil
		}
		tx.Send(in.Switch, simCommand("x"))
		tx.Send(3-in.Switch, simCommand("y"))
		tx.Enter(AtSwitch(in.Switch))
		tx.Send(in.Switch, simCommand("z"))
		return nil
	}}
	b := &script{name: "b", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		tx.Enter(AtSwitch(in.Switch))
		if in.Message[8] == 'r' {
			m := tx.Mark()
			tx.Send(in.Switch, simCommand("u"))
			if err := tx.Rewind(m); err != nil {
				return err
			}
			tx.Enter(AtSwitch(in.Switch))
		}
		tx.Send(in.Switch, simCommand("v"))
		tx.Enter(Shard{})
		tx.Send(in.Switch, simCommand("w"))
		return nil
	}}
	p := newPair(t, Limits{}, a, b)
	p.up(1)
	p.up(2)
	for seq := range uint64(5) {
		p.event(1, 1, seq+2, packetIn("1"))
		p.event(2, 1, seq+2, packetIn("2"))
	}
	p.event(1, 1, 7, packetIn("rewinds"))
	p.commit()
	const want = `application a at switch 0000000000000001: 6 in, 18 out, 0 failed, 0 bytes; ` +
		`switch 0000000000000001: 12 to, 6 from; switch 0000000000000002: 6 to, 0 from
application a at switch 0000000000000002: 5 in, 15 out, 0 failed, 0 bytes; ` +
		`switch 0000000000000002: 10 to, 5 from; switch 0000000000000001: 5 to, 0 from
application b at switch 0000000000000001: 6 in, 6 out, 0 failed, 0 bytes; switch 0000000000000001: 6 to, 6 from
application b at switch 0000000000000002: 5 in, 5 out, 0 failed, 0 bytes; switch 0000000000000002: 5 to, 5 from
application b: 11 in, 11 out, 0 failed, 0 bytes; switch 0000000000000001: 6 to, 6 from; ` +
		`switch 0000000000000002: 5 to, 5 from
`
	if got := described(t, p.leader); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}

// TestReportOfRewind: a handler that takes back that it is at its switch, or what it did there, and goes on there, is
// counted once.
func TestReportOfRewind(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		before := tx.Mark()
		tx.Enter(AtSwitch(in.Switch))
		within := tx.Mark()
		var err error
		switch in.Message[8] {
		case 'b':
			err = tx.Rewind(before)
		case 'w':
			err = tx.Rewind(within)
		}
		tx.Enter(AtSwitch(in.Switch))
		tx.Send(in.Switch, simCommand("x"))
		return err
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	for seq := range uint64(500) { // so many that few are timed
		if seq%5 == 0 { // so few in a second that all are counted
			p.now += int64(time.Second)
			p.leader.Tick(p.now)
		}
		p.event(1, 1, seq+2, packetIn([]string{"-", "-", "before", "-", "within"}[seq%5]))
	}
	p.commit()
	const want = "application a at switch 0000000000000001: 500 in, 500 out, 0 failed, 0 bytes; " +
		"switch 0000000000000001: 500 to, 500 from"
	if got := described(t, p.leader); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}

// An event of a switch whose application writes and sends a command.
func busyPair(t testing.TB, instrumented bool) (next func()) {
	const switches = 16
	c, err := New([]Application{&forwarder{}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if instrumented {
		c.Instrument(testClock())
	}
	seqs := [switches]uint64{}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Lead(1, 1))
	commit := func() {
		entry, ok := c.Cut()
		if !ok {
			t.Fatal("nothing to commit")
		}
		must(c.Commit(entry))
		for _, r := range c.Releases() {
			if r.Count > 0 {
				must(c.Done(r.Switch, r.Epoch, r.First+uint64(r.Count)-1))
			}
		}
	}
	for i := range seqs {
		must(c.Event(openflow.DatapathID(i+1), 1, 1, switchUp()))
		seqs[i] = 1
	}
	commit()
	msg, n := packetIn(strings.Repeat("x", 80)), 0
	return func() {
		i := n / 64 % switches // events arrive in runs
		seqs[i]++
		must(c.EventByDigest(openflow.DatapathID(i+1), 1, seqs[i], msg))
		if n++; n%512 == 0 {
			commit()
		}
	}
}

// forwarder sends a command for each packet-in.
type forwarder struct{ out of13.PacketOut }

func (*forwarder) Name() string { return "forwarder" }
func (f *forwarder) Handle(tx *Tx, in *Input) error {
	if in.Kind != Message || !tx.Enter(AtSwitch(in.Switch)) {
		return nil
	}
	f.out = of13.PacketOut{BufferID: of13.NoBuffer, Data: in.Message[20:]}
	tx.Send(in.Switch, &f.out)
	return nil
}

// TestTallyAllocatesNothing: a message that is counted allocates no more than one that is not.
func TestTallyAllocatesNothing(t *testing.T) {
	allocations := func(instrumented bool) float64 {
		next := busyPair(t, instrumented)
		for range 1 << 14 {
			next()
		}
		const inputs = 1 << 14
		return testing.AllocsPerRun(1, func() {
			for range inputs {
				next()
			}
		}) / inputs
	}
	with, without := allocations(true), allocations(false)
	t.Logf("%.4f allocations of an event, %.4f without counting", with, without)
	if with > without+0.002 {
		t.Errorf("%.4f allocations of an event that is counted, %.4f of one that is not", with, without)
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, instrumented := range []bool{false, true} {
		b.Run(fmt.Sprintf("instrumented=%v", instrumented), func(b *testing.B) {
			next := busyPair(b, instrumented)
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}
