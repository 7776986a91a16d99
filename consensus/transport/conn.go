package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
)

// readSize is how much is asked of a connection at once.
const readSize = 256 << 10

// welcome reads the hello of who has connected, and answers it.
func welcome(conn net.Conn, cfg Config) (uint64, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return 0, err
	}
	h, err := readHello(conn)
	if err != nil {
		return 0, err
	}
	reason := refusal(conn, h, cfg)
	if _, err := conn.Write(append([]byte{byte(len(reason))}, reason...)); err != nil {
		return 0, fmt.Errorf("answer the hello: %w", err)
	}
	if reason != "" {
		return 0, errors.New(reason)
	}
	limitStall(conn)
	return h.From, conn.SetDeadline(time.Time{})
}

func readHello(conn net.Conn) (wire.Hello, error) {
	b := make([]byte, wire.HelloLen)
	if _, err := io.ReadFull(conn, b); err != nil {
		return wire.Hello{}, fmt.Errorf("read the hello: %w", err)
	}
	if b[0] == 0x16 && b[1] == 3 {
		return wire.Hello{}, errors.New("it speaks TLS, which this controller does not: give `tls` to both, or to " +
			"neither")
	}
	if clusterkey.Speaks(b) {
		return wire.Hello{}, errors.New("it has a key of the cluster, and this controller has none: copy " +
			clusterkey.File + " of that controller to the data folder here")
	}
	h, n, err := wire.ParseHello(b)
	if err != nil {
		return h, err
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(conn, name); err != nil {
		return h, fmt.Errorf("read the hello: %w", err)
	}
	h.Cluster = string(name)
	return h, nil
}

// refusal says why a hello is not accepted, in at most 255 bytes; "" if it is.
func refusal(conn net.Conn, h wire.Hello, cfg Config) string {
	reason := ""
	switch {
	case h.Version != wire.Version:
		reason = fmt.Sprintf("protocol version %d here, %d there", wire.Version, h.Version)
	case h.Cluster != cfg.Cluster:
		reason = fmt.Sprintf("cluster %q here, %q there", cfg.Cluster, h.Cluster)
	case h.To != cfg.ID:
		reason = fmt.Sprintf("controller %d is here, not controller %d: the address is wrong", cfg.ID, h.To)
	case cfg.gone(h.From):
		reason = wire.Removed
	case h.Founded && !cfg.Founded() && !cfg.dials(h.From):
		reason = wire.Stranger
	case h.From == cfg.ID || h.From == 0:
		reason = fmt.Sprintf("two controllers have the id %d", h.From)
	default:
		if err := cfg.Admit(conn, h.From); err != nil {
			reason = err.Error()
		}
	}
	return reason[:min(len(reason), 255)]
}

var (
	errRemoved  = errors.New(wire.Removed)
	errStranger = errors.New(wire.Stranger)
)

// introduce says hello and reads the answer.
func introduce(conn net.Conn, h wire.Hello) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if _, err := conn.Write(wire.AppendHello(nil, h)); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	answer := make([]byte, 256)
	if _, err := io.ReadFull(conn, answer[:1]); err != nil {
		return fmt.Errorf("read the answer to hello: %w", err)
	}
	reason := answer[1 : 1+int(answer[0])]
	if n, err := io.ReadFull(conn, reason); err != nil {
		if answer[0] == 0x15 && n > 0 && reason[0] == 3 { // an alert of TLS
			err = errors.New("it speaks TLS, which this controller does not: give `tls` to both, or to neither")
		}
		return fmt.Errorf("read the answer to hello: %w", err)
	}
	switch string(reason) {
	case wire.Removed:
		return errRemoved
	case wire.Stranger:
		return errStranger
	}
	if len(reason) > 0 {
		return fmt.Errorf("refused: %s", reason)
	}
	limitStall(conn)
	return conn.SetDeadline(time.Time{})
}

// receive hands all messages to the handler until the connection breaks.
func receive(conn net.Conn, from uint64, cfg Config) error {
	r := bufio.NewReaderSize(rawconn.Of(conn), readSize)
	var header [wire.FrameHeaderLen]byte
	var body []byte
	var d wire.Decoder
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		typ, n, err := wire.ParseFrameHeader(header)
		if err != nil {
			return err
		}
		if cap(body) < n || cap(body) > 4*readSize && n < readSize { // one large frame must not pin its buffer
			body = make([]byte, max(n, readSize))
		}
		if _, err := io.ReadFull(r, body[:n]); err != nil {
			return err
		}
		m, ok, err := d.Frame(typ, body[:n])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if m.Raft == nil {
			cfg.Handler.Payload(m.Group, from, m.Payload)
			continue
		}
		if wire.ControllerOf(m.Raft.GetFrom()) != from || wire.ControllerOf(m.Raft.GetTo()) != cfg.ID {
			return fmt.Errorf("message from replica %#x to %#x on a connection from controller %d to %d",
				m.Raft.GetFrom(), m.Raft.GetTo(), from, cfg.ID)
		}
		cfg.Handler.Received(m)
	}
}
