// Package hostile has peers that misbehave on purpose: agents, switches and controllers that lie about their numbers,
// never acknowledge, or send what only a member may. It writes its bytes by itself and imports nothing of the product,
// so that it shares no mistake with the code that it attacks. It judges nothing: the tests that use it do.
package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// OpenFlow message types of 1.3, and the experimenter id and types of docs/design/control-path.md.
const (
	version = 4

	hello           = 0
	echoRequest     = 2
	echoReply       = 3
	experimenter    = 4
	featuresRequest = 5
	featuresReply   = 6
	packetIn        = 10
	multipart       = 18
	multipartReply  = 19
	barrierRequest  = 20
	barrierReply    = 21
	roleRequest     = 24
	roleReply       = 25

	holdfast      = 0xff00484f
	onf           = 0x4f4e4600
	bundleControl = 2300

	attach     = 1
	events     = 2
	eventAck   = 3
	commandAck = 5
	switchUp   = 6
	refuse     = 8
	stream     = 10
)

// ErrRefused is returned when a controller has sent REFUSE.
var ErrRefused = errors.New("refused")

// conn is one OpenFlow connection. It reads one message at a time.
type conn struct {
	net.Conn
	unlink func() bool
}

// dial connects. The connection is closed when ctx ends. from is a local IP address; empty: any. by makes the
// connection instead, unless it is nil.
func dial(ctx context.Context, from, to string, by func(context.Context, string) (net.Conn, error)) (*conn, error) {
	if by == nil {
		var d net.Dialer
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
		}
		by = func(ctx context.Context, to string) (net.Conn, error) { return d.DialContext(ctx, "tcp", to) }
	}
	nc, err := by(ctx, to)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: nc, unlink: context.AfterFunc(ctx, func() { nc.Close() })}, nil
}

func (c *conn) Close() error {
	c.unlink()
	return c.Conn.Close()
}

// message returns a message with its header.
func message(typ byte, xid uint32, body ...[]byte) []byte {
	b := []byte{version, typ, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[4:], xid)
	for _, part := range body {
		b = append(b, part...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}

// own returns a message of Holdfast's protocol.
func own(typ uint32, numbers ...uint64) []byte {
	return message(experimenter, 0, u32(holdfast, typ), u64(numbers...))
}

func u64(numbers ...uint64) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func u32(numbers ...uint32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func (c *conn) send(messages ...[]byte) error {
	var b []byte
	for _, m := range messages {
		b = append(b, m...)
	}
	_, err := c.Write(b)
	return err
}

// read returns the next message.
func (c *conn) read() ([]byte, error) {
	header := make([]byte, 8)
	if _, err := io.ReadFull(c, header); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(header[2:]))
	if n < len(header) {
		return nil, fmt.Errorf("hostile: a message of %d bytes", n)
	}
	msg := append(header, make([]byte, n-len(header))...)
	_, err := io.ReadFull(c, msg[8:])
	return msg, err
}

func xidOf(msg []byte) uint32 { return binary.BigEndian.Uint32(msg[4:]) }

// ownType returns the type of a message of Holdfast's protocol; 0 if it is none.
func ownType(msg []byte) uint32 {
	if msg[1] != experimenter || len(msg) < 16 || binary.BigEndian.Uint32(msg[8:]) != holdfast {
		return 0
	}
	return binary.BigEndian.Uint32(msg[12:])
}

// features returns a FEATURES_REPLY of a switch with 254 tables.
func features(datapath uint64, xid uint32) []byte {
	return message(featuresReply, xid, u64(datapath), u32(0), []byte{254, 0, 0, 0}, u32(0x4f, 0))
}

// packet returns a PACKET_IN with n bytes of data.
func packet(n int) []byte {
	// no buffer, whole length, no match, table 0, cookie 0; match: in_port 1
	head := append(u32(0xffffffff), byte(n>>8), byte(n), 0, 0)
	match := []byte{0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0}
	return message(packetIn, 0, head, u64(0), match, []byte{0, 0}, make([]byte, n))
}
