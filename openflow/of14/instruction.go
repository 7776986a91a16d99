package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// In 1.5 a meter is an action where it is an instruction in 1.3, which is executed before any other one. Both
// have their number in the same place, and 8 bytes.
const actionMeter uint16 = 29

const meterLen = 8

// instructionsFromV13 appends instructions for 1.5: meters become the first of the actions to apply.
func instructionsFromV13(dst []byte, in of13.Instructions) []byte {
	meters := 0
	for x := range in.All() {
		if x.Type == of13.InstructionMeter {
			meters++
		}
	}
	if _, applies := in.Get(of13.InstructionApplyActions); meters > 0 && !applies {
		dst = metersFromV13(dst, in, meters, nil)
		meters = 0
	}
	for x := range in.All() {
		switch {
		case x.Type == of13.InstructionMeter:
		case x.Type == of13.InstructionApplyActions && meters > 0:
			dst = metersFromV13(dst, in, meters, x.Actions)
			meters = 0
		default:
			dst = append(dst, x.Raw...)
		}
	}
	return dst
}

// metersFromV13 appends APPLY_ACTIONS with the meters of in before the actions.
func metersFromV13(dst []byte, in of13.Instructions, meters int, actions of13.Actions) []byte {
	dst = be.AppendUint16(dst, uint16(of13.InstructionApplyActions))
	dst = pad(be.AppendUint16(dst, uint16(8+meterLen*meters+len(actions))), 4)
	for x := range in.All() {
		if x.Type == of13.InstructionMeter {
			dst = be.AppendUint16(be.AppendUint16(dst, actionMeter), meterLen)
			dst = be.AppendUint32(dst, x.Meter)
		}
	}
	return append(dst, actions...)
}

// instructionsToV13 appends the instructions in msg[off:end], of 1.5. Meters that are not the first of the actions
// to apply stay, and 1.3 cannot say them.
func instructionsToV13(dst, msg []byte, off, end int) ([]byte, error) {
	for off < end {
		n, err := sized(msg, off, end, 2, 8, "an instruction")
		if err != nil {
			return dst, err
		}
		if of13.InstructionType(be.Uint16(msg[off:])) == of13.InstructionApplyActions {
			dst = applyToV13(dst, msg[off:off+n])
		} else {
			dst = append(dst, msg[off:off+n]...)
		}
		off += n
	}
	return dst, nil
}

func applyToV13(dst, apply []byte) []byte {
	actions := apply[8:]
	for len(actions) >= meterLen && be.Uint16(actions) == actionMeter && be.Uint16(actions[2:]) == meterLen {
		dst = be.AppendUint16(dst, uint16(of13.InstructionMeter))
		dst = append(dst, actions[2:meterLen]...)
		actions = actions[meterLen:]
	}
	if len(actions) == 0 && len(apply) > 8 {
		return dst
	}
	n := len(dst)
	dst = append(append(dst, apply[:8]...), actions...)
	be.PutUint16(dst[n+2:], uint16(len(dst)-n))
	return dst
}

// flowModFromV13 clears the importance, which is padding in 1.3.
func flowModFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	const importanceAt, matchAt = 46, 48
	var in of13.FlowMod
	if err := in.Decode(msg); err != nil {
		return dst, err
	}
	n := len(dst)
	if _, metered := in.Instructions.Get(of13.InstructionMeter); metered && version == openflow.Version15 {
		dst = instructionsFromV13(relabel(dst, msg[:matchAt+padded(4+len(in.Match))], version), in.Instructions)
		if len(dst)-n > openflow.MaxMessageLen {
			return dst[:n], unsupported(msg, matchAt, "a flow-mod of this size with a meter")
		}
		openflow.SetLength(dst[n:])
	} else {
		dst = relabel(dst, msg, version)
	}
	clear(dst[n+importanceAt : n+matchAt])
	return dst, nil
}
