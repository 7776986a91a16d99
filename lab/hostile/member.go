package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// Member claims to be a controller of a cluster, at the port for the other controllers.
type Member struct {
	Cluster  string
	From, To uint64 // ids of the controller that it claims to be, and of the one that it attacks
}

// ErrNotAdmitted is returned if the hello was not accepted.
var ErrNotAdmitted = errors.New("not admitted")

// Heartbeat sends a heartbeat of a leader in a term, which says that all entries up to commit are committed. It returns
// when the controller closes the connection, or nil when ctx ends.
func (m Member) Heartbeat(ctx context.Context, address string, term, commit uint64) error {
	c, err := dial(ctx, "", address, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := append([]byte("HOLDRAFT"), 0, 6)
	hello = append(append(hello, u64(m.From, m.To)...), 0, byte(len(m.Cluster)))
	if _, err := c.Write(append(hello, m.Cluster...)); err != nil {
		return err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 0 {
		return errors.Join(ErrNotAdmitted, err)
	}
	const heartbeat = 8
	// group 0, nothing stored, and a message of raftpb: type, to, from, term, commit
	body := []byte{1, 0, 0}
	for field, value := range map[byte]uint64{1: heartbeat, 2: m.To, 3: m.From, 4: term, 8: commit} {
		body = binary.AppendUvarint(append(body, field<<3), value)
	}
	if _, err := c.Write(append(u32(uint32(len(body))), body...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(io.EOF, err)
}
