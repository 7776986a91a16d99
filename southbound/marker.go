package southbound

import (
	"bytes"
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// A marker is a flow entry in the last table of a switch without an agent. It shows which commands the switch has
// executed, because each bundle replaces it. No packet reaches that table, and no packet matches the entry. Its match
// contains the epoch, and its cookie the sequence of the last command.
//
// It needs neither term nor group. The epochs of a switch only grow, and the sequence continues within an epoch,
// whichever controller leads. The role, with its generation_id, prevents all but the newest master from writing it.
type marker struct{ epoch, seq uint64 }

// sequenceMask is the part of the cookie that contains the sequence. The byte above it identifies a marker.
const sequenceMask = ^experimenter.MarkerMask

// markerSource begins the Ethernet source address that a marker matches; two bytes of epoch follow.
var (
	markerSource     = of13.MAC{0x02, 'H', 'F', 'M'}
	markerSourceMask = of13.MAC{0xff, 0xff, 0xff, 0xff}
)

func (m marker) cookie() uint64 {
	return experimenter.MarkerCookie | m.seq&sequenceMask
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
	return marker{binary.BigEndian.Uint64(epoch), s.Cookie & sequenceMask}, true
}

// A sync marker (experimenter.SyncMarker) arrives from the switch as a packet-in with this packet. Its ingress port is
// CONTROLLER, so only a controller can have sent it.
var syncPacket = append([]byte{0x02, 'H', 'F', 'M', 'R', 'K', 0x02, 'H', 'F', 'M', 'R', 'K', 0x88, 0xb5},
	"Holdfast sync"...)

const syncPacketLen = 60

// syncMarkerOut returns the packet-out by which the switch sends a sync marker to all controllers.
func syncMarkerOut(m experimenter.SyncMarker) *of13.PacketOut {
	data := binary.BigEndian.AppendUint64(bytes.Clone(syncPacket), m.Generation)
	data = binary.BigEndian.AppendUint64(data, m.Number)
	data = append(data, make([]byte, syncPacketLen-len(data))...)
	return &of13.PacketOut{BufferID: of13.NoBuffer, InPort: of13.PortController, Data: data,
		Actions: of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer)}
}

// syncMarkerIn reads a sync marker from a packet-in.
func syncMarkerIn(msg []byte) (m experimenter.SyncMarker, ok bool) {
	if msg[1] != of13.TypePacketIn || len(msg) < openflow.HeaderLen+syncPacketLen || !bytes.Contains(msg, syncPacket) {
		return m, false
	}
	var in of13.PacketIn
	if in.Decode(msg) != nil || len(in.Data) != syncPacketLen || !bytes.HasPrefix(in.Data, syncPacket) {
		return m, false
	}
	if port, ok := in.Match.InPort(); !ok || port != of13.PortController {
		return m, false
	}
	rest := in.Data[len(syncPacket):]
	return experimenter.SyncMarker{Generation: binary.BigEndian.Uint64(rest),
		Number: binary.BigEndian.Uint64(rest[8:])}, true
}
