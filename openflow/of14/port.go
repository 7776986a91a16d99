package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// propEthernet is the property of ports that has what 1.3 has in the port itself.
const propEthernet uint16 = 0

// Lengths of a port and of its counters without their properties.
const (
	portLen      = 40
	portStatsLen = 80
)

// portToV13 appends the port that is the whole of msg[off:end], of which the first portLen bytes are there.
func portToV13(dst, msg []byte, off, end int) ([]byte, error) {
	n := len(dst)
	dst = append(dst, msg[off:off+portLen]...)
	clear(dst[n+4 : n+8]) // the length
	dst = pad(dst, 24)
	err := properties(msg, off+portLen, end, func(typ uint16, p []byte) {
		if typ == propEthernet && len(p) == 32 {
			copy(dst[n+portLen:], p[8:])
		}
	})
	return dst, err
}

func portStatusToV13(dst, msg []byte) ([]byte, error) {
	const portAt = 16
	size, err := sized(msg, min(portAt, len(msg)), len(msg), 4, portLen, "a port")
	switch {
	case err != nil:
		return dst, err
	case portAt+size != len(msg):
		return dst, fail(msg, portAt+size, openflow.BadLength, "%d bytes after the port", len(msg)-portAt-size)
	}
	n := len(dst)
	dst, err = portToV13(relabel(dst, msg[:portAt], of13.Version), msg, portAt, len(msg))
	if err != nil {
		return dst[:n], err
	}
	openflow.SetLength(dst[n:])
	return dst, nil
}

// portStatsToV13 appends the counters of a port. Those that are not there are all ones.
func portStatsToV13(dst, msg []byte, off, end int) ([]byte, error) {
	n := len(dst)
	dst = pad(append(dst, msg[off+4:off+8]...), 4)
	dst = append(dst, msg[off+16:off+portStatsLen]...)
	for range 4 {
		dst = be.AppendUint64(dst, 1<<64-1)
	}
	dst = append(dst, msg[off+8:off+16]...) // the duration
	err := properties(msg, off+portStatsLen, end, func(typ uint16, p []byte) {
		if typ == propEthernet && len(p) == 40 {
			copy(dst[n+72:], p[8:])
		}
	})
	return dst, err
}

// portModFromV13 says what to advertise in a property; without it nothing changes.
func portModFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	const fixed = 32
	var in of13.PortMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = relabel(dst, msg[:fixed], version)
	if in.Advertise != 0 {
		dst = be.AppendUint16(be.AppendUint16(dst, propEthernet), 8)
		dst = be.AppendUint32(dst, in.Advertise)
	}
	openflow.SetLength(dst[n:])
	return dst, nil
}
