package topology

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	ethLen   = 14
	typeLLDP = 0x88cc
	tagLen   = 16

	tlvEnd          = 0
	tlvOrganisation = 127
	locallyAssigned = 7 // subtype of chassis and port: an operator's name
)

// nearestBridge is the address that no bridge forwards (IEEE 802.1AB, 7.1).
var nearestBridge = app.MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}

// seal begins our organisation-specific TLV: a locally administered identifier, which no vendor has, and a subtype. The
// sequence numbers of the port and of the probe, and the authentication code, follow.
var seal = []byte{0x02, 'h', 'f', 1}

var (
	errMalformed = errors.New("malformed LLDP")
	errForeign   = errors.New("LLDP of somebody else")
)

// probe is the content of an LLDP frame of ours.
type probe struct {
	from  app.PortOf
	since uint64 // see portRow.Since
	seq   uint64
	tag   [tagLen]byte
}

// sign returns the authentication code of a probe.
func (p probe) sign(key []byte) (tag [tagLen]byte) {
	said := binary.BigEndian.AppendUint64(nil, uint64(p.from.Switch))
	said = binary.BigEndian.AppendUint32(said, uint32(p.from.Port))
	said = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(said, p.since), p.seq)
	mac := hmac.New(sha256.New, key)
	mac.Write(said)
	copy(tag[:], mac.Sum(nil))
	return tag
}

// genuine reports whether the probe was made with the key.
func (p probe) genuine(key []byte) bool {
	want := p.sign(key)
	return len(key) > 0 && hmac.Equal(want[:], p.tag[:])
}

// appendProbe makes the frame of a probe, which it signs. Chassis and port are text, so that a host's LLDP tools can
// show them.
func appendProbe(dst, key []byte, hw app.MAC, p probe) []byte {
	dst = append(append(dst, nearestBridge[:]...), hw[:]...)
	dst = binary.BigEndian.AppendUint16(dst, typeLLDP)
	dst = appendTLV(dst, 1, append([]byte{locallyAssigned}, p.from.Switch.String()...))
	dst = appendTLV(dst, 2, strconv.AppendUint([]byte{locallyAssigned}, uint64(p.from.Port), 10))
	dst = appendTLV(dst, 3, binary.BigEndian.AppendUint16(nil, uint16(missedRounds*Interval/time.Second)))
	tag := p.sign(key)
	sealed := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(bytes.Clone(seal), p.since), p.seq)
	dst = appendTLV(dst, tlvOrganisation, append(sealed, tag[:]...))
	return appendTLV(dst, tlvEnd, nil)
}

func appendTLV(dst []byte, kind uint16, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, kind<<9|uint16(len(value))), value...)
}

func isLLDP(frame []byte) bool {
	return len(frame) >= ethLen && binary.BigEndian.Uint16(frame[12:]) == typeLLDP
}

// parseProbe reads an LLDP frame. The error is errForeign for a valid one that is not ours, else it wraps errMalformed.
func parseProbe(frame []byte) (p probe, err error) {
	if !isLLDP(frame) {
		return p, fmt.Errorf("%w: not LLDP at all", errMalformed)
	}
	var chassis, port, sealed []byte
	rest := frame[ethLen:]
	for i := uint16(1); ; i++ {
		kind, value, after, ok := nextTLV(rest)
		switch {
		case !ok:
			return p, fmt.Errorf("%w: TLV %d ends within", errMalformed, i)
		case (i <= 3 || kind <= 3) && kind != i && kind != tlvEnd, i <= 3 && kind == tlvEnd:
			return p, fmt.Errorf("%w: TLV %d has type %d", errMalformed, i, kind)
		}
		rest = after
		switch {
		case kind == 1:
			chassis = value
		case kind == 2:
			port = value
		case kind == tlvOrganisation && bytes.HasPrefix(value, seal):
			if sealed != nil || len(value) != len(seal)+16+tagLen {
				return p, fmt.Errorf("%w: seal of %d bytes", errMalformed, len(value))
			}
			sealed = value[len(seal):]
		}
		if kind == tlvEnd {
			break
		}
	}
	if sealed == nil {
		return p, errForeign
	}
	p.since, p.seq = binary.BigEndian.Uint64(sealed), binary.BigEndian.Uint64(sealed[8:])
	copy(p.tag[:], sealed[16:])
	p.from, err = parseNames(chassis, port)
	return p, err
}

func nextTLV(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < 2 {
		return 0, nil, nil, false
	}
	head := binary.BigEndian.Uint16(b)
	kind, n := head>>9, int(head&0x1ff)
	if b = b[2:]; len(b) < n {
		return 0, nil, nil, false
	}
	return kind, b[:n], b[n:], true
}

func parseNames(chassis, port []byte) (from app.PortOf, err error) {
	if len(chassis) != 17 || len(port) < 2 || chassis[0] != locallyAssigned || port[0] != locallyAssigned {
		return from, fmt.Errorf("%w: chassis %x and port %x", errMalformed, chassis, port)
	}
	id, err1 := strconv.ParseUint(string(chassis[1:]), 16, 64)
	n, err2 := strconv.ParseUint(string(port[1:]), 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return from, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return app.PortOf{Switch: app.Switch(id), Port: app.Port(n)}, nil
}
