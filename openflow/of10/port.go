package of10

import (
	"bytes"
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Bits of PortDesc.Config (section 5.2.1).
const (
	ConfigPortDown   uint32 = 1 << 0
	ConfigNoSTP      uint32 = 1 << 1
	ConfigNoRecv     uint32 = 1 << 2
	ConfigNoRecvSTP  uint32 = 1 << 3
	ConfigNoFlood    uint32 = 1 << 4
	ConfigNoFwd      uint32 = 1 << 5
	ConfigNoPacketIn uint32 = 1 << 6
)

// Bits of PortDesc.State. Bits 8 and 9 are a number, the state of the spanning tree.
const (
	StateLinkDown uint32 = 1 << 0
	StateSTPMask  uint32 = 3 << 8
	StateSTPBlock uint32 = 3 << 8
)

// PortDesc describes a port. The last four are bit sets of link modes: 10 Mb/s half
// duplex to 10 Gb/s full duplex in bits 0 to 6, medium and negotiation in 7 to 11.
type PortDesc struct {
	Port                                 Port
	HWAddr                               [6]byte
	Name                                 [16]byte // ends at the first zero byte
	Config, State                        uint32
	Current, Advertised, Supported, Peer uint32
}

const portDescLen = 48

// NameString returns the name without the zeros behind it.
func (p *PortDesc) NameString() string {
	name, _, _ := bytes.Cut(p.Name[:], []byte{0})
	return string(name)
}

// Append appends the 48 bytes of the description.
func (p *PortDesc) Append(dst []byte) []byte {
	dst = be.AppendUint16(dst, uint16(p.Port))
	dst = append(append(dst, p.HWAddr[:]...), p.Name[:]...)
	for _, v := range [...]uint32{p.Config, p.State, p.Current, p.Advertised, p.Supported, p.Peer} {
		dst = be.AppendUint32(dst, v)
	}
	return dst
}

func (p *PortDesc) parse(b []byte) {
	_ = b[portDescLen-1]
	*p = PortDesc{Port: Port(be.Uint16(b)), HWAddr: [6]byte(b[2:]), Name: [16]byte(b[8:]),
		Config: be.Uint32(b[24:]), State: be.Uint32(b[28:]), Current: be.Uint32(b[32:]),
		Advertised: be.Uint32(b[36:]), Supported: be.Uint32(b[40:]), Peer: be.Uint32(b[44:])}
}

// Ports is a list of port descriptions as it stands on the wire, 48 bytes each.
type Ports []byte

// Len returns how many ports the list has.
func (p Ports) Len() int { return len(p) / portDescLen }

// All walks the list.
func (p Ports) All() iter.Seq[PortDesc] {
	return func(yield func(PortDesc) bool) {
		for ; len(p) >= portDescLen; p = p[portDescLen:] {
			var d PortDesc
			d.parse(p)
			if !yield(d) {
				return
			}
		}
	}
}

// With returns the list with d at its end.
func (p Ports) With(d PortDesc) Ports { return d.Append(p) }

// Bits of FeaturesReply.Capabilities (section 5.3.1).
const (
	CapFlowStats  uint32 = 1 << 0
	CapTableStats uint32 = 1 << 1
	CapPortStats  uint32 = 1 << 2
	CapSTP        uint32 = 1 << 3
	CapIPReasm    uint32 = 1 << 5
	CapQueueStats uint32 = 1 << 6
	CapARPMatchIP uint32 = 1 << 7
)

// FeaturesReply tells what a switch is, and its ports.
type FeaturesReply struct {
	DatapathID   openflow.DatapathID
	NBuffers     uint32
	NTables      uint8
	Capabilities uint32
	Actions      uint32 // bit i: the action of type i is supported
	Ports        Ports
}

const featuresReplyLen = 32

// Type returns TypeFeaturesReply.
func (*FeaturesReply) Type() uint8 { return TypeFeaturesReply }

// Append appends the message.
func (m *FeaturesReply) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint64(begin(dst, TypeFeaturesReply, xid), uint64(m.DatapathID))
	dst = be.AppendUint32(dst, m.NBuffers)
	dst = append(dst, m.NTables, 0, 0, 0)
	dst = be.AppendUint32(dst, m.Capabilities)
	dst = be.AppendUint32(dst, m.Actions)
	return end(append(dst, m.Ports...), n)
}

// Decode reads a FEATURES_REPLY.
func (m *FeaturesReply) Decode(msg []byte) error {
	if err := check(msg, TypeFeaturesReply, featuresReplyLen); err != nil {
		return err
	}
	*m = FeaturesReply{DatapathID: openflow.DatapathID(be.Uint64(msg[8:])), NBuffers: be.Uint32(msg[16:]),
		NTables:      msg[20],
		Capabilities: be.Uint32(msg[24:]), Actions: be.Uint32(msg[28:]), Ports: msg[featuresReplyLen:]}
	return checkList(msg, featuresReplyLen, portDescLen)
}

// Reasons of a PortStatus (section 5.4.3).
const (
	PortAdded    uint8 = 0
	PortDeleted  uint8 = 1
	PortModified uint8 = 2
)

// PortStatus tells that a port came, went or changed.
type PortStatus struct {
	Reason uint8
	Port   PortDesc
}

const portStatusLen = 64

// Type returns TypePortStatus.
func (*PortStatus) Type() uint8 { return TypePortStatus }

// Append appends the message.
func (m *PortStatus) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(begin(dst, TypePortStatus, xid), m.Reason, 0, 0, 0, 0, 0, 0, 0)
	return end(m.Port.Append(dst), n)
}

// Decode reads a PORT_STATUS.
func (m *PortStatus) Decode(msg []byte) error {
	if err := checkSize(msg, TypePortStatus, portStatusLen); err != nil {
		return err
	}
	m.Reason = msg[8]
	m.Port.parse(msg[16:])
	return nil
}

// PortMod changes how a port behaves (section 5.3.3).
type PortMod struct {
	Port         Port
	HWAddr       [6]byte // must be that of the port
	Config, Mask uint32  // Mask: the bits of Config to set
	Advertise    uint32  // 0: as it is
}

const portModLen = 32

// Type returns TypePortMod.
func (*PortMod) Type() uint8 { return TypePortMod }

// Append appends the message.
func (m *PortMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint16(begin(dst, TypePortMod, xid), uint16(m.Port))
	dst = append(dst, m.HWAddr[:]...)
	for _, v := range [...]uint32{m.Config, m.Mask, m.Advertise, 0} {
		dst = be.AppendUint32(dst, v)
	}
	return end(dst, n)
}

// Decode reads a PORT_MOD.
func (m *PortMod) Decode(msg []byte) error {
	if err := checkSize(msg, TypePortMod, portModLen); err != nil {
		return err
	}
	*m = PortMod{Port: Port(be.Uint16(msg[8:])), HWAddr: [6]byte(msg[10:]),
		Config: be.Uint32(msg[16:]), Mask: be.Uint32(msg[20:]), Advertise: be.Uint32(msg[24:])}
	return nil
}
