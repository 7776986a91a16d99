package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Types of errors that 1.3 does not have.
const (
	errTypeBadProperty       uint16 = 14
	errTypeAsyncConfigFailed uint16 = 15
	errTypeMonitorFailed     uint16 = 16
	errTypeBundleFailed      uint16 = 17
)

// refusal is a type of errors with a code.
type refusal struct{ errType, code uint16 }

func codesOf(errType uint16, codes ...uint16) []refusal {
	var list []refusal
	for _, c := range codes {
		list = append(list, refusal{errType, c})
	}
	return list
}

// nearest has, for each type of errors, what comes nearest in 1.3 to the codes from first on, which 1.3 does not have.
var nearest = [...]struct {
	first uint16
	codes []refusal
}{
	of13.ErrTypeBadRequest: {14, codesOf(of13.ErrTypeBadRequest, of13.BadRequestBadMultipart,
		of13.BadRequestBadMultipart, of13.BadRequestBadMultipart,
		of13.BadRequestBadPacket, of13.BadRequestEPerm)},
	of13.ErrTypeBadAction: {16, []refusal{{of13.ErrTypeBadAction, of13.BadActionBadSetArgument},
		{of13.ErrTypeMeterModFailed, of13.MeterModFailedUnknownMeter}}},
	of13.ErrTypeBadInstruction: {9, codesOf(of13.ErrTypeBadInstruction, of13.BadInstructionUnsupInst)},
	of13.ErrTypeFlowModFailed: {8, codesOf(of13.ErrTypeFlowModFailed, of13.FlowModFailedUnknown,
		of13.FlowModFailedUnknown, of13.FlowModFailedEPerm)},
	of13.ErrTypeGroupModFailed: {15, codesOf(of13.ErrTypeGroupModFailed, of13.GroupModFailedBadBucket,
		of13.GroupModFailedBadBucket)},
	of13.ErrTypeRoleRequestFailed: {3, codesOf(of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedUnsup,
		of13.RoleRequestFailedUnsup)},
	of13.ErrTypeTableFeaturesFailed: {6, codesOf(of13.ErrTypeTableFeaturesFailed, of13.TableFeaturesFailedBadArgument,
		of13.TableFeaturesFailedBadArgument,
		of13.TableFeaturesFailedBadArgument, of13.TableFeaturesFailedBadArgument, of13.TableFeaturesFailedBadArgument)},
	errTypeBadProperty: {0, codesOf(of13.ErrTypeBadRequest, of13.BadRequestBadType, of13.BadRequestBadLen,
		of13.BadRequestBadType,
		of13.BadRequestBadLen, of13.BadRequestBadLen, of13.BadRequestBadExperimenter, of13.BadRequestBadExpType,
		of13.BadRequestBadExpType, of13.BadRequestEPerm)},
	errTypeAsyncConfigFailed: {0, codesOf(of13.ErrTypeBadRequest, of13.BadRequestBadType, of13.BadRequestBadType,
		of13.BadRequestEPerm)},
	errTypeMonitorFailed: {0, nil},
}

// nearestTo translates one error. What is not in the table stays as it is, if it is of a type that 1.3 has.
func nearestTo(r refusal) refusal {
	if int(r.errType) >= len(nearest) {
		return r
	}
	n := nearest[r.errType]
	switch i := int(r.code) - int(n.first); {
	case i >= 0 && i < len(n.codes):
		return n.codes[i]
	case r.errType > of13.ErrTypeTableFeaturesFailed:
		return refusal{of13.ErrTypeBadRequest, of13.BadRequestBadType}
	}
	return r
}

func errorToV13(dst, msg []byte) ([]byte, error) {
	n := len(dst)
	dst, err := same(dst, msg)
	if err != nil {
		return dst, err
	}
	r := refusal{be.Uint16(msg[8:]), be.Uint16(msg[10:])}
	if r.errType == errTypeBundleFailed {
		return bundleErrorToV13(dst[:n], msg, r.code)
	}
	r = nearestTo(r)
	be.PutUint16(dst[n+8:], r.errType)
	be.PutUint16(dst[n+10:], r.code)
	return dst, nil
}
