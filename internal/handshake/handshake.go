// Package handshake is the controller's half of the OpenFlow handshake, as a pure state
// machine: HELLO and version negotiation (1.3 or 1.0), features, ports. The agent uses it
// toward its switches and southbound toward switches and agents. It does no I/O and
// has no timeout: its caller bounds how long it may last.
package handshake

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// OwnXID is the lowest transaction id that Holdfast uses for messages of its own toward a
// switch. Commands have lower ones.
const OwnXID uint32 = 0x80000000

const (
	featuresXID = OwnXID + 1
	portsXID    = OwnXID + 2
)

// maxEarly bounds the events kept during a handshake, in bytes.
const maxEarly = 1 << 20

// maxPorts bounds the PORT_DESC reply, so that with the features it fits one message.
const maxPorts = openflow.MaxMessageLen - 128

var versions = of13.VersionsOf(openflow.Version10, openflow.Version13)

// Handshake is the state of one connection. The zero value waits for HELLO.
type Handshake struct {
	Version  uint8 // negotiated; 0 before HELLO
	Datapath openflow.DatapathID
	Features []byte // the FEATURES_REPLY, a whole message of Version
	Ports    []byte // the PORT_DESC reply, one whole message; nil in OpenFlow 1.0, or when there are too many ports
	NoPorts  bool   // set by the caller before the features arrive: ports are not asked for
	Done     bool
	// Early holds the events that came before Done, one after the other: an up switch does
	// not wait for the end of a handshake.
	Early []byte

	asked   bool // for the ports
	tooMany bool // the ports do not fit
}

// Start appends the HELLO that opens the connection.
func Start(dst []byte) []byte {
	h := of13.NewHello(versions)
	return h.Append(dst, OwnXID)
}

// Restart appends the questions that begin the handshake anew on an open connection, after
// HELLO. The answers to whatever was asked before come before those to these.
func (h *Handshake) Restart(dst []byte) []byte {
	h.Done, h.asked, h.Early = false, false, nil
	return Bare(dst, h.Version, of13.TypeFeaturesRequest, featuresXID)
}

// Input takes one whole message from the peer and appends the answers to dst. It keeps
// copies, not msg. An error ends the handshake and says what is wrong with the peer.
func (h *Handshake) Input(dst, msg []byte) ([]byte, error) {
	if h.Version == 0 {
		return h.hello(dst, msg)
	}
	if msg[0] != h.Version {
		return dst, fmt.Errorf("it negotiated OpenFlow version %d and sent a message of version %d", h.Version, msg[0])
	}
	switch msg[1] {
	case openflow.TypeEchoRequest:
		return EchoReply(dst, msg), nil
	case of13.TypeFeaturesReply:
		return h.features(dst, msg)
	case of13.TypeMultipartReply:
		if h.asked && openflow.XID(msg) == portsXID {
			return dst, h.ports(msg)
		}
	case openflow.TypeError:
		return dst, h.failed(msg)
	case of13.TypePacketIn, of13.TypeFlowRemoved, of13.TypePortStatus: // the same numbers in 1.0
		if len(h.Early)+len(msg) > maxEarly {
			return dst, fmt.Errorf("it sent more than %d bytes of events and has not answered the handshake", maxEarly)
		}
		h.Early = append(h.Early, msg...)
	}
	return dst, nil
}

func (h *Handshake) hello(dst, msg []byte) ([]byte, error) {
	var hello of13.Hello
	if err := hello.Decode(msg); err != nil {
		return dst, fmt.Errorf("its first message is no OpenFlow HELLO: %w", err)
	}
	v, ok := hello.Negotiate(versions)
	if !ok {
		e := of13.Error{ErrType: of13.ErrTypeHelloFailed, Code: of13.HelloFailedIncompatible, Data: []byte("Holdfast speaks OpenFlow 1.3 and 1.0")}
		return e.Append(dst, openflow.XID(msg)), fmt.Errorf("it offers OpenFlow version %d (bitmap %#x); enable 1.3 (4) or 1.0 (1) on the switch", hello.Version, uint32(hello.Versions))
	}
	h.Version = v
	return h.Restart(dst), nil
}

func (h *Handshake) features(dst, msg []byte) ([]byte, error) {
	switch h.Version {
	case openflow.Version10:
		var f of10.FeaturesReply
		if err := f.Decode(msg); err != nil {
			return dst, err
		}
		h.Datapath = f.DatapathID
	default:
		var f of13.FeaturesReply
		if err := f.Decode(msg); err != nil {
			return dst, err
		}
		if f.AuxID != 0 {
			return dst, fmt.Errorf("switch %s opens auxiliary connection %d; disable auxiliary connections on the switch", f.DatapathID, f.AuxID)
		}
		h.Datapath = f.DatapathID
	}
	h.Features, h.Ports, h.tooMany = bytes.Clone(msg), nil, false
	if h.Version == openflow.Version10 || h.NoPorts {
		h.Done = true
		return dst, nil
	}
	h.asked = true
	ports := of13.MultipartRequest{Part: of13.PartPortDesc}
	return ports.Append(dst, portsXID), nil
}

// ports appends the parts of a PORT_DESC reply to one message.
func (h *Handshake) ports(msg []byte) error {
	const bodyAt = openflow.HeaderLen + 8
	var part of13.MultipartReply
	if err := part.Decode(msg); err != nil {
		return err
	}
	if part.Part != of13.PartPortDesc {
		return fmt.Errorf("it answers a PORT_DESC request with multipart type %d", part.Part)
	}
	if h.Ports == nil {
		h.Ports = bytes.Clone(msg[:bodyAt])
		binary.BigEndian.PutUint16(h.Ports[openflow.HeaderLen+2:], 0) // no more parts
	}
	if len(h.Ports)+len(part.Body) <= maxPorts {
		h.Ports = append(h.Ports, part.Body...)
		openflow.SetLength(h.Ports)
	} else {
		h.tooMany = true
	}
	if part.Flags&of13.FlagMore == 0 {
		h.Done = true
		if h.tooMany { // none rather than some
			h.Ports = nil
		}
	}
	return nil
}

// failed reads an ERROR. A switch that does not know PORT_DESC is taken without ports.
func (h *Handshake) failed(msg []byte) error {
	if len(msg) < openflow.HeaderLen+4 {
		return nil
	}
	switch xid := openflow.XID(msg); {
	case xid == portsXID && h.asked:
		h.Ports, h.Done = nil, true
		return nil
	case xid == featuresXID || binary.BigEndian.Uint16(msg[openflow.HeaderLen:]) == of13.ErrTypeHelloFailed:
		return fmt.Errorf("it refuses the handshake: error type %d, code %d",
			binary.BigEndian.Uint16(msg[openflow.HeaderLen:]), binary.BigEndian.Uint16(msg[openflow.HeaderLen+2:]))
	}
	return nil
}

// Bare appends a message that is a header and nothing else.
func Bare(dst []byte, version, typ uint8, xid uint32) []byte {
	n := len(dst)
	dst = openflow.AppendHeader(dst, version, typ, xid)
	openflow.SetLength(dst[n:])
	return dst
}

// EchoReply appends the answer to request, a whole ECHO_REQUEST of any version.
func EchoReply(dst, request []byte) []byte {
	n := len(dst)
	dst = append(dst, request...)
	dst[n+1] = openflow.TypeEchoReply
	return dst
}
