// Package handshake is the controller's side of the OpenFlow handshake, as a pure state machine: HELLO and version
// negotiation (1.0, 1.3, 1.4, 1.5), features, ports. The agent uses it toward its switches, southbound toward switches
// and agents. It does no I/O and has no timeout: its caller limits how long the handshake may take.
package handshake

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/of14"
)

// OwnXID is the lowest transaction id that Holdfast uses for messages of its own toward a
// switch. Commands have lower ones.
const OwnXID uint32 = 0x80000000

// ContinuesXID is the bit in the transaction id of a command that says that it belongs to the same transaction as
// the command before it to the same switch: docs/decisions/0003.
const ContinuesXID uint32 = 1 << 23

const (
	featuresXID = OwnXID + 1
	portsXID    = OwnXID + 2
)

// maxEarly bounds the events kept during a handshake, in bytes.
const maxEarly = 1 << 20

// maxPorts bounds the PORT_DESC reply, so that with the features it fits one message.
const maxPorts = openflow.MaxMessageLen - 128

// HELLO selects the highest version that both sides offer. So versions above 1.3, which are translated, are offered
// only to a switch whose HELLO has shown that it does not support 1.3.
var (
	usual = of13.VersionsOf(openflow.Version10, openflow.Version13)
	later = of13.VersionsOf(openflow.Version14, openflow.Version15)
)

// patience is for how many ticks this side waits for the peer's HELLO before it sends its own.
const patience = 2

// Handshake is the state of one connection. The zero value waits for HELLO, and answers it.
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

	offered of13.Versions // in our HELLO; 0 before it
	age     int           // in ticks, before our HELLO
	asked   bool          // for the ports
	tooMany bool          // the ports do not fit
}

// Tick is called about once a second. It appends HELLO if the peer seems to wait for that before it sends its own.
func (h *Handshake) Tick(dst []byte) []byte {
	if h.offered != 0 {
		return dst
	}
	if h.age++; h.age < patience {
		return dst
	}
	return h.offer(dst, usual)
}

func (h *Handshake) offer(dst []byte, versions of13.Versions) []byte {
	h.offered = versions
	hello := of13.NewHello(versions)
	return hello.Append(dst, OwnXID)
}

// Restart appends the requests that repeat the handshake after HELLO on an open connection. Replies to earlier requests
// arrive before the replies to these.
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
	case of13.TypePacketIn, of13.TypeFlowRemoved, of13.TypePortStatus: // the same numbers in all versions
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
	if h.offered == 0 {
		offer := usual
		if _, ok := hello.Negotiate(later); ok && !speaks13(&hello) {
			offer = later
		}
		dst = h.offer(dst, offer)
	}
	v, ok := hello.Negotiate(h.offered)
	if !ok {
		e := of13.Error{ErrType: of13.ErrTypeHelloFailed, Code: of13.HelloFailedIncompatible,
			Data: []byte("Holdfast speaks OpenFlow 1.3, 1.5, 1.4 and 1.0")}
		return e.Append(dst, openflow.XID(msg)), fmt.Errorf(
			"it offers OpenFlow version %d (bitmap %#x), and we %#x; enable 1.3 (4) on the switch", hello.Version,
			uint32(hello.Versions), uint32(h.offered))
	}
	h.Version = v
	return h.Restart(dst), nil
}

// speaks13 reports whether usual would settle on 1.3. Without a bitmap whoever speaks a later version does.
func speaks13(hello *of13.Hello) bool {
	v, ok := hello.Negotiate(usual)
	return ok && v == openflow.Version13
}

func (h *Handshake) features(dst, msg []byte) ([]byte, error) {
	var f of13.FeaturesReply
	as13, err := labelled13(msg), error(nil) // it is the same in later versions
	if h.Version == openflow.Version10 {
		as13, err = of10.ToV13(nil, msg)
	}
	if err == nil {
		err = f.Decode(as13)
	}
	switch {
	case err != nil:
		return dst, err
	case f.AuxID != 0:
		return dst, fmt.Errorf("switch %s opens auxiliary connection %d; disable auxiliary connections on the switch",
			f.DatapathID, f.AuxID)
	}
	h.Datapath = f.DatapathID
	h.Features, h.Ports, h.tooMany = bytes.Clone(msg), nil, false
	if h.Version == openflow.Version10 || h.NoPorts {
		h.Done = true
		return dst, nil
	}
	h.asked = true
	ports := of13.MultipartRequest{Part: of13.PartPortDesc}
	if h.Version == openflow.Version13 {
		return ports.Append(dst, portsXID), nil
	}
	return of14.FromV13(dst, ports.Append(nil, portsXID), h.Version)
}

func labelled13(msg []byte) []byte {
	if msg[0] == openflow.Version13 {
		return msg
	}
	msg = bytes.Clone(msg)
	msg[0] = openflow.Version13
	return msg
}

// portDesc reads one part of a PORT_DESC reply. In later versions the body is not that of 1.3.
func (h *Handshake) portDesc(msg []byte) (part of13.MultipartReply, err error) {
	v13 := msg
	if h.Version != openflow.Version13 {
		if v13, err = of14.ToV13(nil, msg); err == nil {
			v13, _, err = openflow.Next(v13) // there may be a second message, of the same part
		}
	}
	if err == nil {
		err = part.Decode(v13)
	}
	if err == nil && part.Part != of13.PartPortDesc {
		err = fmt.Errorf("it answers a PORT_DESC request with multipart type %d", part.Part)
	}
	if err != nil {
		return part, err
	}
	return of13.MultipartReply{Part: part.Part, Flags: binary.BigEndian.Uint16(msg[openflow.HeaderLen+2:]),
		Body: msg[bodyAt:]}, nil
}

// bodyAt is where the body of a multipart message begins.
const bodyAt = openflow.HeaderLen + 8

// ports appends the parts of a PORT_DESC reply to one message.
func (h *Handshake) ports(msg []byte) error {
	part, err := h.portDesc(msg)
	if err != nil {
		return err
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
