package history

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Framer splits a stream into whole OpenFlow messages.
type Framer struct {
	buf  []byte
	used int // bytes of buf that were handed out
}

// Add appends the next piece, and returns the whole messages so far, one after the other. They are valid until the next
// call.
func (f *Framer) Add(piece []byte) ([]byte, error) {
	f.buf = append(f.buf[:copy(f.buf, f.buf[f.used:])], piece...)
	f.used = 0
	for f.used+openflow.HeaderLen <= len(f.buf) {
		n := int(f.buf[f.used+2])<<8 | int(f.buf[f.used+3])
		if n < openflow.HeaderLen {
			return f.buf[:f.used], fmt.Errorf("a message of %d bytes", n)
		}
		if f.used+n > len(f.buf) {
			break
		}
		f.used += n
	}
	return f.buf[:f.used], nil
}

// Each calls do for every message of a batch.
func Each(batch []byte, do func(msg []byte)) {
	for len(batch) >= openflow.HeaderLen {
		n := int(batch[2])<<8 | int(batch[3])
		do(batch[:n])
		batch = batch[n:]
	}
}

// OfApplications distinguishes an event from a switch, or a command to it, from messages between the switch and its
// agent.
func OfApplications(msg []byte) bool {
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return false
	}
	return openflow.XID(msg) < handshake.OwnXID
}
