package history

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

var (
	upMessage   = experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
	downMessage = experimenter.AppendSwitchDown(nil, openflow.Version13, experimenter.ReasonSilent)
)

// Each corruption of what the agent saw is one of the log, seen from the other side.
func TestEventsAreThoseOfTheAgent(t *testing.T) {
	testCorruptions(t, []corruption{
		{"an event is lost", inserted(call{what: "read", id: 1, epoch: 10, data: message("lost")}, "read", 1),
			"epoch 10: event 3 is a message of type 10, digest b047f69e49f1106c, but the agent had a message of " +
				"type 10, " +
				"xid 0x0, 12 bytes"},
		{"the last event is lost", inserted(call{what: "read", id: 1, epoch: 20, data: message("lost")}, "finish", 0),
			"at the end: switch 0000000000000001, epoch 20: the log has 3 events of 4; next is a message of type " +
				"10, xid 0x0, 12 bytes"},
		{"the end of an epoch is lost", inserted(call{what: "read", id: 1, epoch: 10, data: message("lost")}, "closed",
			0),
			"entry 13 of term 2: switch 0000000000000001, epoch 10: event 7 is HOLDFAST_SWITCH_DOWN, but the agent " +
				"had a message"},
		{"an event comes that nobody sent", without("read", 9),
			"epoch 11: event 4 (a message of type 10, digest fe930cbc75973965), but the agent had only 3"},
		{"an event comes before the switch sent it", before("committed", 24, "read", 8), "but the agent had only 2"},
		{"events are swapped", swapped("read", 0), "entry 3 of term 1: switch 0000000000000001, epoch 10: event 2 " +
			"is a message"},
		{"an event's bytes change", changed("read", 3, lastByte),
			"entry 4 of term 1: switch 0000000000000002, epoch 11: event 3 is a message"},
		{"SWITCH_UP is not from the agent", without("opened", 1),
			"switch 0000000000000002: event 1 of epoch 11, which no agent opened"},
		{"an epoch that nobody opened", without("opened", 2), "epoch 20, which is not open"},
		{"SWITCH_DOWN is not from the agent", without("closed", 0),
			"epoch 10: event 7 (HOLDFAST_SWITCH_DOWN), but the agent had only 6"},
		{"another reason", changed("closed", 0, func(c *call) { c.reason = "sent garbage" }),
			"event 7 is HOLDFAST_SWITCH_DOWN, but the agent had HOLDFAST_SWITCH_DOWN"},
		{"an epoch goes back at the agent", changed("opened", 2, func(c *call) { c.epoch = 9 }),
			"opens epoch 9 after epoch 10"},
	})
}

func TestEventsOfTheLogAreInOrder(t *testing.T) {
	testCorruptions(t, []corruption{
		{"an event again", forged(7, ops(eventOp(1, 10, 4, message("four")))),
			"entry 10 of term 2: switch 0000000000000001, epoch 10: event 4 (a message of type 10, xid 0x0, 12 " +
				"bytes) once more; 4 is the last"},
		{"an event again later", forged(7, ops(eventOp(1, 10, 2, message("one")))), "once more; 4 is the last"},
		{"another digest", forged(12, ops(seenOp(1, 20, 3, message("eighT")))),
			"epoch 20: event 3 is a message of type 10, digest "},
		{"the end of an epoch by its digest", forged(10, ops(seenOp(1, 10, 6, message("six")),
			seenOp(1, 10, 7, downMessage))), "but the agent had HOLDFAST_SWITCH_DOWN"},
		{"an event is left out", forged(7, ops(eventOp(1, 10, 6, message("six")))),
			"event 6 (a message of type 10, xid 0x0, 11 bytes) follows event 4"},
		{"an epoch begins in the middle", forged(0, ops(eventOp(1, 10, 2, message("one")))), "follows event 0"},
		{"an epoch begins without SWITCH_UP", forged(0, ops(eventOp(1, 10, 1, message("one")))),
			"event 1 is a message of type 10, xid 0x0, 11 bytes, but the agent had HOLDFAST_SWITCH_UP"},
		{"an epoch begins while events of the one before are missing", forged(10, ops(eventOp(1, 20, 1, upMessage))),
			"epoch 10: the log has 5 events of 7; next is a message of type 10, xid 0x0, 11 bytes, and epoch 20 begins"},
		{"an event of an epoch that is over", forged(12, ops(eventOp(1, 10, 8, message("x")))),
			"event 8 of epoch 10 (a message of type 10, xid 0x0, 9 bytes) after epoch 20 has begun"},
		{"an event after the end", forged(10, ops(eventOp(1, 10, 6, message("six")), eventOp(1, 10, 7, downMessage),
			eventOp(1, 10, 8, message("x")))),
			"epoch 10: event 8 (a message of type 10, xid 0x0, 9 bytes) after the epoch's end"},
		{"an epoch is closed that is not stalled", forged(12, ops(ofSwitch(ledger.OpCloseEpoch, 2, 11))),
			"the ledger closes epoch 11 when 3 commands are not done; the bound is 65536"},
		{"reachability of an old epoch", forged(12, ops(ofSwitch(ledger.OpUnreachable, 1, 10))),
			"reachability is logged of epoch 10, which is not open"},
		{"an epoch is closed that is over", forged(12, ops(ofSwitch(ledger.OpCloseEpoch, 1, 10))),
			"epoch 10 is closed, which is not open"},
	})
}

func TestAcknowledgedEventsAreCommitted(t *testing.T) {
	testCorruptions(t, []corruption{
		{"before the entry", before("acked", 13, "committed", 20),
			"epoch 20: the agent is told that event 2 is logged; what is committed has 0"},
		{"too much", changed("acked", 5, func(c *call) { c.seq++ }),
			"epoch 10: the agent is told that event 5 is logged; what is committed has 4"},
		{"of an epoch that is not there", changed("acked", 5, func(c *call) { c.epoch = 19 }),
			"epoch 19: the agent is told that event 4 is logged; what is committed has 0"},
	})
}

// What an agent forgets may be missing, and nothing else of it.
func TestLostEvents(t *testing.T) {
	more := inserted(call{what: "read", id: 1, epoch: 20, data: message("lost")}, "finish", 0)
	lost := inserted(call{what: "lost", id: 1, epoch: 20}, "finish", 0)
	for _, tc := range []struct {
		name string
		tape tape
		ok   bool
	}{
		{"not lost", more(plainRun(t)), false},
		{"lost", lost(more(plainRun(t))), true},
		{"lost with a later epoch", func() tape {
			tp := inserted(call{what: "lost", id: 1, epoch: 30}, "finish", 0)(more(plainRun(t)))
			return inserted(call{what: "opened", id: 1, epoch: 30}, "lost", 0)(tp)
		}(), true},
		{"an earlier epoch is lost", inserted(call{what: "lost", id: 1, epoch: 10}, "finish", 0)(more(plainRun(t))),
			false},
	} {
		found := tc.tape.play(echoers, ledger.Limits{})
		if (len(found) == 0) != tc.ok {
			t.Errorf("%s: %q", tc.name, found)
		}
	}
}

// The first violation is told, and no other.
func TestOneViolation(t *testing.T) {
	tp := without("read", 4)(without("read", 0)(plainRun(t)))
	if found := tp.play(echoers, ledger.Limits{}); len(found) != 1 {
		t.Errorf("%q", found)
	}
	again := without("read", 4)(without("read", 0)(plainRun(t)))
	if a, b := tp.play(echoers, ledger.Limits{}), again.play(echoers, ledger.Limits{}); !slices.Equal(a, b) {
		t.Errorf("equal runs have different violations: %q, %q", a, b)
	}
}
