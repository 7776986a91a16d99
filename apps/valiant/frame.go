package valiant

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	typeIPv4 = 0x0800
	ethLen   = 14
)

// matchFlow matches the flow of a frame: packets of TCP and UDP over IPv4 by addresses and ports, others by Ethernet
// addresses, type, and protocol of IPv4. It has no flow if it is too short, or says that it is IPv4 and is not.
func matchFlow(frame []byte) (m of13.Match, priority uint16, ok bool) {
	if len(frame) < ethLen {
		return nil, 0, false
	}
	ethType, ip := binary.BigEndian.Uint16(frame[12:]), frame[ethLen:]
	m = m.WithEthDst(app.MAC(frame[:6])).WithEthSrc(app.MAC(frame[6:12])).WithEthType(ethType)
	if ethType != typeIPv4 {
		return m, widePriority, true
	}
	if len(ip) < 20 || ip[0]>>4 != 4 || ip[0]&15 < 5 {
		return nil, 0, false
	}
	header, proto := int(ip[0]&15)*4, ip[9]
	m = m.WithIPProto(proto)
	src, dst := of13.FieldTCPSrc, of13.FieldTCPDst
	if proto == 17 {
		src, dst = of13.FieldUDPSrc, of13.FieldUDPDst
	}
	fragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0
	if proto != 6 && proto != 17 || fragment || len(ip) < header+4 {
		return m, widePriority, true
	}
	exact := [4]byte{255, 255, 255, 255}
	return m.WithIPv4Src([4]byte(ip[12:16]), exact).WithIPv4Dst([4]byte(ip[16:20]), exact).
		WithUint(src, uint64(binary.BigEndian.Uint16(ip[header:]))).WithUint(dst,
		uint64(binary.BigEndian.Uint16(ip[header+2:]))), flowPriority, true
}
