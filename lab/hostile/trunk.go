package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
)

// Trunk claims to be an agent that has all of its switches on one connection, with a stream for each. It opens streams
// as fast as it can, begins a handshake in each, ends none, gives no credit, and sends more on the first one than it
// may.
type Trunk struct {
	Datapath uint64 // of the first stream; those of the others follow
	Streams  int    // that it opens
	Flood    int    // bytes of packets that it sends on the first
	Read     bool   // it reads what the controller sends, and answers nothing
	Wrong    bool   // at the end it sends a frame of a stream that was never opened
	From     string // local IP address; empty: any
	// Dial makes the connection; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// The kinds of frames, and how many bytes the flood has in one.
const (
	data       = 1
	credit     = 2
	floodBytes = 32 << 10
)

// Attack sends all that to a controller, and then waits until ctx ends or the controller closes the connection. It
// returns the error that ended it.
func (a Trunk) Attack(ctx context.Context, address string) error {
	c, err := dial(ctx, a.From, address, a.Dial)
	if err != nil {
		return err
	}
	defer c.Close()
	ended := make(chan error, 1)
	go func() { // ends with ctx or the connection
		for {
			if !a.Read {
				<-ctx.Done()
			}
			if _, err := c.read(); err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range uint32(a.Streams) {
		begin := append(message(hello, 1), message(experimenter, 0, u32(holdfast, attach, 3, 0), u64(1, 1, 2, 0))...)
		begin = append(begin, features(a.Datapath+uint64(i), 0)...)
		if err := c.send(frame(i+1, data, begin)); err != nil {
			return err
		}
	}
	packets := bytes.Repeat(packet(1000), floodBytes/len(packet(1000)))
	for sent := 0; sent < a.Flood; sent += len(packets) {
		if err := c.send(frame(1, data, packets)); err != nil {
			return err
		}
	}
	if a.Wrong {
		if err := c.send(frame(1<<31, credit, nil)); err != nil {
			return err
		}
	}
	return <-ended
}

// frame returns a frame of a stream.
func frame(id uint32, kind byte, content []byte) []byte {
	last := binary.BigEndian.AppendUint32(nil, uint32(kind)<<24|uint32(len(content)))
	return append(message(experimenter, 0, u32(holdfast, stream, id), last), content...)
}
