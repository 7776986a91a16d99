package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// told returns the bodies of commands.
func told(t *testing.T, commands []byte) (list []string) {
	t.Helper()
	for len(commands) > 0 {
		msg, rest, err := openflow.Next(commands)
		if err != nil {
			t.Fatal(err)
		}
		list, commands = append(list, string(msg[openflow.HeaderLen:])), rest
	}
	return list
}

// levelled is an application that answers each packet to its switch and to switch 2, and writes a row.
func levelled(name string, l Level) Application {
	return relaxed{&script{name: name, do: func(tx *Tx, in *Input) error {
		if in.Kind == Message || in.Kind == Emitted {
			tx.Send(in.Switch, simCommand(name))
			tx.Send(2, simCommand(name+" aside"))
			tx.Put(tx.Table("t"), Key{A: in.Seq}, Key{}, []byte(name))
		}
		return nil
	}}, map[uint8]Level{of13.TypePacketIn: l}}
}

// When commands are released at each level, and what is logged (Ravana, section 7.4).
func TestLevels(t *testing.T) {
	for _, tc := range []struct {
		level            Level
		atOnce, onCommit bool // when best-effort commands are released
		ops              []Op
	}{
		{Unordered, true, false, []Op{OpTable, OpPut, OpPut, OpSkipped}},
		{Reliable, true, false, []Op{OpEvent, OpTable, OpPut, OpEvent, OpPut}},
		{Ordered, false, true, []Op{OpEvent, OpTable, OpPut, OpEvent, OpPut}},
		{ExactlyOnce, false, false, []Op{OpEvent, OpCommand, OpCommand, OpTable, OpPut, OpEvent, OpCommand, OpCommand,
			OpPut}},
	} {
		t.Run(tc.level.String(), func(t *testing.T) {
			p := newPair(t, Limits{}, levelled("a", tc.level))
			p.up(1)
			p.up(2)
			p.commit()
			check := func(when string, list []Release, want bool) {
				t.Helper()
				var got []string
				for _, r := range list {
					if r.BestEffortCount > 0 {
						got = append(got, fmt.Sprint(uint64(r.Switch), r.Epoch, r.BestEffortCount,
							told(t, r.BestEffort)))
					}
				}
				if !want && got != nil || want && !slices.Equal(got,
					[]string{"1 1 2 [a a]", "2 1 2 [a aside a aside]"}) {
					t.Errorf("%s there left %q", when, got)
				}
			}
			p.event(1, 1, 2, packetIn("x"))
			p.event(1, 1, 3, packetIn("y"))
			check("at once", p.leader.Immediate(), tc.atOnce)
			check("before commit", p.leader.Releases(), false)
			check("after commit", p.commit(), tc.onCommit)
			check("again", append(p.leader.Immediate(), p.leader.Releases()...), false)
			if got := ops(t, p.entries[len(p.entries)-1]); !slices.Equal(got, tc.ops) {
				t.Errorf("the entry has %v, want %v", got, tc.ops)
			}
			if s := p.follower.Switches()[0]; s.Events != 3 || s.TotalEvents != 3 {
				t.Errorf("the follower has %+v", s)
			}
		})
	}
}

// An event is logged at the strongest level of the applications that handle it. Commands have the level of the
// application that sends them. Answers have the level of the application that asked.
func TestLevelsOfSeveralApplications(t *testing.T) {
	weak, strong := levelled("weak", Unordered), levelled("strong", ExactlyOnce)
	p := newPair(t, Limits{}, weak, strong)
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	if got := p.leader.Immediate(); len(got) != 1 || !slices.Equal(told(t, got[0].BestEffort), []string{"weak"}) {
		t.Errorf("at once there left %+v", got)
	}
	if got := p.commit(); len(got) != 1 || !slices.Equal(told(t, got[0].Commands), []string{"strong"}) {
		t.Errorf("after commit there left %+v", got)
	}
	if got := ops(t, p.entries[0]); !slices.Equal(got,
		[]Op{OpEvent, OpEvent, OpTable, OpPut, OpTable, OpPut, OpCommand}) &&
		!slices.Equal(got, []Op{OpEvent, OpEvent, OpTable, OpPut, OpCommand, OpTable, OpPut}) {
		t.Errorf("the entry has %v", got)
	}

	asks := relaxed{&script{name: "asks"}, map[uint8]Level{of13.TypeBarrierReply: Unordered}}
	p = newPair(t, Limits{}, asks, &script{name: "strict"})
	p.up(1)
	p.event(1, 1, 2, newMessage(of13.TypeBarrierReply, 1<<24|1, ""))
	p.event(1, 1, 3, newMessage(of13.TypeBarrierReply, 2<<24|1, ""))
	p.event(1, 1, 4, newMessage(of13.TypeBarrierReply, 1<<24|1, ""))
	p.commit()
	if got := ops(t, p.entries[0]); !slices.Equal(got, []Op{OpEvent, OpSkipped, OpEvent, OpSkipped}) {
		t.Errorf("the entry has %v", got)
	}
}

// An emitted message has the level of the input that caused it.
func TestLevelOfEmitted(t *testing.T) {
	emits := relaxed{&script{name: "emits", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		return tx.Emit("m", nil)
	}}, map[uint8]Level{of13.TypePacketIn: Reliable}}
	sends := relaxed{&script{name: "sends", do: func(tx *Tx, in *Input) error {
		if in.Kind == Emitted {
			tx.Send(1, simCommand("sent"))
		}
		return nil
	}}, nil}
	p := newPair(t, Limits{}, emits, sends)
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	if got := p.leader.Immediate(); len(got) != 1 || got[0].BestEffortCount != 1 {
		t.Errorf("at once there left %+v", got)
	}
}

// A failed application sends nothing at any level. An encoder that returns an invalid message fails its
// application.
func TestFailedApplicationSendsNothingBestEffort(t *testing.T) {
	for l := Unordered; l < ExactlyOnce; l++ {
		a := relaxed{&script{name: "a", do: func(tx *Tx, in *Input) error {
			if in.Kind != Message {
				return nil
			}
			body := string(in.Message[openflow.HeaderLen:])
			tx.Send(1, simCommand(body))
			if _, err := tx.SendBytes(1, packetIn(body)); err != nil {
				return err
			}
			switch body {
			case "fails":
				return fmt.Errorf("no")
			case "encodes":
				tx.Send(1, wrongLength(9))
			}
			return nil
		}}, map[uint8]Level{of13.TypePacketIn: l}}
		p := newPair(t, Limits{}, a)
		p.up(1)
		for i, body := range []string{"one", "fails", "two", "encodes", "three"} {
			p.event(1, 1, uint64(2+i), packetIn(body))
		}
		if n := len(p.leader.Failures()); n != 2 {
			t.Errorf("%v: %d failures", l, n)
		}
		list := slices.Clone(p.leader.Immediate())
		if l == Ordered {
			list = slices.DeleteFunc(p.commit(), func(r Release) bool { return r.BestEffortCount == 0 })
		}
		if len(list) != 1 || list[0].BestEffortCount != 6 ||
			strings.Join(told(t, list[0].BestEffort), " ") != "one one two two three three" {
			t.Errorf("%v: there left %+v", l, list)
		}
	}
}

// The xid of a best-effort command names the application, does not continue a transaction, and is never that of a
// queued command.
func TestXIDOfBestEffortCommands(t *testing.T) {
	var bestEffort, logged []uint32
	a := relaxed{&script{name: "a", do: func(tx *Tx, in *Input) error {
		list := &bestEffort
		if in.Kind == SwitchUp {
			list = &logged
		}
		for range 3 {
			*list = append(*list, tx.Send(1, simCommand("c")))
		}
		return nil
	}}, map[uint8]Level{of13.TypePacketIn: Unordered}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	for i, xid := range bestEffort {
		if xid>>tagShift != 1 || Continues(xid) || slices.Contains(logged, xid) ||
			slices.Contains(bestEffort[:i], xid) {
			t.Errorf("xids %x; those in the queue are %x", bestEffort, logged)
		}
	}
	if got := p.leader.state.switches[1].find(bestEffort[0]); got != nil {
		t.Errorf("an answer to a best-effort command is taken for one to %x", got)
	}
}

// Commands that are released at once are bounded: until they are taken, the ledger has no room.
func TestImmediateIsBounded(t *testing.T) {
	p := newPair(t, Limits{BatchBytes: 100}, levelled("a", Unordered))
	p.up(1)
	p.commit()
	n := uint64(0)
	for ; p.leader.Room(); n++ {
		p.event(1, 1, 2+n, packetIn("x"))
	}
	if n == 0 || n > 20 {
		t.Errorf("room for %d events", n)
	}
	if len(p.leader.Immediate()) == 0 || len(p.leader.batch.buf) < 100 && !p.leader.Room() {
		t.Error("no room although what was sent is taken")
	}
}

// Skipped events are cut at intervals, or when their writes fill an entry. An observer learns how many of them the
// switch sent unasked.
func TestSkipped(t *testing.T) {
	p := newPair(t, Limits{BatchBytes: 400}, levelled("a", Unordered))
	var seen []string
	p.follower.Observe(func(id openflow.DatapathID, epoch, seq uint64, _ []byte) {
		seen = append(seen, fmt.Sprint("event ", uint64(id), epoch, seq))
	})
	p.follower.ObserveSkipped(func(id openflow.DatapathID, epoch, seq, asynchronous uint64) {
		seen = append(seen, fmt.Sprint("skipped ", uint64(id), epoch, seq, asynchronous))
	})
	p.up(1)
	p.commit()
	p.event(1, 1, 2, packetIn("x"))
	p.event(1, 1, 3, packetIn("x"))
	if p.leader.Quiet() {
		t.Error("quiet with an event that is not committed")
	}
	if _, ok := p.leader.CutTransactions(); ok {
		t.Error("an entry for each event")
	}
	p.event(1, 1, 4, switchDown())
	r := p.commit()
	if len(r) != 1 || r[0].Acked != 4 {
		t.Errorf("released %+v", r)
	}
	if want := []string{"event 1 1 1", "skipped 1 1 3 2", "event 1 1 4"}; !slices.Equal(seen, want) {
		t.Errorf("observed %q, want %q", seen, want)
	}
	p.event(1, 2, 1, switchUp())
	p.commit()
	for seq := uint64(2); p.leader.Room(); seq++ {
		p.event(1, 2, seq, packetIn("x"))
		p.leader.Immediate()
	}
	if _, ok := p.leader.CutTransactions(); !ok {
		t.Error("no room, and no entry")
	}
}

func TestLevelNames(t *testing.T) {
	if got := fmt.Sprint(Unordered, Reliable, Ordered, ExactlyOnce,
		Level(9)); got != "unordered reliable ordered exactly_once level 9" {
		t.Error(got)
	}
}
