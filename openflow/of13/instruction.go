package of13

import (
	"fmt"
	"iter"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// InstructionType is the type of an instruction (section 7.2.4).
type InstructionType uint16

// The instructions.
const (
	InstructionGotoTable     InstructionType = 1
	InstructionWriteMetadata InstructionType = 2
	InstructionWriteActions  InstructionType = 3
	InstructionApplyActions  InstructionType = 4
	InstructionClearActions  InstructionType = 5
	InstructionMeter         InstructionType = 6
	InstructionExperimenter  InstructionType = 0xffff
)

var instructionNames = [...]string{"", "goto_table", "write_metadata", "write_actions", "apply_actions",
	"clear_actions", "meter"}

func (t InstructionType) String() string {
	if t == InstructionExperimenter {
		return "experimenter"
	}
	return nameOf(instructionNames[:], uint32(t))
}

// Instruction is one instruction. Its Type determines which fields are used; the others are zero.
type Instruction struct {
	Type         InstructionType
	Table        uint8   // goto_table
	Metadata     uint64  // write_metadata
	MetadataMask uint64  // write_metadata
	Actions      Actions // write_actions, apply_actions
	Meter        uint32  // meter
	Experimenter uint32  // experimenter
	Raw          []byte  // the whole instruction on the wire; Raw[8:] is the experimenter's
}

// Instructions is a list of instructions as wire bytes. The zero value is empty.
type Instructions []byte

// All iterates over the instructions in the order in which they are encoded, which is not that of execution.
func (in Instructions) All() iter.Seq[Instruction] {
	return func(yield func(Instruction) bool) {
		for b := in; len(b) >= 8; {
			n := int(u16(b[2:]))
			if !yield(parseInstruction(b[:n:n])) {
				return
			}
			b = b[n:]
		}
	}
}

// Get finds the first instruction of a type.
func (in Instructions) Get(t InstructionType) (Instruction, bool) {
	for b := in; len(b) >= 8; {
		n := int(u16(b[2:]))
		if InstructionType(u16(b)) == t {
			return parseInstruction(b[:n:n]), true
		}
		b = b[n:]
	}
	return Instruction{}, false
}

// parseInstruction decodes the instruction that fills b, which was checked before.
func parseInstruction(b []byte) Instruction {
	in := Instruction{Type: InstructionType(u16(b)), Raw: b}
	switch in.Type {
	case InstructionGotoTable:
		in.Table = b[4]
	case InstructionWriteMetadata:
		in.Metadata, in.MetadataMask = u64(b[8:]), u64(b[16:])
	case InstructionWriteActions, InstructionApplyActions:
		in.Actions = Actions(b[8:])
	case InstructionMeter:
		in.Meter = u32(b[4:])
	case InstructionExperimenter:
		in.Experimenter = u32(b[4:])
	}
	return in
}

// checkInstructions checks the instructions that fill msg[off:end].
func checkInstructions(msg []byte, off, end int) error {
	for off < end {
		if end-off < 8 {
			return fail(msg, end, openflow.Truncated, "an instruction has at least 8 bytes, %d left", end-off)
		}
		t, n := InstructionType(u16(msg[off:])), int(u16(msg[off+2:]))
		if n < 8 || n%8 != 0 || n > end-off {
			return fail(msg, off+2, openflow.BadLength, "instruction %v of %d bytes, %d left", t, n, end-off)
		}
		want := 8
		switch t {
		case InstructionGotoTable, InstructionMeter, InstructionClearActions:
		case InstructionWriteMetadata:
			want = 24
		case InstructionWriteActions, InstructionApplyActions:
			if err := checkActions(msg, off+8, off+n); err != nil {
				return err
			}
			want = n
		case InstructionExperimenter:
			want = n
		default:
			return fail(msg, off, openflow.Unknown, "instruction type %d", uint16(t))
		}
		if n != want {
			return fail(msg, off+2, openflow.BadLength, "instruction %v of %d bytes, not %d", t, n, want)
		}
		off += n
	}
	return nil
}

func (in Instructions) start(t InstructionType, n int) Instructions {
	return append(in, byte(t>>8), byte(t), byte(n>>8), byte(n))
}

// Goto appends an instruction that continues in a later table.
func (in Instructions) Goto(table uint8) Instructions {
	return append(in.start(InstructionGotoTable, 8), table, 0, 0, 0)
}

// WriteMetadata appends an instruction that sets the bits of the metadata that are 1 in mask.
func (in Instructions) WriteMetadata(v, mask uint64) Instructions {
	in = pad(in.start(InstructionWriteMetadata, 24), 4)
	return put64(put64(in, v), mask)
}

// Write appends an instruction that merges actions into the action set.
func (in Instructions) Write(a Actions) Instructions {
	return append(pad(in.start(InstructionWriteActions, 8+len(a)), 4), a...)
}

// Apply appends an instruction that executes actions at once.
func (in Instructions) Apply(a Actions) Instructions {
	return append(pad(in.start(InstructionApplyActions, 8+len(a)), 4), a...)
}

// Clear appends an instruction that clears the action set.
func (in Instructions) Clear() Instructions { return pad(in.start(InstructionClearActions, 8), 4) }

// Meter appends an instruction that meters the packet, and may drop it.
func (in Instructions) Meter(id uint32) Instructions {
	return put32(in.start(InstructionMeter, 8), id)
}

// Experimenter appends an experimenter's instruction; data is padded to a multiple of 8 bytes.
func (in Instructions) Experimenter(id uint32, data []byte) Instructions {
	n, start := padded(8+len(data)), len(in)
	in = put32(in.start(InstructionExperimenter, n), id)
	in = append(in, data...)
	return pad(in, start+n-len(in))
}

// String lists the instructions as ovs-ofctl does, with apply_actions as plain actions.
func (in Instructions) String() string { return string(in.text(nil)) }

func (in Instructions) text(dst []byte) []byte {
	if len(in) == 0 {
		return append(dst, "drop"...)
	}
	first := true
	for x := range in.All() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		switch x.Type {
		case InstructionApplyActions:
			dst = x.Actions.text(dst)
		case InstructionWriteActions:
			dst = append(x.Actions.text(append(dst, "write_actions("...)), ')')
		case InstructionGotoTable:
			dst = fmt.Appendf(dst, "goto_table:%d", x.Table)
		case InstructionWriteMetadata:
			dst = fmt.Appendf(dst, "write_metadata:%#x/%#x", x.Metadata, x.MetadataMask)
		case InstructionMeter:
			dst = fmt.Appendf(dst, "meter:%d", x.Meter)
		case InstructionExperimenter:
			dst = fmt.Appendf(dst, "experimenter:%#x", x.Experimenter)
		default:
			dst = append(dst, x.Type.String()...)
		}
	}
	return dst
}
