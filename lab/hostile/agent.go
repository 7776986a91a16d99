package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
)

// Agent claims to be the agent of a switch. It acknowledges no command, or with Acks the same one again and again.
type Agent struct {
	Datapath uint64
	Epoch    uint64
	// Packets are sent as events when a controller has claimed the switch, each with Size bytes.
	Packets, Size int
	// Acks are messages that follow the events and acknowledge nothing new. With some, Attack does not return before
	// the connection ends.
	Acks int
	From string // local IP address; empty: any
	// Dial makes the connection; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Logged is what a controller has acknowledged: the epoch, and the number of the last event.
type Logged struct{ Epoch, Seq uint64 }

// Attack attaches to the controller at an address and sends its events when it is claimed. It returns when all events
// are acknowledged, or with the error that ended the connection: ErrRefused if the controller has said so.
func (a Agent) Attack(ctx context.Context, address string) (Logged, error) {
	c, err := dial(ctx, a.From, address, a.Dial)
	if err != nil {
		return Logged{}, err
	}
	defer c.Close()
	claim := message(experimenter, 0, u32(holdfast, attach, 3, 0), u64(a.Epoch, 1, uint64(a.Packets)+2, 0))
	if err := c.send(message(hello, 1), claim); err != nil {
		return Logged{}, err
	}
	var logged Logged
	for last := uint64(a.Packets) + 1; a.Acks > 0 || logged.Epoch != a.Epoch || logged.Seq < last; {
		msg, err := c.read()
		if err != nil {
			return logged, err
		}
		switch {
		case ownType(msg) == refuse:
			return logged, fmt.Errorf("%w: reason %d, epoch %d", ErrRefused, binary.BigEndian.Uint64(msg[16:]),
				binary.BigEndian.Uint64(msg[24:]))
		case ownType(msg) == eventAck:
			logged = Logged{binary.BigEndian.Uint64(msg[16:]), binary.BigEndian.Uint64(msg[24:])}
		case msg[1] == echoRequest:
			msg[1] = echoReply
			err = c.send(msg)
		case msg[1] == featuresRequest:
			err = c.send(features(a.Datapath, xidOf(msg)))
		case msg[1] == roleRequest:
			msg[1] = roleReply
			err = c.send(msg, a.events(), bytes.Repeat(own(commandAck, a.Epoch, 0), a.Acks))
		}
		if err != nil {
			return logged, err
		}
	}
	return logged, nil
}

// events returns a block with SWITCH_UP and the packets.
func (a Agent) events() []byte {
	up := features(a.Datapath, 0)
	list := message(experimenter, 0, u32(holdfast, switchUp, uint32(len(up)), 0), up)
	for range a.Packets {
		list = append(list, packet(a.Size)...)
	}
	return append(own(events, 0, a.Epoch, 1, uint64(a.Packets+1)<<32|uint64(len(list))), list...)
}
