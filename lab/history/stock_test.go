package history

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// op is something that is seen of a switch without an agent. Those in the log are of epoch 10.
type op func(s directHistory) error

func opBoot(s directHistory) error { return s.boot() }

func opTold(body string) op {
	return func(s directHistory) error { s.tell(message(body)); return nil }
}

func opCommand(xid uint32) []byte {
	m := of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: make([]byte, 14)}
	return m.Append(nil, xid)
}

func opRan(xids ...uint32) op {
	return func(s directHistory) (err error) {
		for _, xid := range xids {
			if err == nil {
				err = s.obey(opCommand(xid))
			}
		}
		return err
	}
}

func opMarker(epoch, seq uint64) op {
	var dst, src of13.MAC
	binary.BigEndian.PutUint32(dst[2:], uint32(epoch))
	mod := of13.FlowMod{Command: of13.FlowAdd, Cookie: 0x48<<56 | seq,
		Match:    of13.Match(nil).WithEthDst(dst).WithEthSrc(src),
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	return func(s directHistory) error { return s.obey(mod.Append(nil, handshake.OwnXID)) }
}

func opUp(epoch uint64) op {
	return func(s directHistory) error { return s.logEvent(epoch, 1, fingerprintOf(upMessage)) }
}

func opDown(seq uint64) op {
	return func(s directHistory) error {
		return s.logEvent(10, seq, fingerprintOf(experimenter.AppendSwitchDown(nil, of13.Version, 1)))
	}
}

func opEvent(seq uint64, body string) op {
	return func(s directHistory) error { return s.logEvent(10, seq, fingerprintOf(message(body))) }
}

func opAnswer(seq uint64, typ uint8, xid uint32) op {
	return func(s directHistory) error {
		return s.logEvent(10, seq, fingerprintOf(openflow.AppendHeader(nil, openflow.Version13, typ, xid)))
	}
}

// opDue are commands of the log from seq on, each a transaction; their xid is their sequence.
func opDue(from, to uint64) op {
	return func(s directHistory) (err error) {
		for seq := from; seq <= to && err == nil; seq++ {
			err = s.logCommand(seq, 1, fingerprintOf(opCommand(uint32(seq))))
		}
		return err
	}
}

func opAsk(seq uint64) op {
	return func(s directHistory) error {
		return s.logCommand(seq, 1, fingerprintOf((&of13.BarrierRequest{}).Append(nil, uint32(seq))))
	}
}

func opDone(seq uint64) op { return func(s directHistory) error { return s.logDone(10, seq) } }

func opFinish(s directHistory) error { return s.finish() }

func opDrops(s directHistory) error { s.(*stockHistory).drops = true; return nil }

func TestStockHistory(t *testing.T) {
	up := []op{opBoot, opMarker(10, 0), opUp(10)}
	up = slices.Clip(up)
	told := slices.Clip(append(up, opTold("a"), opTold("b"), opTold("c"), opEvent(2, "a")))
	due := slices.Clip(append(up, opDue(1, 3)))
	for _, tc := range []struct {
		name string
		ops  []op
		want string // "": all is well
	}{
		{"events", append(told, opEvent(3, "b"), opEvent(4, "c"), opFinish), ""},
		{"an event that was told before the epoch", []op{opBoot, opTold("a"), opMarker(10, 0), opUp(10),
			opEvent(2, "a"), opFinish}, ""},
		{"equal events", append(up, opTold("a"), opTold("a"), opTold("b"), opEvent(2, "a"), opEvent(3, "b"), opFinish),
			""},
		{"an event is lost", append(told, opEvent(3, "c")),
			"event 3 is a message of type 10, xid 0x0, 9 bytes, but the switch has told a message of type 10, xid " +
				"0x0, 9 bytes next; the other it told further on: so it is lost"},
		{"an event is lost where the switch drops some", append(told, opDrops, opEvent(3, "c"), opFinish), ""},
		{"an event is repeated", append(told, opEvent(3, "a")), "before that: so it is repeated"},
		{"an event is repeated where the switch drops some", append(told, opDrops, opEvent(3, "c"), opEvent(4, "b")),
			"has told nothing more"},
		{"an event is repeated in the next epoch", append(told, opDown(3), opMarker(11, 0), opUp(11),
			func(s directHistory) error { return s.logEvent(11, 2, fingerprintOf(message("a"))) }),
			"begins with event 2 (a message of type 10, xid 0x0, 9 bytes), which it has not told since the last " +
				"that is in the log"},
		{"an event too many", append(told, opEvent(3, "b"), opEvent(4, "c"), opEvent(5, "d")), "has told nothing more"},
		{"the last event is missing", append(told, opEvent(3, "b"), opFinish), "1 events are not in the log"},
		{"an epoch goes on over a restart", append(told, opBoot, opTold("d"), opEvent(3, "b"), opEvent(4, "c"),
			opEvent(5, "d")), "but the switch has told HOLDFAST_SWITCH_UP next"},
		{"an epoch without a marker", append(up, opUp(11)), "of epoch 11, of which it has no marker"},
		{"a marker while the last epoch is open", append(told, opMarker(11, 0)),
			"epoch 11 begins, and the log goes on with epoch 10"},
		{"an epoch again", append(told, opDown(3), opMarker(11, 0), opMarker(10, 0)),
			"a marker of epoch 10, which is over"},
		{"a marker survives a restart", append(up, opBoot, opMarker(10, 0)), "a marker of epoch 10, which is over"},
		{"a gap in the sequences", append(told, opEvent(4, "b")), "follows event 2"},

		{"commands", append(due, opRan(1, 2), opMarker(10, 2), opDone(2), opRan(3), opMarker(10, 3), opDone(3),
			opFinish), ""},
		{"a command twice", append(due, opRan(1, 2), opMarker(10, 2), opRan(2, 3), opMarker(10, 3)),
			"executes a message of type 13, xid 0x2, 38 bytes (number 2 by its xid) behind 2; command 3"},
		{"a command is left out", append(due, opRan(1, 3), opMarker(10, 3)), "behind 1; command 2"},
		{"a command that is not committed", append(due, opRan(1, 2, 3, 4), opMarker(10, 4)),
			"nothing more is committed"},
		{"a marker goes ahead", append(due, opRan(1), opMarker(10, 2)),
			"a marker says that 2 commands are executed of 3; the last that was is 1"},
		{"a marker stays behind", append(due, opRan(1, 2), opMarker(10, 1)),
			"a marker says that 1 commands are executed of 3; the last that was is 2"},
		{"no marker", append(due, opRan(1), opBoot), "and no marker says so"},
		{"done too early", append(due, opRan(1), opMarker(10, 1), opDone(2)),
			"command 2 is logged as done; the switch has executed 1"},
		{"not executed", append(due, opRan(1), opMarker(10, 1), opFinish), "has executed 1 commands of 3"},

		{"an answer", append(up, opAsk(1), opAnswer(2, of13.TypeBarrierReply, 1), opDone(1), opFinish), ""},
		{"an answer twice", append(up, opAsk(1), opAnswer(2, of13.TypeBarrierReply, 1),
			opAnswer(3, of13.TypeBarrierReply, 1)), "answers nothing that the log has asked"},
		{"done without the answer", append(up, opAsk(1), opDone(1)), "the answer to 1 is not in the log"},
		{"no answer", append(up, opAsk(1), opFinish), "has no answer in the log"},
		{"a refusal", append(due, opAnswer(2, openflow.TypeError, 1), opRan(2, 3), opMarker(10, 3), opDone(3),
			opFinish), ""},
		{"a refusal of what is not next", append(due, opAnswer(2, openflow.TypeError, 2)),
			"refuses no command of the next transaction"},
		{"a refused command is executed", append(due, opAnswer(2, openflow.TypeError, 1), opRan(1), opMarker(10, 1)),
			"command 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, &stockHistory{loggedSwitch: loggedSwitch{id: 1}}, tc.ops, tc.want)
		})
	}
}

// check has all that is seen hold, but for the last if there is something wanted: this is what it breaks.
func check(t *testing.T, s directHistory, ops []op, want string) {
	t.Helper()
	var err error
	for i := 0; i < len(ops) && err == nil; i++ {
		if err = ops[i](s); err != nil && i < len(ops)-1 {
			t.Fatalf("step %d of %d: %v", i+1, len(ops), err)
		}
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("found  %v\nwanted %q", err, want)
	}
}

// A mark comes from the switch as a packet-in, and stands in the log as itself.
func TestStockHistoryKnowsMarks(t *testing.T) {
	mark := experimenter.SyncMarker{Generation: 3, Number: 9}
	data := append([]byte("\x02HFMRK\x02HFMRK\x88\xb5"), markText...)
	data = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(data, mark.Generation), mark.Number)
	in := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(of13.PortController), Data: data}
	f := sharedFingerprint(in.Append(nil, 0))
	if f != fingerprintOf(mark.Append(nil, of13.Version)) || !f.isMark() || !f.isShared() {
		t.Errorf("the mark %+v is %v", mark, f)
	}
}
