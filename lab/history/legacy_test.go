package history

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestLegacyHistory(t *testing.T) {
	up := slices.Clip([]op{opBoot, opUp(10)})
	told := slices.Clip(append(up, opTold("a"), opTold("b"), opTold("c"), opEvent(2, "a")))
	due := slices.Clip(append(up, opDue(1, 3)))
	next := func(seq uint64, body string) op {
		return func(s directHistory) error { return s.logEvent(11, seq, fingerprintOf(message(body))) }
	}
	for _, tc := range []struct {
		name string
		ops  []op
		want string // "": all is well
	}{
		{"events", append(told, opEvent(3, "b"), opEvent(4, "c"), opFinish), ""},
		{"events between two epochs are lost", append(told, opUp(11), next(2, "c"), opFinish), ""},
		{"an event is lost within an epoch", append(told, opEvent(3, "c")), "so it is lost"},
		{"an event is repeated", append(told, opEvent(3, "a")), "so it is repeated"},
		{"an event is repeated in the next epoch", append(told, opEvent(3, "b"), opUp(11), next(2, "b")),
			"which it has not told since the last that is in the log"},
		{"the last event is missing", append(told, opFinish), "2 events are not in the log"},
		{"an epoch goes on over a restart", append(told, opBoot, opTold("d"), opEvent(3, "b"), opEvent(4, "c"),
			opEvent(5, "d")), "but the switch has told HOLDFAST_SWITCH_UP next"},
		{"an epoch again", append(told, opUp(11), opEvent(3, "b")), "after epoch 11 has begun"},
		{"an epoch without SWITCH_UP", append(up, next(1, "a")), "event 1 is a message"},
		{"no epoch", []op{opBoot, opFinish}, "no epoch of it is open"},

		{"commands", append(due, opRan(1), opDone(3), opRan(2, 3), opFinish), ""},
		{"commands are lost at the end of an epoch", append(due, opRan(1), opUp(11), opFinish), ""},
		{"a command twice", append(due, opRan(1, 2, 2)), "behind 2, which is none of the commands behind it"},
		{"commands in another order", append(due, opRan(2, 1)), "behind 2, which is none"},
		{"a command of an epoch before", append(due, opRan(1), opUp(11), opRan(2)), "behind 0, which is none"},
		{"a command before its commit", append(due, opRan(1, 2, 3, 4)), "behind 3, which is none"},
		{"a command before all", []op{opBoot, opRan(1)}, "before anything is committed"},
		{"a command is left out", append(due, opRan(1, 3), opFinish), "1 commands of 3 are neither executed nor"},
		{"a command is missing", append(due, opRan(1, 2), opFinish), "1 commands of 3 are neither executed nor"},

		{"a refusal", append(due, opRan(1, 3), opAnswer(2, openflow.TypeError, 2), opFinish), ""},
		{"a refusal of the last", append(due, opRan(1, 2), opAnswer(2, openflow.TypeError, 3), opFinish), ""},
		{"a refusal of what was executed", append(due, opRan(1), opAnswer(2, openflow.TypeError, 1)),
			"answers no command of the epoch"},
		{"an answer", append(up, opAsk(1), opAnswer(2, of13.TypeBarrierReply, 1), opFinish), ""},
		{"an answer twice", append(up, opAsk(1), opAnswer(2, of13.TypeBarrierReply, 1),
			opAnswer(3, of13.TypeBarrierReply, 1)), "answers no command of the epoch"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, &legacyHistory{loggedSwitch: loggedSwitch{id: 1}}, tc.ops, tc.want)
		})
	}
}
