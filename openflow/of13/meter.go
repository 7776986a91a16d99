package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// Reserved meter ids (section 7.3.4.4).
const (
	MeterMax        uint32 = 0xffff0000
	MeterSlowpath   uint32 = 0xfffffffd
	MeterController uint32 = 0xfffffffe
	MeterAll        uint32 = 0xffffffff
)

// Commands of a meter-mod.
const (
	MeterAdd uint16 = iota
	MeterModify
	MeterDelete
)

// Flags of a meter.
const (
	MeterKbps  uint16 = 1 << 0 // rates in kbit/s
	MeterPktps uint16 = 1 << 1 // rates in packets/s
	MeterBurst uint16 = 1 << 2 // burst sizes are given
	MeterStats uint16 = 1 << 3 // collect statistics
)

// Types of bands.
const (
	BandDrop         uint16 = 1
	BandDSCPRemark   uint16 = 2
	BandExperimenter uint16 = 0xffff
)

// Band determines what happens to packets above a rate.
type Band struct {
	BandType     uint16
	Rate         uint32 // kbit/s, or packets/s with MeterPktps
	Burst        uint32 // kbit, or packets
	PrecLevel    uint8  // BandDSCPRemark: increment of the drop precedence
	Experimenter uint32 // BandExperimenter
	Data         []byte // BandExperimenter
}

// Bands are the bands of a meter as wire bytes.
type Bands = List[Band]

const bandLen = 16

func (Band) shape() shape { return shape{name: "meter band", least: bandLen, lenAt: 2} }

func (Band) check(msg []byte, off, end int) error {
	switch t := u16(msg[off:]); {
	case t == BandExperimenter:
	case t != BandDrop && t != BandDSCPRemark:
		return fail(msg, off, openflow.Unknown, "meter band type %d", t)
	case end-off != bandLen:
		return fail(msg, off+2, openflow.BadLength, "meter band of %d bytes, not %d", end-off, bandLen)
	}
	return nil
}

func (Band) parse(b []byte) Band {
	r := Band{BandType: u16(b), Rate: u32(b[4:]), Burst: u32(b[8:])}
	switch r.BandType {
	case BandDSCPRemark:
		r.PrecLevel = b[12]
	case BandExperimenter:
		r.Experimenter, r.Data = u32(b[12:]), b[16:]
	}
	return r
}

// AppendTo appends the encoded band.
func (b Band) AppendTo(dst []byte) []byte {
	n := bandLen
	if b.BandType == BandExperimenter {
		n += len(b.Data)
	}
	dst = put16(put16(dst, b.BandType), uint16(n))
	dst = put32(put32(dst, b.Rate), b.Burst)
	switch b.BandType {
	case BandExperimenter:
		return append(put32(dst, b.Experimenter), b.Data...)
	case BandDSCPRemark:
		return append(dst, b.PrecLevel, 0, 0, 0)
	}
	return pad(dst, 4)
}

// MeterMod changes a meter (section 7.3.4.4).
type MeterMod struct {
	Command uint16
	Flags   uint16
	MeterID uint32
	Bands   Bands
}

// Type returns TypeMeterMod.
func (*MeterMod) Type() uint8 { return TypeMeterMod }

// Append appends the message.
func (m *MeterMod) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put16(put16(begin(dst, TypeMeterMod, xid), m.Command), m.Flags)
	return end(append(put32(dst, m.MeterID), m.Bands...), n)
}

// Decode reads a METER_MOD.
func (m *MeterMod) Decode(msg []byte) error {
	if err := open(msg, TypeMeterMod, 16); err != nil {
		return err
	}
	if err := checkList[Band](msg, 16, len(msg)); err != nil {
		return err
	}
	*m = MeterMod{u16(msg[8:]), u16(msg[10:]), u32(msg[12:]), Bands(msg[16:])}
	return nil
}
