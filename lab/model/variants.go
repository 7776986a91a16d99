package main

import (
	"fmt"
	"strings"
)

// variant is a model in one configuration.
type variant struct {
	name, model  string
	config       string // preprocessor definitions, without -D
	lacks        string // the mechanism that it lacks, as a definition
	refuted      string // the property that breaks, from its beginning; "" if it must hold
	removed      string // what it lacks, for readers
	liveness     bool   // checks the LTL formula too, under weak fairness
	quick, large bool   // quick: in every test; large: only when asked
}

const (
	atLeastOnceEvents   = "at least once events"
	atMostOnceEvents    = "at most once events"
	totalOrder          = "total event order"
	replicatedState     = "replicated control state"
	atLeastOnceCommands = "at least once commands"
	atMostOnceCommands  = "at most once commands"

	onlyCommitted      = "only what is committed"
	eachOnce           = "each item once"
	noGap              = "no gap"
	poppedWhenReceived = "popped only when received"
	allReceived        = "everything sent is received"
	outboxesEmpty      = "outboxes become empty"
	effectsAndItems    = "effects and items together"

	oneOwner   = "one owner"
	movesWhole = "it moves whole"
	inOrder    = "in order"
	moveEnds   = "each move ends"
)

// variants are what is checked. First what must hold; then what must not, each in the
// smallest network in which it breaks.
var variants = []variant{
	{name: "agent", model: "agent.pml", config: "S=2 E=1 TERMS=2", quick: true},
	{name: "agent-many-faults", model: "agent.pml", config: "S=1 E=2 TERMS=3 CRASHES=2 BREAKS=1", quick: true},
	{name: "agent-two-crashes", model: "agent.pml", config: "S=2 E=1 TERMS=3 CRASHES=2 STALE=0 DOWNROOM=1"},
	{name: "agent-two-events", model: "agent.pml", config: "S=2 E=2 TERMS=2 STALE=0 DOWNROOM=1"},
	{name: "agent-three-controllers", model: "agent.pml", config: "C=3 S=1 E=2 TERMS=3 CRASHES=2"},
	{name: "agent-liveness", model: "agent.pml", config: "LIVENESS S=2 E=1 TERMS=2 DOWNROOM=1", liveness: true},
	{name: "agent-liveness-many-faults", model: "agent.pml", config: "LIVENESS S=1 E=2 TERMS=3 CRASHES=2 BREAKS=1",
		liveness: true},
	{name: "agent-no-command-fencing", model: "agent.pml", config: "NO_COMMAND_FENCING S=2 E=1 TERMS=2 DOWNROOM=1"},
	{name: "stock", model: "stock.pml", config: "S=2 E=1 TERMS=2"},
	{name: "stock-many-faults", model: "stock.pml", config: "S=1 E=2 TERMS=3 CRASHES=2", quick: true},
	{name: "stock-two-crashes", model: "stock.pml", config: "S=2 E=1 TERMS=3 CRASHES=2 STALE=0"},
	{name: "stock-liveness", model: "stock.pml", config: "LIVENESS S=1 E=2 TERMS=3 CRASHES=2", liveness: true},
	{name: "agent-large", model: "agent.pml", config: "S=2 E=2 TERMS=2 DOWNROOM=1", large: true},
	{name: "agent-large-terms", model: "agent.pml", config: "S=2 E=1 TERMS=3 DOWNROOM=1", large: true},
	{name: "agent-large-controllers", model: "agent.pml", config: "C=3 S=1 E=2 TERMS=3 CRASHES=2 BREAKS=1",
		large: true},
	{name: "stock-large", model: "stock.pml", config: "C=3 S=1 E=2 TERMS=3 CRASHES=2", large: true},
	{name: "streams", model: "streams.pml", config: "E1=1 E2=1 CRASHES=2 BREAKS=1", quick: true},
	{name: "streams-bounds", model: "streams.pml", config: "E1=2 E2=0 E3=2 CRASHES=1 BREAKS=0 SOFT=1 HARD=2",
		quick: true},
	{name: "streams-two-items", model: "streams.pml", config: "E1=2 E2=1 CRASHES=2 BREAKS=1"},
	{name: "streams-pipelined", model: "streams.pml", config: "E1=2 E2=1 CRASHES=2 BREAKS=0 WINDOW=2 ROOM=2"},
	{name: "streams-many-faults", model: "streams.pml", config: "E1=0 E2=4 CRASHES=4 BREAKS=3 WINDOW=2 ROOM=2"},
	{name: "streams-liveness", model: "streams.pml", config: "LIVENESS E1=1 E2=1 CRASHES=2 BREAKS=1", liveness: true},
	{name: "streams-liveness-bounds", model: "streams.pml",
		config: "LIVENESS E1=2 E2=0 E3=2 CRASHES=1 BREAKS=0 SOFT=1 HARD=2", liveness: true},
	{name: "streams-large", model: "streams.pml", config: "E1=2 E2=1 CRASHES=2 BREAKS=1 WINDOW=2 ROOM=2", large: true},
	{name: "streams-large-bounds", model: "streams.pml",
		config: "E1=2 E2=0 E3=2 CRASHES=2 BREAKS=1 SOFT=1 HARD=2", large: true},
	{name: "moves", model: "moves.pml", config: "E=2 MOVES=2 CALLEDOFF=1 CRASHES=2", quick: true},
	{name: "moves-three", model: "moves.pml", config: "E=2 MOVES=3 CALLEDOFF=1 CRASHES=1"},
	{name: "moves-three-events", model: "moves.pml", config: "E=3 MOVES=2 CALLEDOFF=1 CRASHES=2"},
	{name: "moves-large", model: "moves.pml", config: "E=2 MOVES=3 CALLEDOFF=1 CRASHES=2", large: true},

	{name: "agent-no-event-buffer", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_EVENT_BUFFER",
		refuted: atLeastOnceEvents,
		removed: "The agent discards an event as soon as it has sent it."},
	{name: "agent-ack-before-log", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "ACK_BEFORE_LOG",
		refuted: atLeastOnceEvents,
		removed: "The leader acknowledges an event when it has received it, not when the event is in the log."},
	{name: "agent-no-term-before-log", model: "agent.pml", config: "S=1 E=2 TERMS=2 CRASHES=0 BREAKS=1",
		lacks: "NO_TERM_BEFORE_LOG", refuted: atLeastOnceEvents,
		removed: "The agent believes that the log of a controller is lost, because the log lacks acknowledged " +
			"events, although the term of the controller is stale."},
	{name: "agent-no-event-dedupe", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_EVENT_DEDUPE",
		refuted: atMostOnceEvents,
		removed: "The leader does not drop events at or below the watermark in the log."},
	{name: "agent-no-shared-log", model: "agent.pml", config: "S=2 E=1 TERMS=2 STALE=0", lacks: "NO_SHARED_LOG",
		refuted: replicatedState,
		removed: "Switches send their events to all controllers. Each controller executes them in the order of " +
			"arrival, not in that of the log."},
	{name: "agent-no-undo", model: "agent.pml", config: "S=2 E=1 TERMS=3 CRASHES=0", lacks: "NO_UNDO",
		refuted: replicatedState,
		removed: "A deposed leader does not undo what it has executed and not logged."},
	{name: "agent-no-log-before-commands", model: "agent.pml", config: "S=2 E=1 TERMS=2 STALE=0",
		lacks: "NO_LOG_BEFORE_COMMANDS", refuted: totalOrder,
		removed: "Commands are sent when the event is executed, not when it is in the log."},
	{name: "agent-no-resend", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_RESEND",
		refuted: atLeastOnceCommands,
		removed: "A new leader does not resend the commands that are not done."},
	{name: "agent-complete-before-executed", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0",
		lacks: "COMPLETE_BEFORE_EXECUTED", refuted: atLeastOnceCommands,
		removed: "Commands count as done when they are sent, not when the switch has acknowledged them."},
	{name: "agent-no-command-filter", model: "agent.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_COMMAND_FILTER",
		refuted: atMostOnceCommands,
		removed: "The agent does not drop commands that it has already forwarded."},
	{name: "agent-no-fencing", model: "agent.pml", config: "S=1 E=1 TERMS=2 CRASHES=0", lacks: "NO_FENCING",
		refuted: atLeastOnceEvents,
		removed: "The agent accepts the latest claim, whatever its term is."},

	{name: "stock-no-standby-buffer", model: "stock.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_STANDBY_BUFFER",
		refuted: atLeastOnceEvents,
		removed: "Standbys do not keep the events that they receive."},
	{name: "stock-no-sync", model: "stock.pml", config: "S=1 E=2 TERMS=3", lacks: "NO_SYNC", refuted: atLeastOnceEvents,
		removed: "A controller that has restarted may lead before the events that it missed are in the log."},
	{name: "stock-no-survivor", model: "stock.pml", config: "S=1 E=1 TERMS=2 CRASHES=2 STALE=0", lacks: "NO_SURVIVOR",
		refuted: atLeastOnceEvents,
		removed: "Not a mechanism, but the assumption for switches without agents: of the controllers that " +
			"received an event, one survives until the event is in the log."},
	{name: "stock-no-buffer-match", model: "stock.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_BUFFER_MATCH",
		refuted: atMostOnceEvents,
		removed: "A new leader logs all events that it kept as a standby, including those that are already " +
			"in the log."},
	{name: "stock-no-log-before-commands", model: "stock.pml", config: "S=2 E=1 TERMS=2 STALE=0",
		lacks: "NO_LOG_BEFORE_COMMANDS", refuted: totalOrder,
		removed: "Bundles are sent when the event is executed, not when it is in the log."},
	{name: "stock-no-marker-read", model: "stock.pml", config: "S=1 E=1 TERMS=2 STALE=0", lacks: "NO_MARKER_READ",
		refuted: atMostOnceCommands,
		removed: "A new master does not read the marker. It sends every bundle that is not done according to the log."},
	{name: "stock-marker-outside-bundle", model: "stock.pml", config: "S=1 E=1 TERMS=2 STALE=0",
		lacks: "MARKER_OUTSIDE_BUNDLE", refuted: atMostOnceCommands,
		removed: "The marker is set by a separate message after the bundle."},
	{name: "stock-read-before-role", model: "stock.pml", config: "S=1 E=1 TERMS=2 CRASHES=0", lacks: "READ_BEFORE_ROLE",
		refuted: atMostOnceCommands,
		removed: "A new leader reads the marker before the switch has accepted it as its master."},
	{name: "stock-no-fencing", model: "stock.pml", config: "S=1 E=1 TERMS=2 CRASHES=0", lacks: "NO_FENCING",
		refuted: atMostOnceCommands,
		removed: "The switch accepts bundles from every controller, whatever its role and term are."},

	{name: "streams-ack-before-commit", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=0",
		lacks: "ACK_BEFORE_COMMIT", refuted: poppedWhenReceived,
		removed: "The receiver acknowledges an item when it has executed it, not when that is committed."},
	{name: "streams-send-before-commit", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=0",
		lacks: "SEND_BEFORE_COMMIT", refuted: onlyCommitted,
		removed: "The sender sends an item when a transaction has pushed it, not when the transaction is committed."},
	{name: "streams-pop-on-send", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=0",
		lacks: "POP_ON_SEND", refuted: poppedWhenReceived,
		removed: "The sender removes an item from its outbox when it has sent it, not when it is acknowledged."},
	{name: "streams-watermark-apart", model: "streams.pml", config: "E1=0 E2=1 CRASHES=1 BREAKS=0 STALE=0",
		lacks: "WATERMARK_APART", refuted: eachOnce,
		removed: "The receiver commits the effect of an item in one entry, and its watermark in another."},
	{name: "streams-outbox-apart", model: "streams.pml", config: "E1=1 E2=0 CRASHES=1 BREAKS=0 STALE=0",
		lacks: "OUTBOX_APART", refuted: effectsAndItems,
		removed: "A group commits the input of a transaction in one entry, and what it pushed in another."},
	{name: "streams-no-dedupe", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=1", lacks: "NO_DEDUPE",
		refuted: eachOnce,
		removed: "The receiver does not drop items at or below its watermark."},
	{name: "streams-dedupe-what-is-committed", model: "streams.pml",
		config: "E1=0 E2=1 CRASHES=0 BREAKS=1 WINDOW=2", lacks: "DEDUPE_WHAT_IS_COMMITTED", refuted: eachOnce,
		removed: "The receiver drops items at or below its committed watermark, but not those that it has only " +
			"executed."},
	{name: "streams-accept-gap", model: "streams.pml", config: "E1=0 E2=2 CRASHES=0 BREAKS=1", lacks: "ACCEPT_GAP",
		refuted: noGap,
		removed: "The receiver accepts an item although one before it is missing."},
	{name: "streams-forget-idle", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=1", lacks: "FORGET_IDLE",
		refuted: eachOnce,
		removed: "The receiver forgets the watermark of an idle stream: everything received is committed, nothing is " +
			"in flight, and no acknowledgement has to be sent."},
	{name: "streams-restart-numbers", model: "streams.pml", config: "E1=0 E2=2 CRASHES=0 BREAKS=0 STALE=0",
		lacks: "RESTART_NUMBERS", refuted: poppedWhenReceived,
		removed: "The sender numbers its items from 1 again when its outbox has become empty."},
	{name: "streams-no-resend-by-new-leader", model: "streams.pml", config: "E1=0 E2=1 CRASHES=1 BREAKS=0 STALE=0",
		lacks: "NO_RESEND_BY_NEW_LEADER", refuted: allReceived,
		removed: "A new leader of the sender does not send what is in its outbox, but only what is pushed later."},
	{name: "streams-no-resend-to-new-leader", model: "streams.pml", config: "E1=0 E2=1 CRASHES=1 BREAKS=0 STALE=0",
		lacks: "NO_RESEND_TO_NEW_LEADER", refuted: allReceived,
		removed: "The sender does not send again what it still has when the receiver has a new leader."},
	{name: "streams-no-resend-after-break", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=1",
		lacks: "NO_RESEND_AFTER_BREAK", refuted: allReceived,
		removed: "The sender does not send again what it still has after a connection was broken."},
	{name: "streams-no-ack-of-duplicates", model: "streams.pml", config: "E1=0 E2=1 CRASHES=0 BREAKS=1",
		lacks: "NO_ACK_OF_DUPLICATES", refuted: outboxesEmpty,
		removed: "The receiver drops items at or below its watermark and does not acknowledge them again."},
	{name: "streams-soft-stops-items", model: "streams.pml", config: "E1=2 E2=0 CRASHES=0 BREAKS=0 SOFT=1",
		lacks: "SOFT_STOPS_ITEMS", refuted: allReceived,
		removed: "A group whose outbox has reached its soft bound takes no items of streams either."},

	{name: "moves-arrive-with-copy", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "ARRIVE_WITH_COPY", refuted: oneOwner,
		removed: "The actor lives in the other group when its state is copied, and its own group does not wait for " +
			"a transaction in which it departs."},
	{name: "moves-accept-elsewhere", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "ACCEPT_ELSEWHERE", refuted: oneOwner,
		removed: "A group handles messages for an actor that does not live there according to its log."},
	{name: "moves-directory-before-log", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "DIRECTORY_BEFORE_LOG", refuted: oneOwner,
		removed: "A group believes its directory, although its own log has a newer assignment of the actor."},
	{name: "moves-published-on-departure", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "PUBLISHED_ON_DEPARTURE", refuted: oneOwner,
		removed: "The directory is told by the group from which the actor departs, and not by the group in which it " +
			"has arrived."},
	{name: "moves-depart-before-copied", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "DEPART_BEFORE_COPIED", refuted: movesWhole,
		removed: "The actor departs before its cell is copied. Only what has changed since follows."},
	{name: "moves-forget-changes", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "FORGET_CHANGES", refuted: movesWhole,
		removed: "What has changed since it was copied does not follow when the actor departs."},
	{name: "moves-keep-earlier-copy", model: "moves.pml", config: "E=2 MOVES=1 CALLEDOFF=0 CRASHES=1 STALE=0",
		lacks: "KEEP_EARLIER_COPY", refuted: movesWhole,
		removed: "The other group adds to what it has when the copy begins again, and does not drop it first."},
	{name: "moves-one-origin", model: "moves.pml", config: "E=1 MOVES=3 CALLEDOFF=1 CRASHES=0 STALE=0",
		lacks: "ONE_ORIGIN", refuted: movesWhole,
		removed: "A group takes what comes of an actor from several groups for one move."},
	{name: "moves-keep-cells", model: "moves.pml", config: "E=2 MOVES=2 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "KEEP_CELLS", refuted: movesWhole,
		removed: "The cell of an actor that departs stays in the group, too."},
	{name: "moves-forget-watermark", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "FORGET_WATERMARK", refuted: eachOnce,
		removed: "The watermarks of what the actor has received do not move with it."},
	{name: "moves-forget-outbox", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "FORGET_OUTBOX", refuted: allReceived,
		removed: "The items in the actor's outbox do not move with it, only their numbers do."},
	{name: "moves-restart-numbers", model: "moves.pml", config: "E=2 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "RESTART_NUMBERS", refuted: allReceived,
		removed: "An outbox that is empty does not move with the actor, so its numbers begin with 1 again."},
	{name: "moves-shortcut", model: "moves.pml", config: "E=2 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "SHORTCUT", refuted: inOrder,
		removed: "What goes to an actor of the same group takes no stream, although earlier messages are still on " +
			"one."},
	{name: "moves-depart-apart", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=1 STALE=0",
		lacks: "DEPART_APART", refuted: moveEnds,
		removed: "A group commits that the actor departs in one entry, and what follows of it in another."},
	{name: "moves-no-next-leader", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=1 STALE=0",
		lacks: "NO_RESUME", refuted: moveEnds,
		removed: "The next leader does not go on with a move that the log says has begun."},
	{name: "moves-no-cancel", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=1 CRASHES=0 STALE=0",
		lacks: "NO_CANCEL", refuted: moveEnds,
		removed: "The other group is not told that a move is called off."},
	{name: "moves-older-assignment", model: "moves.pml", config: "E=1 MOVES=2 CALLEDOFF=0 CRASHES=0",
		lacks: "OLDER_ASSIGNMENT", refuted: allReceived,
		removed: "The directory takes every assignment that it is told, also one that is older than what it has."},
	{name: "moves-no-new-version", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=0 STALE=0",
		lacks: "NO_NEW_VERSION", refuted: allReceived,
		removed: "The assignment of an actor that has moved has the version of the one before."},
	{name: "moves-no-publish-by-new-leader", model: "moves.pml", config: "E=1 MOVES=1 CALLEDOFF=0 CRASHES=1 STALE=0",
		lacks: "NO_REPUBLISH", refuted: allReceived,
		removed: "A new leader does not tell the directory which actors have arrived in its group."},
}

func (v variant) defines() []string {
	var args []string
	for _, d := range append(strings.Fields(v.config), strings.Fields(v.lacks)...) {
		args = append(args, "-D"+d)
	}
	return args
}

// text is the counterexample for readers.
func (v variant) text(r result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s (`%s` in `lab/model/%s`)\n\n", v.name, v.removed, v.lacks, v.model)
	for i, step := range r.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	property, what, _ := strings.Cut(r.Broken, ": ")
	fmt.Fprintf(&b, "\nBroken: **%s**: %s.\n\nA shortest counterexample, written by `go run ./lab/model -write`.\n",
		property, what)
	return b.String()
}
