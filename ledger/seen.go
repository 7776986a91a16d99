package ledger

import "github.com/holdfast-sdn/holdfast/internal/message"

// needsBytes reports whether the log must contain the bytes of a message of a switch: because hosts execute it, or
// because its effects are not all logged.
func (c *Core) needsBytes(msg []byte) bool {
	return c.replaying() || c.partly(msg)
}

// partly reports whether an application handles the event, a message of the switch, at a level that logs the event but
// not its effects.
func (c *Core) partly(msg []byte) bool {
	if c.levels == nil {
		return false
	}
	if app, ok := c.asker(msg); ok {
		if app < 0 {
			return false
		}
		level := c.levels.apps[app][message.Type(msg)]
		return level == Reliable || level == Ordered
	}
	return c.levels.partly[message.Type(msg)]
}
