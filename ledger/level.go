package ledger

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
)

// Level is how much holds of a message and of the commands that it causes when the leader dies, or another takes over
// (Ravana, section 7.4). Each level has what those below it have.
type Level int8

// The levels, weakest first.
const (
	// Unordered: processed at once; commands leave at once, without a number. The log has what the
	// applications wrote, and that the event is done, both in the background, but not its bytes.
	// After a leader's death the event may be processed again.
	Unordered Level = iota - 3
	// Reliable: the event is in the log before it is acknowledged; below ExactlyOnce with its bytes, since what it
	// caused is not there.
	Reliable
	// Ordered: commands leave after commit, once. They are lost if the leader dies then.
	Ordered
	// ExactlyOnce: commands are in the log too, numbered, and sent until they are executed, once.
	ExactlyOnce
)

func (l Level) String() string {
	if l < Unordered || l > ExactlyOnce {
		return fmt.Sprintf("level %d", int8(l))
	}
	return [...]string{"unordered", "reliable", "ordered", "exactly_once"}[l-Unordered]
}

// Leveler is an Application that is content with less than ExactlyOnce for some messages of
// switches. SwitchUp, SwitchDown and timers are ExactlyOnce always, and a message that is emitted has
// the level of what caused it. The event itself is logged at the strongest level
// of the applications that handle it.
type Leveler interface {
	Application
	// Level returns the level of a type of OpenFlow 1.3 message, and whether the application
	// handles it at all. It is asked once.
	Level(typ uint8) (level Level, handles bool)
}

// levels is what the applications chose; nil if everything is ExactlyOnce.
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

// level returns that of the event, a message of the switch.
func (c *Core) level(msg []byte) Level {
	if c.levels == nil || c.replaying() {
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

// levelFor returns that of c.input for an application.
func (c *Core) levelFor(app int) Level {
	if in := &c.input; c.levels != nil && in.Kind == Message {
		return c.levels.apps[app][message.Type(in.Message)]
	}
	return c.input.level
}
