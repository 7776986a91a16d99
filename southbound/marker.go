package southbound

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A marker is a flow entry in the last table of a stock switch that tells which commands the switch has
// executed: it is replaced in the bundle that has them. No packet gets there, and no packet is like it. Its
// match holds the epoch, its cookie the term and the sequence of the last command.
type marker struct{ epoch, term, seq uint64 }

// Layout of the cookie: 8 bits that say marker, 16 of term, 40 of sequence.
const (
	termShift           = 40
	sequenceMask uint64 = 1<<termShift - 1
	markerTerm          = 0xffff
)

// markerSource begins the Ethernet source address that a marker matches; two bytes of epoch follow.
var (
	markerSource     = of13.MAC{0x02, 'H', 'F', 'M'}
	markerSourceMask = of13.MAC{0xff, 0xff, 0xff, 0xff}
)

func (m marker) cookie() uint64 {
	return experimenter.MarkerCookie | m.term&markerTerm<<termShift | m.seq&sequenceMask
}

func (m marker) match() of13.Match {
	var epoch [8]byte
	binary.BigEndian.PutUint64(epoch[:], m.epoch)
	src, dst := markerSource, of13.MAC{}
	copy(src[4:], epoch[:2])
	copy(dst[:], epoch[2:])
	return of13.Match(nil).WithEthDst(dst).WithEthSrc(src)
}

// mod is the flow-mod that sets the marker.
func (m marker) mod(table uint8) *of13.FlowMod {
	return &of13.FlowMod{TableID: table, Command: of13.FlowAdd, Cookie: m.cookie(), Match: m.match(),
		BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
}

// forget is the flow-mod that removes all markers.
func forget(table uint8) *of13.FlowMod {
	return &of13.FlowMod{TableID: table, Command: of13.FlowDelete, Cookie: experimenter.MarkerCookie,
		CookieMask: experimenter.MarkerMask,
		Match:      of13.Match(nil).WithEthSrcMasked(markerSource, markerSourceMask),
		BufferID:   of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
}

// askMarkers is the request for all markers.
func askMarkers(table uint8) *of13.MultipartRequest {
	r := of13.FlowStatsRequest{TableID: table, OutPort: of13.PortAny, OutGroup: of13.GroupAny,
		Cookie: experimenter.MarkerCookie, CookieMask: experimenter.MarkerMask}
	return &of13.MultipartRequest{Part: of13.PartFlow, Body: r.AppendTo(nil)}
}

// markerOf reads a marker from the statistics of a flow entry.
func markerOf(s of13.FlowStats) (m marker, ok bool) {
	src, has := s.Match.Get(of13.FieldEthSrc)
	dst, hasToo := s.Match.Get(of13.FieldEthDst)
	if !experimenter.IsMarker(s.Cookie) || !has || !hasToo || len(src.Value) != 6 || len(dst.Value) != 6 ||
		!bytes.HasPrefix(src.Value, markerSource[:4]) {
		return m, false
	}
	epoch := append(bytes.Clone(src.Value[4:]), dst.Value...)
	return marker{binary.BigEndian.Uint64(epoch), s.Cookie >> termShift & markerTerm, s.Cookie & sequenceMask}, true
}

// A mark (experimenter.SyncMarker) comes from the switch as a packet-in of this packet, which only a controller can
// have had it send: the ingress port says so.
var markPacket = append([]byte{0x02, 'H', 'F', 'M', 'R', 'K', 0x02, 'H', 'F', 'M', 'R', 'K', 0x88, 0xb5},
	"Holdfast mark"...)

const markPacketLen = 60

// markOut is the packet-out by which the switch sends a mark to all controllers.
func markOut(m experimenter.SyncMarker) *of13.PacketOut {
	data := binary.BigEndian.AppendUint64(bytes.Clone(markPacket), m.Generation)
	data = binary.BigEndian.AppendUint64(data, m.Number)
	data = append(data, make([]byte, markPacketLen-len(data))...)
	return &of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: data,
		Actions: of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)}
}

// markIn reads a mark from a packet-in.
func markIn(msg []byte) (m experimenter.SyncMarker, ok bool) {
	if msg[1] != of13.TypePacketIn || len(msg) < openflow.HeaderLen+markPacketLen || !bytes.Contains(msg, markPacket) {
		return m, false
	}
	var in of13.PacketIn
	if in.Decode(msg) != nil || len(in.Data) != markPacketLen || !bytes.HasPrefix(in.Data, markPacket) {
		return m, false
	}
	if port, ok := in.Match.InPort(); !ok || port != of13.PortController {
		return m, false
	}
	rest := in.Data[len(markPacket):]
	return experimenter.SyncMarker{Generation: binary.BigEndian.Uint64(rest),
		Number: binary.BigEndian.Uint64(rest[8:])}, true
}
