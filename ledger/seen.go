package ledger

import "github.com/holdfast-sdn/holdfast/internal/message"

// needsBytes reports whether the log must have what a switch said: for hosts, which execute it, or since not all that
// it causes stands there.
func (c *Core) needsBytes(msg []byte) bool {
	return c.replaying() || c.partly(msg)
}

// partly reports whether somebody handles the event, a message of the switch, at a level that has it in the log, and
// not what it causes.
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
