package reconcile

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// canon encodes matches, instructions and buckets so that equivalent ones are equal byte for byte. Its slices are
// reused.
type canon struct {
	fields       []of13.OXM
	instructions []of13.Instruction
}

var canons = sync.Pool{New: func() any { return new(canon) }}

// keptFlags are the flags that a switch keeps with an entry; the others concern the flow-mod only.
const keptFlags = of13.FlowSendFlowRem | of13.FlowNoPktCounts | of13.FlowNoBytCounts

// Canonical appends a match in the form that all equivalent ones have: fields in the order of their numbers, which
// OpenFlow permits, and no bits of values and masks that do not matter. So entries with the same priority and canonical
// match replace each other.
func Canonical(dst, m of13.Match) of13.Match {
	c := canons.Get().(*canon)
	defer canons.Put(c)
	for _, o := range c.sorted(m) {
		whole, some := selects(o)
		if o.HasMask && !some {
			continue
		}
		if whole {
			o.HasMask, o.Mask = false, nil
		}
		dst = dst.WithOXM(o)
		mask := dst[len(dst)-len(o.Mask):]
		value := dst[len(dst)-len(o.Mask)-len(o.Value):]
		for i := range o.Value {
			if o.HasMask {
				mask[i] &= allOf(o, i)
				value[i] &= mask[i]
			}
			value[i] &= allOf(o, i)
		}
	}
	return dst
}

// sorted returns the fields of a match, which are valid until the next call.
func (c *canon) sorted(m of13.Match) []of13.OXM {
	c.fields = c.fields[:0]
	for o := range m.All() {
		c.fields = append(c.fields, o)
	}
	slices.SortStableFunc(c.fields, func(a, b of13.OXM) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Experimenter, b.Experimenter))
	})
	return c.fields
}

// identity appends what identifies an entry: entries with the same identity replace each other.
func (c *canon) identity(dst []byte, table uint8, priority uint16, m of13.Match) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, table), priority)
	for _, o := range c.sorted(m) {
		dst = appendField(dst, o)
	}
	return dst
}

// flow appends the rest of an entry.
func (c *canon) flow(dst []byte, cookie uint64, idle, hard, flags uint16, in of13.Instructions) []byte {
	dst = binary.BigEndian.AppendUint64(dst, cookie)
	for _, v := range [...]uint16{idle, hard, flags & keptFlags} {
		dst = binary.BigEndian.AppendUint16(dst, v)
	}
	c.instructions = c.instructions[:0]
	for x := range in.All() {
		c.instructions = append(c.instructions, x)
	}
	// A switch executes them by type, in whatever order they are.
	slices.SortStableFunc(c.instructions, func(a, b of13.Instruction) int { return cmp.Compare(a.Type, b.Type) })
	for _, x := range c.instructions {
		dst = appendInstruction(dst, x)
	}
	return dst
}

// group appends type and buckets of a group.
func (c *canon) group(dst []byte, kind uint8, buckets of13.Buckets) []byte {
	dst = append(dst, kind)
	for b := range buckets.All() {
		if kind != of13.GroupTypeSelect {
			b.Weight = 0
		}
		dst = binary.BigEndian.AppendUint16(dst, b.Weight)
		dst = binary.BigEndian.AppendUint32(dst, uint32(b.WatchPort))
		dst = binary.BigEndian.AppendUint32(dst, b.WatchGroup)
		dst = appendActions(dst, b.Actions)
	}
	return dst
}

func appendInstruction(dst []byte, x of13.Instruction) []byte {
	switch x.Type {
	case of13.InstructionWriteMetadata:
		if x.MetadataMask == 0 {
			return dst
		}
		x.Metadata &= x.MetadataMask
	case of13.InstructionApplyActions, of13.InstructionWriteActions:
		if len(x.Actions) == 0 {
			return dst
		}
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(x.Type))
	switch x.Type {
	case of13.InstructionGotoTable:
		dst = append(dst, x.Table)
	case of13.InstructionWriteMetadata:
		dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, x.Metadata), x.MetadataMask)
	case of13.InstructionApplyActions, of13.InstructionWriteActions:
		dst = appendActions(dst, x.Actions)
	case of13.InstructionMeter:
		dst = binary.BigEndian.AppendUint32(dst, x.Meter)
	case of13.InstructionExperimenter:
		dst = append(dst, x.Raw[2:]...) // with its length
	}
	return dst
}

// appendActions appends their number and each action, in order, because the order matters.
func appendActions(dst []byte, list of13.Actions) []byte {
	at, n := len(dst), uint16(0)
	dst = append(dst, 0, 0)
	for a := range list.All() {
		n++
		dst = binary.BigEndian.AppendUint16(dst, uint16(a.Type))
		switch a.Type {
		case of13.ActionOutput:
			if a.Port != of13.PortController {
				a.MaxLen = 0
			}
			dst = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(dst, uint32(a.Port)), a.MaxLen)
		case of13.ActionSetField:
			dst = appendField(dst, a.OXM)
		case of13.ActionExperimenter:
			dst = append(dst, a.Raw[2:]...) // with its length
		default: // output, group or set-queue, or none
			dst = binary.BigEndian.AppendUint32(dst, a.Group|a.Queue|uint32(a.EtherType)|uint32(a.TTL))
		}
	}
	binary.BigEndian.PutUint16(dst[at:], n)
	return dst
}

// appendField appends a field. It clears the bits of the value that the mask leaves out, omits a mask that selects all
// bits, and omits the field if the mask selects none.
func appendField(dst []byte, o of13.OXM) []byte {
	whole, some := selects(o)
	if o.HasMask && !some {
		return dst
	}
	dst = append(binary.BigEndian.AppendUint16(dst, o.Class), byte(o.Field))
	dst = append(binary.BigEndian.AppendUint32(dst, o.Experimenter), byte(len(o.Value)))
	for i, b := range o.Value {
		if o.HasMask {
			b &= o.Mask[i]
		}
		dst = append(dst, b&allOf(o, i))
	}
	if whole {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for i, b := range o.Mask {
		dst = append(dst, b&allOf(o, i))
	}
	return dst
}

// selects reports whether the mask of a field selects all bits, and whether it selects some. Without a mask, all.
func selects(o of13.OXM) (whole, some bool) {
	whole = true
	for i, b := range o.Mask {
		all := allOf(o, i)
		whole, some = whole && b&all == all, some || b&all != 0
	}
	return whole, some
}

// allOf returns the bits that the field has in the i-th byte of a value. In fields that cannot be masked the others are
// zero anyway.
func allOf(o of13.OXM, i int) byte {
	if o.Class != of13.ClassBasic {
		return 0xff
	}
	switch {
	case o.Field == of13.FieldVLANVID && i == 0:
		return 0x1f // 13 bits
	case o.Field == of13.FieldIPv6FLabel && i == 0:
		return 0
	case o.Field == of13.FieldIPv6FLabel && i == 1:
		return 0x0f // 20 bits
	case o.Field == of13.FieldIPv6ExtHdr && i == 0:
		return 0x01 // 9 bits
	}
	return 0xff
}
