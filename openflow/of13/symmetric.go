package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// The messages that consist of a header only.
type (
	// BarrierRequest asks the switch to finish everything before it (section 7.3.8).
	BarrierRequest struct{}
	// BarrierReply reports that this has happened.
	BarrierReply struct{}
	// FeaturesRequest asks for a FeaturesReply (section 7.3.1).
	FeaturesRequest struct{}
	// GetConfigRequest asks for a GetConfigReply (section 7.3.2).
	GetConfigRequest struct{}
	// GetAsyncRequest asks for a GetAsyncReply (section 7.3.10).
	GetAsyncRequest struct{}
)

// Type returns TypeBarrierRequest.
func (*BarrierRequest) Type() uint8 { return TypeBarrierRequest }

// Decode reads a BARRIER_REQUEST.
func (*BarrierRequest) Decode(msg []byte) error { return openExact(msg, TypeBarrierRequest, 8) }

// Append appends the message.
func (*BarrierRequest) Append(dst []byte, xid uint32) []byte {
	return bare(dst, TypeBarrierRequest, xid)
}

// Type returns TypeBarrierReply.
func (*BarrierReply) Type() uint8 { return TypeBarrierReply }

// Decode reads a BARRIER_REPLY.
func (*BarrierReply) Decode(msg []byte) error { return openExact(msg, TypeBarrierReply, 8) }

// Append appends the message.
func (*BarrierReply) Append(dst []byte, xid uint32) []byte {
	return bare(dst, TypeBarrierReply, xid)
}

// Type returns TypeFeaturesRequest.
func (*FeaturesRequest) Type() uint8 { return TypeFeaturesRequest }

// Decode reads a FEATURES_REQUEST.
func (*FeaturesRequest) Decode(msg []byte) error { return openExact(msg, TypeFeaturesRequest, 8) }

// Append appends the message.
func (*FeaturesRequest) Append(dst []byte, xid uint32) []byte {
	return bare(dst, TypeFeaturesRequest, xid)
}

// Type returns TypeGetConfigRequest.
func (*GetConfigRequest) Type() uint8 { return TypeGetConfigRequest }

// Decode reads a GET_CONFIG_REQUEST.
func (*GetConfigRequest) Decode(msg []byte) error { return openExact(msg, TypeGetConfigRequest, 8) }

// Append appends the message.
func (*GetConfigRequest) Append(dst []byte, xid uint32) []byte {
	return bare(dst, TypeGetConfigRequest, xid)
}

// Type returns TypeGetAsyncRequest.
func (*GetAsyncRequest) Type() uint8 { return TypeGetAsyncRequest }

// Decode reads a GET_ASYNC_REQUEST.
func (*GetAsyncRequest) Decode(msg []byte) error { return openExact(msg, TypeGetAsyncRequest, 8) }

// Append appends the message.
func (*GetAsyncRequest) Append(dst []byte, xid uint32) []byte {
	return bare(dst, TypeGetAsyncRequest, xid)
}

// bare appends a message that is only a header.
func bare(dst []byte, t uint8, xid uint32) []byte {
	n := len(dst)
	return end(begin(dst, t, xid), n)
}

// EchoRequest asks for an EchoReply with the same data (section 7.5.2).
type EchoRequest struct{ Data []byte }

// Type returns TypeEchoRequest.
func (*EchoRequest) Type() uint8 { return TypeEchoRequest }

// Append appends the message.
func (m *EchoRequest) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	return end(append(begin(dst, TypeEchoRequest, xid), m.Data...), n)
}

// Decode reads an ECHO_REQUEST.
func (m *EchoRequest) Decode(msg []byte) error {
	if err := open(msg, TypeEchoRequest, openflow.HeaderLen); err != nil {
		return err
	}
	m.Data = msg[openflow.HeaderLen:]
	return nil
}

// EchoReply answers an EchoRequest (section 7.5.3).
type EchoReply struct{ Data []byte }

// Type returns TypeEchoReply.
func (*EchoReply) Type() uint8 { return TypeEchoReply }

// Append appends the message.
func (m *EchoReply) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	return end(append(begin(dst, TypeEchoReply, xid), m.Data...), n)
}

// Decode reads an ECHO_REPLY.
func (m *EchoReply) Decode(msg []byte) error {
	if err := open(msg, TypeEchoReply, openflow.HeaderLen); err != nil {
		return err
	}
	m.Data = msg[openflow.HeaderLen:]
	return nil
}

// Experimenter is a message that an experimenter defines (section 7.5.4).
type Experimenter struct {
	ID      uint32
	ExpType uint32
	Data    []byte
}

// Type returns TypeExperimenter.
func (*Experimenter) Type() uint8 { return TypeExperimenter }

// Append appends the message.
func (m *Experimenter) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = begin(dst, TypeExperimenter, xid)
	dst = put32(put32(dst, m.ID), m.ExpType)
	return end(append(dst, m.Data...), n)
}

// Decode reads an EXPERIMENTER.
func (m *Experimenter) Decode(msg []byte) error {
	if err := open(msg, TypeExperimenter, 16); err != nil {
		return err
	}
	*m = Experimenter{u32(msg[8:]), u32(msg[12:]), msg[16:]}
	return nil
}
