package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Version is the protocol version of RFC 5880.
const Version = 1

// PacketLen is the length of a control packet without authentication.
const PacketLen = 24

// MaxInterval is the longest interval that a packet can express: 32 bits of microseconds.
const MaxInterval = (1<<32 - 1) * time.Microsecond

// ErrInvalid is wrapped by every error about a packet that has to be dropped (6.8.6).
var ErrInvalid = errors.New("invalid BFD control packet")

// State is the state of a session (4.1).
type State uint8

// The states.
const (
	AdminDown State = iota
	Down
	Init
	Up
)

// String implements fmt.Stringer, in the words of Open vSwitch.
func (s State) String() string {
	switch s {
	case AdminDown:
		return "admin_down"
	case Down:
		return "down"
	case Init:
		return "init"
	case Up:
		return "up"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Diag is why a session last left a state (4.1).
type Diag uint8

// The diagnostics that this package sets. A peer may send others.
const (
	DiagNone         Diag = 0
	DiagExpired      Diag = 1 // no packet for the detection time
	DiagNeighborDown Diag = 3 // the peer reports that it is down
	DiagAdminDown    Diag = 7
)

// String implements fmt.Stringer.
func (d Diag) String() string {
	if int(d) < len(diagNames) {
		return diagNames[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

var diagNames = [...]string{
	"no diagnostic", "control detection time expired", "echo function failed", "neighbor signaled session down",
	"forwarding plane reset", "path down", "concatenated path down", "administratively down",
	"reverse concatenated path down",
}

// Packet is a control packet (4.1). Intervals are whole microseconds, up to MaxInterval.
type Packet struct {
	Diag              Diag
	State             State
	Poll, Final       bool
	Independent       bool // of the control plane
	Demand            bool
	Multiplier        uint8
	MyDiscriminator   uint32
	YourDiscriminator uint32 // 0: not known yet
	DesiredMinTx      time.Duration
	RequiredMinRx     time.Duration
	RequiredMinEchoRx time.Duration
}

// Bits of the second byte, below the state.
const (
	bitPoll = 1 << (5 - iota)
	bitFinal
	bitIndependent
	bitAuth
	bitDemand
	bitMultipoint
)

// Append appends the packet to b.
func (p Packet) Append(b []byte) []byte {
	flags := byte(p.State) << 6
	for _, f := range []struct {
		set bool
		bit byte
	}{{p.Poll, bitPoll}, {p.Final, bitFinal}, {p.Independent, bitIndependent}, {p.Demand, bitDemand}} {
		if f.set {
			flags |= f.bit
		}
	}
	b = append(b, Version<<5|byte(p.Diag)&0x1f, flags, p.Multiplier, PacketLen)
	b = binary.BigEndian.AppendUint32(b, p.MyDiscriminator)
	b = binary.BigEndian.AppendUint32(b, p.YourDiscriminator)
	b = binary.BigEndian.AppendUint32(b, micros(p.DesiredMinTx))
	b = binary.BigEndian.AppendUint32(b, micros(p.RequiredMinRx))
	return binary.BigEndian.AppendUint32(b, micros(p.RequiredMinEchoRx))
}

func micros(d time.Duration) uint32 {
	return uint32(min(max(d, 0), MaxInterval) / time.Microsecond)
}

// Decode reads a control packet, and does all checks of 6.8.6 that need no session. Bytes after the packet are ignored.
func Decode(b []byte) (Packet, error) {
	if len(b) < PacketLen {
		return Packet{}, fmt.Errorf("%w: %d bytes, fewer than %d", ErrInvalid, len(b), PacketLen)
	}
	p := Packet{
		Diag: Diag(b[0] & 0x1f), State: State(b[1] >> 6),
		Poll: b[1]&bitPoll != 0, Final: b[1]&bitFinal != 0, Independent: b[1]&bitIndependent != 0,
		Demand:            b[1]&bitDemand != 0,
		Multiplier:        b[2],
		MyDiscriminator:   binary.BigEndian.Uint32(b[4:]),
		YourDiscriminator: binary.BigEndian.Uint32(b[8:]),
		DesiredMinTx:      interval(b[12:]), RequiredMinRx: interval(b[16:]), RequiredMinEchoRx: interval(b[20:]),
	}
	switch version, length := b[0]>>5, int(b[3]); {
	case version != Version:
		return Packet{}, fmt.Errorf("%w: version %d", ErrInvalid, version)
	case length < PacketLen || length > len(b):
		return Packet{}, fmt.Errorf("%w: length %d in %d bytes", ErrInvalid, length, len(b))
	case p.Multiplier == 0:
		return Packet{}, fmt.Errorf("%w: detection multiplier 0", ErrInvalid)
	case b[1]&bitMultipoint != 0:
		return Packet{}, fmt.Errorf("%w: multipoint", ErrInvalid)
	case p.MyDiscriminator == 0:
		return Packet{}, fmt.Errorf("%w: its discriminator is 0", ErrInvalid)
	case p.YourDiscriminator == 0 && p.State != Down && p.State != AdminDown:
		return Packet{}, fmt.Errorf("%w: %v without our discriminator", ErrInvalid, p.State)
	case b[1]&bitAuth != 0:
		return Packet{}, fmt.Errorf("%w: authentication is not supported", ErrInvalid)
	}
	return p, nil
}

func interval(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Microsecond
}
