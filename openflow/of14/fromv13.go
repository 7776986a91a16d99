package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// FromV13 appends the form that msg, one whole 1.3 message to a switch, has in OpenFlow 1.4 or 1.5, with the
// same xid. version is openflow.Version14 or Version15. Messages about bundles, which 1.3 has by an extension (see
// of13.BundleControl), become those of the later versions, and so do the messages in them. What cannot be said is an
// *openflow.Error of kind Unsupported; dst is then returned as it was. That is little: what does not fit the
// later form's length, and what only a switch sends.
//
// Entries have no importance, and buckets are numbered from 0 in their order. Who wants packets that an action
// sent, by SET_ASYNC, gets those of all the reasons that say so.
func FromV13(dst, msg []byte, version uint8) ([]byte, error) {
	h, err := openflow.ParseHeader(msg)
	switch {
	case err != nil:
		return dst, err
	case h.Version != of13.Version:
		return dst, fail(msg, 0, openflow.Unknown, "version %d, OpenFlow 1.3 is %d", h.Version, of13.Version)
	case version != openflow.Version14 && version != openflow.Version15:
		return dst, fail(msg, 0, openflow.Unknown, "version %d is neither OpenFlow 1.4 nor 1.5", version)
	}
	switch h.Type {
	case of13.TypeFlowMod:
		return flowModFromV13(dst, msg, version)
	case of13.TypePacketOut:
		return packetOutFromV13(dst, msg, version)
	case of13.TypeGroupMod:
		return groupModFromV13(dst, msg, version)
	case of13.TypePortMod:
		return portModFromV13(dst, msg, version)
	case of13.TypeMultipartRequest:
		return requestFromV13(dst, msg, version)
	case of13.TypeQueueGetConfigRequest:
		return queueConfigFromV13(dst, msg, version)
	case of13.TypeRoleRequest:
		return roleFromV13(dst, msg, version)
	case of13.TypeSetAsync:
		return asyncFromV13(dst, msg, version)
	case openflow.TypeExperimenter:
		return experimenterFromV13(dst, msg, version)
	case openflow.TypeEchoRequest, openflow.TypeEchoReply, of13.TypeBarrierRequest, of13.TypeFeaturesRequest,
		of13.TypeGetConfigRequest, of13.TypeSetConfig, of13.TypeTableMod, of13.TypeMeterMod, of13.TypeGetAsyncRequest:
		if _, err := of13.Decode(msg); err != nil {
			return dst, err
		}
		return relabel(dst, msg, version), nil
	}
	return dst, unsupported(msg, 1, "%s to a switch", of13.TypeName(h.Type))
}

// packetOutFromV13: the ingress port of 1.3 is a match in 1.5.
func packetOutFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	const growth = 8
	var in of13.PacketOut
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	if version == openflow.Version14 {
		return relabel(dst, msg, version), nil
	}
	if len(msg)+growth > openflow.MaxMessageLen {
		return dst, unsupported(msg, 24, "a packet-out of this size")
	}
	n := len(dst)
	dst = openflow.AppendHeader(dst, version, of13.TypePacketOut, openflow.XID(msg))
	dst = pad(be.AppendUint16(be.AppendUint32(dst, in.BufferID), uint16(len(in.Actions))), 2)
	dst = append(dst, 0, 1, 0, 12, 0x80, 0, byte(of13.FieldInPort)<<1, 4) // a match with one field
	dst = pad(be.AppendUint32(dst, uint32(in.InPort)), 4)
	dst = append(append(dst, in.Actions...), in.Data...)
	openflow.SetLength(dst[n:])
	return dst, nil
}

// roleFromV13 clears what is padding in 1.3, and the short id of the controller in 1.5: none.
func roleFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	if err := new(of13.RoleRequest).Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = relabel(dst, msg, version)
	clear(dst[n+12 : n+16])
	return dst, nil
}

// requestFromV13: 1.5 names a port or group where 1.3 asks for all.
func requestFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	var in of13.MultipartRequest
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = relabel(dst, msg, version)
	if version == openflow.Version15 {
		switch in.Part {
		case of13.PartPortDesc:
			dst = pad(be.AppendUint32(dst, uint32(of13.PortAny)), 4)
		case of13.PartGroupDesc:
			dst = pad(be.AppendUint32(dst, of13.GroupAll), 4)
		}
		openflow.SetLength(dst[n:])
	}
	return dst, nil
}

// queueConfigFromV13: what is a message of its own in 1.3 is a multipart request later.
func queueConfigFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	var in of13.QueueGetConfigRequest
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = openflow.AppendHeader(dst, version, of13.TypeMultipartRequest, openflow.XID(msg))
	dst = pad(be.AppendUint16(dst, uint16(partQueueDesc)), 6)
	dst = be.AppendUint32(be.AppendUint32(dst, uint32(in.Port)), of13.QueueAll)
	openflow.SetLength(dst[n:])
	return dst, nil
}
