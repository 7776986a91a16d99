package of13

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Port is the number of a port of a switch, or one of the reserved ports.
type Port uint32

// The reserved ports (section 7.2.1).
const (
	PortMax        Port = 0xffffff00 // the highest number of a real port
	PortInPort     Port = 0xfffffff8
	PortTable      Port = 0xfffffff9
	PortNormal     Port = 0xfffffffa
	PortFlood      Port = 0xfffffffb
	PortAll        Port = 0xfffffffc
	PortController Port = 0xfffffffd
	PortLocal      Port = 0xfffffffe
	PortAny        Port = 0xffffffff
)

var portNames = [...]string{"IN_PORT", "TABLE", "NORMAL", "FLOOD", "ALL", "CONTROLLER", "LOCAL", "ANY"}

func (p Port) String() string {
	if p >= PortInPort {
		return portNames[p-PortInPort]
	}
	return fmt.Sprint(uint32(p))
}

// Bits of PortDesc.Config and PortMod.Config.
const (
	PortConfigDown       uint32 = 1 << 0
	PortConfigNoRecv     uint32 = 1 << 2
	PortConfigNoFwd      uint32 = 1 << 5
	PortConfigNoPacketIn uint32 = 1 << 6
)

// Bits of PortDesc.State.
const (
	PortStateLinkDown uint32 = 1 << 0
	PortStateBlocked  uint32 = 1 << 1
	PortStateLive     uint32 = 1 << 2
)

// Bits of the features of a port.
const (
	Port10MbHD uint32 = 1 << iota
	Port10MbFD
	Port100MbHD
	Port100MbFD
	Port1GbHD
	Port1GbFD
	Port10GbFD
	Port40GbFD
	Port100GbFD
	Port1TbFD
	PortOther
	PortCopper
	PortFiber
	PortAutoNeg
	PortPause
	PortPauseAsym
)

// PortDesc describes a port (section 7.2.1).
type PortDesc struct {
	Port       Port
	HwAddr     MAC
	Name       string // at most 15 bytes
	Config     uint32 // set by the controller: PortConfig bits
	State      uint32 // detected by the switch: PortState bits
	Curr       uint32 // features in use
	Advertised uint32
	Supported  uint32
	Peer       uint32
	CurrSpeed  uint32 // kbit/s
	MaxSpeed   uint32 // kbit/s
}

// Up reports whether the port has a link and is not configured down.
func (p PortDesc) Up() bool { return p.Config&PortConfigDown == 0 && p.State&PortStateLinkDown == 0 }

const portDescLen = 64

func (PortDesc) shape() shape                 { return shape{name: "port", least: portDescLen, lenAt: fixed} }
func (PortDesc) check([]byte, int, int) error { return nil }

func (PortDesc) parse(b []byte) PortDesc {
	u := func(i int) uint32 { return u32(b[i:]) }
	return PortDesc{Port(u(0)), MAC(b[8:14]), cString(b[16:32]), u(32), u(36), u(40), u(44), u(48), u(52), u(56), u(60)}
}

// AppendTo appends the description as it is on the wire.
func (p PortDesc) AppendTo(dst []byte) []byte {
	dst = pad(put32(dst, uint32(p.Port)), 4)
	dst = pad(append(dst, p.HwAddr[:]...), 2)
	dst = putString(dst, p.Name, 16)
	for _, v := range [...]uint32{p.Config, p.State, p.Curr, p.Advertised, p.Supported, p.Peer, p.CurrSpeed,
		p.MaxSpeed} {
		dst = put32(dst, v)
	}
	return dst
}

// Reasons of a port-status (section 7.4.3).
const (
	PortAdd uint8 = iota
	PortDelete
	PortModify
)

// PortStatus reports that a port was added, removed or changed (section 7.4.3).
type PortStatus struct {
	Reason uint8
	Port   PortDesc
}

// Type returns TypePortStatus.
func (*PortStatus) Type() uint8 { return TypePortStatus }

// Append appends the message.
func (m *PortStatus) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = pad(append(begin(dst, TypePortStatus, xid), m.Reason), 7)
	return end(m.Port.AppendTo(dst), n)
}

// Decode reads a PORT_STATUS.
func (m *PortStatus) Decode(msg []byte) error {
	if err := openExact(msg, TypePortStatus, 16+portDescLen); err != nil {
		return err
	}
	*m = PortStatus{msg[8], PortDesc{}.parse(msg[16:])}
	return nil
}

// String returns the message in one line.
func (m *PortStatus) String() string {
	return fmt.Sprintf("PORT_STATUS %s port=%v(%s) hw_addr=%v config=%#x state=%#x",
		nameOf([]string{"add", "delete", "modify"}, uint32(m.Reason)), m.Port.Port, m.Port.Name, m.Port.HwAddr,
		m.Port.Config, m.Port.State)
}

// PortMod configures a port (section 7.3.4.3).
type PortMod struct {
	Port      Port
	HwAddr    MAC    // must be that of the port
	Config    uint32 // PortConfig bits; Mask selects those that change
	Mask      uint32
	Advertise uint32 // features to advertise; 0 changes nothing
}

// Type returns TypePortMod.
func (*PortMod) Type() uint8 { return TypePortMod }

// Append appends the message.
func (m *PortMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = pad(put32(begin(dst, TypePortMod, xid), uint32(m.Port)), 4)
	dst = pad(append(dst, m.HwAddr[:]...), 2)
	dst = put32(put32(put32(dst, m.Config), m.Mask), m.Advertise)
	return end(pad(dst, 4), n)
}

// Decode reads a PORT_MOD.
func (m *PortMod) Decode(msg []byte) error {
	if err := openExact(msg, TypePortMod, openflow.HeaderLen+32); err != nil {
		return err
	}
	*m = PortMod{Port(u32(msg[8:])), MAC(msg[16:22]), u32(msg[24:]), u32(msg[28:]), u32(msg[32:])}
	return nil
}
