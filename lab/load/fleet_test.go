package load

import "testing"

// takesAll is a connection that takes everything at once.
type takesAll struct{ bytes int }

func (c *takesAll) WriteDirect(b []byte) int {
	c.bytes += len(b)
	return len(b)
}

// The reader of a switch sends once, and wakes the writer if the switch has more to send than one write.
func TestPushWakesForMore(t *testing.T) {
	for size, more := range map[int]bool{4: false, 1024: true} {
		conn := &takesAll{}
		l := &link{s: newSwitch13(1, 10, newWindow(size, 1)), wake: make(chan struct{}, 1), direct: conn}
		l.s.ready = true
		l.push()
		if conn.bytes == 0 || len(l.wake) > 0 != more || l.s.waits() != more {
			t.Errorf("window %d: %d bytes are sent, woken %v, more to send %v", size, conn.bytes, len(l.wake) > 0,
				l.s.waits())
		}
	}
}
