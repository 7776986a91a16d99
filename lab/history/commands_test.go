package history

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

func TestCommandsAreThoseOfTheLog(t *testing.T) {
	testCorruptions(t, []corruption{
		{"executed twice", twice("executed", 1), "epoch 10: gets a message of type 10, xid 0x1000002, 14 bytes " +
			"(number 2 by its xid) as command 3; that of entry 3 is"},
		{"the last is executed twice", twice("executed", 20),
			"epoch 11: gets a message of type 10, xid 0x1000009, 15 bytes (number 9 by its xid) as command 10, but " +
				"only 9 are committed"},
		{"before it is committed", before("executed", 14, "committed", 20),
			"epoch 20: gets a message of type 10, xid 0x1000001, 16 bytes (number 1 by its xid) as command 1, but " +
				"only 0 are committed"},
		{"out of order", swapped("executed", 0), "epoch 10: gets a message of type 10, xid 0x1000002, 14 bytes " +
			"(number 2 by its xid) as command 1; that of entry 3"},
		{"skipped", without("executed", 8), "epoch 10: gets a message of type 10, xid 0x1000006, 13 bytes (number " +
			"6 by its xid) as command 5"},
		{"of another switch", changed("executed", 3, func(c *call) { c.id, c.epoch = 1, 10 }),
			"switch 0000000000000001, epoch 10: gets a message of type 10, xid 0x1000001"},
		{"of an epoch that is over", changed("executed", 14, func(c *call) { c.epoch = 10 }),
			"epoch 10: gets a message of type 10, xid 0x1000001, 16 bytes (number 1 by its xid) as command 10; " +
				"that of entry 13"},
		{"in no epoch", changed("executed", 0, func(c *call) { c.epoch = 0 }), "in epoch 0, which no agent opened"},
		{"other bytes", changed("executed", 0, lastByte), "as command 1; that of entry 3"},
		{"not executed in the end", func(tp tape) tape {
			tp = forged(13, ops(doneOp(1, 20, 3)))(without("executed", 20)(tp))
			return tp
		}, "switch 0000000000000002, epoch 11: at the end it has executed 8 commands of 9; next is a message of " +
			"type 10, xid 0x1000009, 15 bytes of entry 15"},
		{"in another epoch in the end", changed("finish", 0, func(c *call) { c.live[1] = 10 }),
			"switch 0000000000000001: at the end it lives in epoch 10, which is not open in the log"},
	})
}

func TestCommandsOfTheLogAreInOrder(t *testing.T) {
	testCorruptions(t, []corruption{
		{"again", forged(7, ops(commandOp(1, 6, message("x")))),
			"command 6 (a message of type 10, xid 0x0, 9 bytes) is logged after 6"},
		{"left out", forged(7, ops(commandOp(1, 8, message("x")))), "is logged after 6"},
		{"of no epoch", forged(7, ops(commandOp(3, 1, message("x")))),
			"switch 0000000000000003: command 1 (a message of type 10, xid 0x0, 9 bytes) is logged while no epoch " +
				"is open"},
		{"nobody sent it", forged(7, ops(commandOp(1, 7, message("x")))),
			"a single controller makes something else of its inputs: operation 1 is command 7"},
	})
}

func TestDoneIsExecuted(t *testing.T) {
	testCorruptions(t, []corruption{
		{"before it is executed", before("committed", 22, "executed", 15),
			"entry 14 of term 2: switch 0000000000000002, epoch 11: command 7 is logged as done; the switch has " +
				"executed 5"},
		{"beyond the epoch", forged(5, ops(doneOp(1, 10, 7))),
			"entry 7 of term 1: switch 0000000000000001, epoch 10: command 7 is logged as done of 6"},
		{"back", forged(5, ops(doneOp(1, 10, 3))), "epoch 10: commands up to 3 are logged as done after 4"},
		{"of another epoch", forged(11, ops(doneOp(1, 10, 9))),
			"commands of epoch 10 are logged as done, which is not the newest"},
		{"of an unknown switch", forged(5, ops(doneOp(3, 10, 1))), "commands of epoch 10 are logged as done"},
	})
}

// An agent acknowledges commands of an epoch that is over for it, and the switch never gets them.
func TestVoidCommandsAreDone(t *testing.T) {
	b := newBed(t, ledger.Limits{})
	b.up(1, 10)
	b.commitAll()
	b.say(1, "one")
	b.switches[1].stuck = true
	b.cut()
	b.commitOne()
	b.see(call{what: "closed", id: 1, epoch: 10, reason: "silent"})
	b.must(b.core().Done(1, 10, 1))
	b.commitAll()
	delete(b.switches, 1)
	b.see(call{what: "lost", id: 1, epoch: 10})
	if found := b.finish().play(echoers, ledger.Limits{}); len(found) > 0 {
		t.Errorf("%q", found)
	}
}
