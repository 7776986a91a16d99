package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// Capabilities of a switch (section 7.3.1).
const (
	CapFlowStats   uint32 = 1 << 0
	CapTableStats  uint32 = 1 << 1
	CapPortStats   uint32 = 1 << 2
	CapGroupStats  uint32 = 1 << 3
	CapIPReasm     uint32 = 1 << 5
	CapQueueStats  uint32 = 1 << 6
	CapPortBlocked uint32 = 1 << 8
)

// FeaturesReply identifies the switch (section 7.3.1).
type FeaturesReply struct {
	DatapathID   openflow.DatapathID
	NBuffers     uint32 // packets that it can buffer
	NTables      uint8
	AuxID        uint8 // 0 on the main connection
	Capabilities uint32
}

// Type returns TypeFeaturesReply.
func (*FeaturesReply) Type() uint8 { return TypeFeaturesReply }

// Append appends the message.
func (m *FeaturesReply) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = begin(dst, TypeFeaturesReply, xid)
	dst = put32(put64(dst, uint64(m.DatapathID)), m.NBuffers)
	dst = append(dst, m.NTables, m.AuxID, 0, 0)
	dst = put32(dst, m.Capabilities)
	return end(pad(dst, 4), n)
}

// Decode reads a FEATURES_REPLY.
func (m *FeaturesReply) Decode(msg []byte) error {
	if err := openExact(msg, TypeFeaturesReply, 32); err != nil {
		return err
	}
	*m = FeaturesReply{openflow.DatapathID(u64(msg[8:])), u32(msg[16:]), msg[20], msg[21], u32(msg[24:])}
	return nil
}

// What a switch does with IP fragments: the flags of Config (section 7.3.2).
const (
	FragNormal uint16 = 0
	FragDrop   uint16 = 1
	FragReasm  uint16 = 2
)

// Config is the configuration of a switch.
type Config struct {
	Flags       uint16
	MissSendLen uint16 // bytes of a packet in a packet-in that no output action caused
}

func (c Config) append(dst []byte, t uint8, xid uint32) []byte {
	n := len(dst)
	return end(put16(put16(begin(dst, t, xid), c.Flags), c.MissSendLen), n)
}

func (c *Config) decode(msg []byte, t uint8) error {
	if err := openExact(msg, t, 12); err != nil {
		return err
	}
	*c = Config{u16(msg[8:]), u16(msg[10:])}
	return nil
}

// GetConfigReply reports the configuration.
type GetConfigReply Config

// Type returns TypeGetConfigReply.
func (*GetConfigReply) Type() uint8 { return TypeGetConfigReply }

// Append appends the message.
func (m *GetConfigReply) Append(dst []byte, xid uint32) []byte {
	return Config(*m).append(dst, TypeGetConfigReply, xid)
}

// Decode reads a GET_CONFIG_REPLY.
func (m *GetConfigReply) Decode(msg []byte) error {
	return (*Config)(m).decode(msg, TypeGetConfigReply)
}

// SetConfig sets the configuration.
type SetConfig Config

// Type returns TypeSetConfig.
func (*SetConfig) Type() uint8 { return TypeSetConfig }

// Append appends the message.
func (m *SetConfig) Append(dst []byte, xid uint32) []byte {
	return Config(*m).append(dst, TypeSetConfig, xid)
}

// Decode reads a SET_CONFIG.
func (m *SetConfig) Decode(msg []byte) error { return (*Config)(m).decode(msg, TypeSetConfig) }

// TableMod configures a table (section 7.3.3). Config is reserved in OpenFlow 1.3.
type TableMod struct {
	TableID uint8
	Config  uint32
}

// Type returns TypeTableMod.
func (*TableMod) Type() uint8 { return TypeTableMod }

// Append appends the message.
func (m *TableMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(begin(dst, TypeTableMod, xid), m.TableID, 0, 0, 0)
	return end(put32(dst, m.Config), n)
}

// Decode reads a TABLE_MOD.
func (m *TableMod) Decode(msg []byte) error {
	if err := openExact(msg, TypeTableMod, 16); err != nil {
		return err
	}
	*m = TableMod{msg[8], u32(msg[12:])}
	return nil
}
