package of10

import "github.com/holdfast-sdn/holdfast/openflow"

// Hello opens a connection (section 5.5.1). Data is ignored by both sides.
type Hello struct{ Data []byte }

// EchoRequest asks for an EchoReply with the same data (section 5.5.2).
type EchoRequest struct{ Data []byte }

// EchoReply answers an EchoRequest (section 5.5.3).
type EchoReply struct{ Data []byte }

// BarrierRequest asks for a BarrierReply once everything before it is done (section 5.3.7).
type BarrierRequest struct{}

// BarrierReply answers a BarrierRequest.
type BarrierReply struct{}

// FeaturesRequest asks for a FeaturesReply (section 5.3.1).
type FeaturesRequest struct{}

// GetConfigRequest asks for a GetConfigReply (section 5.3.2).
type GetConfigRequest struct{}

// Vendor is a message of somebody's own (section 5.5.4). Data is what follows the id.
type Vendor struct {
	ID   uint32
	Data []byte
}

// Type returns TypeHello.
func (*Hello) Type() uint8 { return TypeHello }

// Type returns TypeEchoRequest.
func (*EchoRequest) Type() uint8 { return TypeEchoRequest }

// Type returns TypeEchoReply.
func (*EchoReply) Type() uint8 { return TypeEchoReply }

// Type returns TypeBarrierRequest.
func (*BarrierRequest) Type() uint8 { return TypeBarrierRequest }

// Type returns TypeBarrierReply.
func (*BarrierReply) Type() uint8 { return TypeBarrierReply }

// Type returns TypeFeaturesRequest.
func (*FeaturesRequest) Type() uint8 { return TypeFeaturesRequest }

// Type returns TypeGetConfigRequest.
func (*GetConfigRequest) Type() uint8 { return TypeGetConfigRequest }

// Type returns TypeVendor.
func (*Vendor) Type() uint8 { return TypeVendor }

func appendData(dst []byte, t uint8, xid uint32, data []byte) []byte {
	n := len(dst)
	return end(append(begin(dst, t, xid), data...), n)
}

func decodeData(msg []byte, t uint8) ([]byte, error) {
	if err := check(msg, t, openflow.HeaderLen); err != nil {
		return nil, err
	}
	return msg[openflow.HeaderLen:], nil
}

// Append appends the message.
func (m *Hello) Append(dst []byte, xid uint32) []byte { return appendData(dst, TypeHello, xid, m.Data) }

// Decode reads a HELLO.
func (m *Hello) Decode(msg []byte) (err error) {
	m.Data, err = decodeData(msg, TypeHello)
	return err
}

// Append appends the message.
func (m *EchoRequest) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeEchoRequest, xid, m.Data)
}

// Decode reads an ECHO_REQUEST.
func (m *EchoRequest) Decode(msg []byte) (err error) {
	m.Data, err = decodeData(msg, TypeEchoRequest)
	return err
}

// Append appends the message.
func (m *EchoReply) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeEchoReply, xid, m.Data)
}

// Decode reads an ECHO_REPLY.
func (m *EchoReply) Decode(msg []byte) (err error) {
	m.Data, err = decodeData(msg, TypeEchoReply)
	return err
}

// Append appends the message.
func (*BarrierRequest) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeBarrierRequest, xid, nil)
}

// Decode reads a BARRIER_REQUEST.
func (*BarrierRequest) Decode(msg []byte) error {
	return checkSize(msg, TypeBarrierRequest, openflow.HeaderLen)
}

// Append appends the message.
func (*BarrierReply) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeBarrierReply, xid, nil)
}

// Decode reads a BARRIER_REPLY.
func (*BarrierReply) Decode(msg []byte) error {
	return checkSize(msg, TypeBarrierReply, openflow.HeaderLen)
}

// Append appends the message.
func (*FeaturesRequest) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeFeaturesRequest, xid, nil)
}

// Decode reads a FEATURES_REQUEST.
func (*FeaturesRequest) Decode(msg []byte) error {
	return checkSize(msg, TypeFeaturesRequest, openflow.HeaderLen)
}

// Append appends the message.
func (*GetConfigRequest) Append(dst []byte, xid uint32) []byte {
	return appendData(dst, TypeGetConfigRequest, xid, nil)
}

// Decode reads a GET_CONFIG_REQUEST.
func (*GetConfigRequest) Decode(msg []byte) error {
	return checkSize(msg, TypeGetConfigRequest, openflow.HeaderLen)
}

// Append appends the message.
func (m *Vendor) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint32(begin(dst, TypeVendor, xid), m.ID)
	return end(append(dst, m.Data...), n)
}

// Decode reads a VENDOR.
func (m *Vendor) Decode(msg []byte) error {
	if err := check(msg, TypeVendor, 12); err != nil {
		return err
	}
	m.ID, m.Data = be.Uint32(msg[8:]), msg[12:]
	return nil
}

// GetConfigReply tells how a switch treats fragments and how much of a packet it sends
// (section 5.3.2). The low two bits of Flags are 0 normal, 1 drop, 2 reassemble.
type GetConfigReply struct {
	Flags       uint16
	MissSendLen uint16 // bytes
}

// SetConfig sets what GetConfigReply tells.
type SetConfig GetConfigReply

const configLen = 12

// Type returns TypeGetConfigReply.
func (*GetConfigReply) Type() uint8 { return TypeGetConfigReply }

// Type returns TypeSetConfig.
func (*SetConfig) Type() uint8 { return TypeSetConfig }

func (m *GetConfigReply) append(dst []byte, t uint8, xid uint32) []byte {
	n := len(dst)
	dst = be.AppendUint16(begin(dst, t, xid), m.Flags)
	return end(be.AppendUint16(dst, m.MissSendLen), n)
}

func (m *GetConfigReply) decode(msg []byte, t uint8) error {
	if err := checkSize(msg, t, configLen); err != nil {
		return err
	}
	m.Flags, m.MissSendLen = be.Uint16(msg[8:]), be.Uint16(msg[10:])
	return nil
}

// Append appends the message.
func (m *GetConfigReply) Append(dst []byte, xid uint32) []byte {
	return m.append(dst, TypeGetConfigReply, xid)
}

// Decode reads a GET_CONFIG_REPLY.
func (m *GetConfigReply) Decode(msg []byte) error { return m.decode(msg, TypeGetConfigReply) }

// Append appends the message.
func (m *SetConfig) Append(dst []byte, xid uint32) []byte {
	return (*GetConfigReply)(m).append(dst, TypeSetConfig, xid)
}

// Decode reads a SET_CONFIG.
func (m *SetConfig) Decode(msg []byte) error {
	return (*GetConfigReply)(m).decode(msg, TypeSetConfig)
}
