package of13

import (
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// TableFeatures reports what a flow table supports, in PartTableFeatures (section 7.3.5.5).
type TableFeatures struct {
	TableID       uint8
	Name          string // at most 31 bytes
	MetadataMatch uint64
	MetadataWrite uint64
	Config        uint32
	MaxEntries    uint32
	Properties    List[TableProperty]
}

const tableFeaturesLen = 64

func (TableFeatures) shape() shape {
	return shape{name: "table features", least: tableFeaturesLen, lenAt: 0}
}

func (TableFeatures) check(msg []byte, off, end int) error {
	return checkList[TableProperty](msg, off+tableFeaturesLen, end)
}

func (TableFeatures) parse(b []byte) TableFeatures {
	return TableFeatures{b[2], cString(b[8:40]), u64(b[40:]), u64(b[48:]), u32(b[56:]), u32(b[60:]),
		List[TableProperty](b[tableFeaturesLen:])}
}

// AppendTo appends the features as they are on the wire.
func (f TableFeatures) AppendTo(dst []byte) []byte {
	dst = pad(append(put16(dst, uint16(tableFeaturesLen+len(f.Properties))), f.TableID), 5)
	dst = put64(put64(putString(dst, f.Name, 32), f.MetadataMatch), f.MetadataWrite)
	return append(put32(put32(dst, f.Config), f.MaxEntries), f.Properties...)
}

// Properties of a table. Those named Miss are about the table-miss entry.
const (
	TableInstructions      uint16 = 0
	TableInstructionsMiss  uint16 = 1
	TableNextTables        uint16 = 2
	TableNextTablesMiss    uint16 = 3
	TableWriteActions      uint16 = 4
	TableWriteActionsMiss  uint16 = 5
	TableApplyActions      uint16 = 6
	TableApplyActionsMiss  uint16 = 7
	TableMatch             uint16 = 8
	TableWildcards         uint16 = 10
	TableWriteSetField     uint16 = 12
	TableWriteSetFieldMiss uint16 = 13
	TableApplySetField     uint16 = 14
	TableApplySetFieldMiss uint16 = 15
	TableExperimenter      uint16 = 0xfffe
	TableExperimenterMiss  uint16 = 0xffff
)

// TableProperty is one property of a table: a list of what it supports.
type TableProperty struct {
	Property uint16
	Data     []byte // what follows the header
}

// NextTablesProperty makes a property that lists tables.
func NextTablesProperty(property uint16, tables ...uint8) TableProperty {
	return TableProperty{property, tables}
}

// TypesProperty makes a property that lists types of instructions or actions.
func TypesProperty[T InstructionType | ActionType](property uint16, types ...T) TableProperty {
	p := TableProperty{Property: property}
	for _, t := range types {
		p.Data = put16(put16(p.Data, uint16(t)), 4)
	}
	return p
}

// FieldsProperty makes a property that lists match fields. With masked, those that can be masked are
// listed as maskable.
func FieldsProperty(property uint16, masked bool, list ...Field) TableProperty {
	p := TableProperty{Property: property}
	for _, f := range list {
		id, size := byte(f)<<1, f.Size()
		if masked && f.Maskable() {
			id, size = id|1, 2*size
		}
		p.Data = append(p.Data, byte(ClassBasic>>8), byte(ClassBasic&0xff), id, byte(size))
	}
	return p
}

// Types iterates over a property that lists instructions or actions.
func (p TableProperty) Types() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		if p.Property > TableApplyActionsMiss || p.Property == TableNextTables || p.Property == TableNextTablesMiss {
			return
		}
		for b := p.Data; len(b) >= 4; b = b[u16(b[2:]):] {
			if !yield(u16(b)) {
				return
			}
		}
	}
}

// Fields iterates over a property that lists match fields; the OXMs have no values.
func (p TableProperty) Fields() iter.Seq[OXM] {
	return func(yield func(OXM) bool) {
		if p.Property < TableMatch || p.Property > TableApplySetFieldMiss {
			return
		}
		for b := p.Data; len(b) >= 4; {
			o := OXM{Class: u16(b), Field: Field(b[2] >> 1), HasMask: b[2]&1 != 0}
			n := 4
			if o.Class == ClassExperimenter {
				o.Experimenter, n = u32(b[4:]), 8
			}
			if !yield(o) {
				return
			}
			b = b[n:]
		}
	}
}

func (TableProperty) shape() shape {
	return shape{name: "table property", least: 4, lenAt: 2, padded: true}
}

func (TableProperty) check(msg []byte, off, _ int) error {
	t, p, end := u16(msg[off:]), off+4, off+int(u16(msg[off+2:]))
	switch {
	case t == TableNextTables || t == TableNextTablesMiss:
	case t <= TableApplyActionsMiss:
		for p < end {
			if end-p < 4 {
				return fail(msg, end, openflow.Truncated, "an id in table property %d has 4 bytes, %d left", t, end-p)
			}
			n := int(u16(msg[p+2:]))
			if n < 4 || n > end-p {
				return fail(msg, p+2, openflow.BadLength, "id of %d bytes in table property %d, %d left", n, t, end-p)
			}
			p += n
		}
	case t <= TableApplySetFieldMiss:
		for p < end {
			n := 4
			if end-p >= 2 && u16(msg[p:]) == ClassExperimenter {
				n = 8
			}
			if end-p < n {
				return fail(msg, end, openflow.Truncated, "a field in table property %d has %d bytes, %d left", t, n,
					end-p)
			}
			p += n
		}
	case t < TableExperimenter:
		return fail(msg, off, openflow.Unknown, "table property %d", t)
	case end-p < 8:
		return fail(msg, end, openflow.Truncated, "an experimenter's table property begins with 8 bytes, %d left",
			end-p)
	}
	return nil
}

func (TableProperty) parse(b []byte) TableProperty {
	n := int(u16(b[2:]))
	return TableProperty{u16(b), b[4:n:n]}
}

// AppendTo appends the property with its padding.
func (p TableProperty) AppendTo(dst []byte) []byte {
	n := 4 + len(p.Data)
	dst = append(put16(put16(dst, p.Property), uint16(n)), p.Data...)
	return pad(dst, padded(n)-n)
}
