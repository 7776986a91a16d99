package valiant

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	typeIPv4 = 0x0800
	typeLLDP = 0x88cc
	ethLen   = 14
)

// probeHead is the beginning of a probe: an LLDP frame (IEEE 802.1AB) to the nearest bridge, from an address of no
// vendor. Chassis and port are of the subtype that only the sender understands: here the datapath id
// and the number of the port.
var probeHead = []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x02, 'h', 'o', 'l', 'd', 'f', 0x88, 0xcc, 1 << 1, 9, 7}

var (
	probePort = []byte{2 << 1, 5, 7}
	probeEnd  = []byte{3 << 1, 2, 0, 120, 0, 0} // time to live, end
)

const probeLen = 17 + 8 + 3 + 4 + 6

func appendProbe(dst []byte, from app.PortOf) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, probeHead...), uint64(from.Switch))
	dst = binary.BigEndian.AppendUint32(append(dst, probePort...), uint32(from.Port))
	return append(dst, probeEnd...)
}

// parseProbe tells from where a probe comes; it may be padded.
func parseProbe(frame []byte) (from app.PortOf, ok bool) {
	if len(frame) < probeLen || !bytes.HasPrefix(frame, probeHead) || !bytes.Equal(frame[25:28], probePort) {
		return from, false
	}
	return app.PortOf{Switch: app.Switch(binary.BigEndian.Uint64(frame[17:])),
		Port: app.Port(binary.BigEndian.Uint32(frame[28:]))}, true
}

// matchFlow matches the flow of a frame: packets of TCP and UDP over IPv4 by addresses and ports, others by
// Ethernet addresses and type.
func matchFlow(frame []byte) of13.Match {
	if len(frame) < ethLen {
		return nil
	}
	ethType := binary.BigEndian.Uint16(frame[12:])
	m := of13.Match(nil).WithEthDst(app.MAC(frame[:6])).WithEthSrc(app.MAC(frame[6:12])).WithEthType(ethType)
	ip := frame[ethLen:]
	if ethType != typeIPv4 || len(ip) < 20 || ip[0]>>4 != 4 {
		return m
	}
	header, proto := int(ip[0]&15)*4, ip[9]
	src, dst := of13.FieldTCPSrc, of13.FieldTCPDst
	if proto == 17 {
		src, dst = of13.FieldUDPSrc, of13.FieldUDPDst
	}
	fragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0
	if proto != 6 && proto != 17 || fragment || header < 20 || len(ip) < header+4 {
		return m
	}
	exact := [4]byte{255, 255, 255, 255}
	return m.WithIPProto(proto).WithIPv4Src([4]byte(ip[12:16]), exact).WithIPv4Dst([4]byte(ip[16:20]), exact).
		WithUint(src, uint64(binary.BigEndian.Uint16(ip[header:]))).WithUint(dst,
		uint64(binary.BigEndian.Uint16(ip[header+2:])))
}
