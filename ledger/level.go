package ledger

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
)

// Level is the guarantee for a message, and for the commands that it causes, when the leader dies or changes (Ravana,
// section 7.4). Each level includes the guarantees of those below it.
type Level int8

// The levels, weakest first.
const (
	// Unordered: the event is processed, and its commands are sent, at once and without a sequence. The log records, in
	// the background, what the applications wrote and that the event was processed, but not its bytes. After a leader
	// change the event may be processed again.
	Unordered Level = iota - 3
	// Reliable: the event is logged before it is acknowledged; below ExactlyOnce with its bytes, because its effects
	// are not logged.
	Reliable
	// Ordered: commands are sent after commit, at most once. They are lost if the leader dies before it has sent them.
	Ordered
	// ExactlyOnce: commands are logged too, numbered, and sent until they are executed, once.
	ExactlyOnce
)

func (l Level) String() string {
	if l < Unordered || l > ExactlyOnce {
		return fmt.Sprintf("level %d", int8(l))
	}
	return [...]string{"unordered", "reliable", "ordered", "exactly_once"}[l-Unordered]
}

// Leveler is an Application that handles some messages of switches below ExactlyOnce. SwitchUp, SwitchDown and timers
// are always ExactlyOnce, and an emitted message has the level of the input that caused it. The event itself is logged
// at the strongest level of the applications that handle it.
type Leveler interface {
	Application
	// Level returns the level of a type of OpenFlow 1.3 message, and whether the application handles it at all. It is
	// called once for each type.
	Level(typ uint8) (level Level, handles bool)
}

// levels are the levels of the applications; nil if everything is ExactlyOnce.
type levels struct {
	apps   [][256]Level
	events [256]Level // the strongest
	partly [256]bool  // one of them is Reliable or Ordered
}

func levelsOf(apps []Application) *levels {
	l := &levels{apps: make([][256]Level, len(apps))}
	relaxed := false
	for typ := range 256 {
		strongest, handled := Unordered, false
		for i, a := range apps {
			level, handles := ExactlyOnce, true
			if a, ok := a.(Leveler); ok {
				level, handles = a.Level(uint8(typ))
			}
			if handles {
				l.apps[i][typ] = level
				strongest, handled = max(strongest, level), true
				relaxed = relaxed || level < ExactlyOnce
				l.partly[typ] = l.partly[typ] || level == Reliable || level == Ordered
			}
		}
		if handled {
			l.events[typ] = strongest
		}
	}
	if !relaxed {
		return nil
	}
	return l
}

// level returns the level of the event, a message of the switch.
func (c *Core) level(msg []byte) Level {
	if c.levels == nil || c.replaying() || c.replayedElsewhere() {
		return ExactlyOnce
	}
	switch app, ok := c.asker(msg); {
	case ok && app < 0:
		return ExactlyOnce
	case ok:
		return c.levels.apps[app][message.Type(msg)]
	}
	return c.levels.events[message.Type(msg)]
}

// levelFor returns the level of c.input for an application.
func (c *Core) levelFor(app int) Level {
	if in := &c.input; c.levels != nil && in.Kind == Message {
		return c.levels.apps[app][message.Type(in.Message)]
	}
	return c.input.level
}
