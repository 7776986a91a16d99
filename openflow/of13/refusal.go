package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// Refusal returns the ERROR with which a switch answers msg, which Decode refused with err. Its
// data is the start of msg.
func Refusal(err *openflow.Error, msg []byte) Error {
	t, code := refusal(err, msg)
	return Error{t, code, msg[:min(len(msg), 64)]}
}

func refusal(err *openflow.Error, msg []byte) (errType, code uint16) {
	unknown := err.Kind == openflow.Unknown
	// either returns the code for an unknown type, or the code for a wrong length.
	either := func(errType, badType, badLen uint16) (uint16, uint16) {
		if unknown {
			return errType, badType
		}
		return errType, badLen
	}
	if unknown && err.Offset == 0 {
		return ErrTypeBadRequest, BadRequestBadVersion
	}
	switch locate(err, msg) {
	case partMatch:
		return either(ErrTypeBadMatch, BadMatchBadType, BadMatchBadLen)
	case partInstruction:
		return either(ErrTypeBadInstruction, BadInstructionUnknownInst, BadInstructionBadLen)
	case partAction:
		return either(ErrTypeBadAction, BadActionBadType, BadActionBadLen)
	case partBand:
		return either(ErrTypeMeterModFailed, MeterModFailedBadBand, MeterModFailedBadBand)
	case partTableProperty:
		return either(ErrTypeTableFeaturesFailed, TableFeaturesFailedBadType, TableFeaturesFailedBadLen)
	}
	if err.Type == TypeMultipartRequest {
		return either(ErrTypeBadRequest, BadRequestBadMultipart, BadRequestBadLen)
	}
	return either(ErrTypeBadRequest, BadRequestBadType, BadRequestBadLen)
}

type partOfMessage int

const (
	partOther partOfMessage = iota
	partMatch
	partInstruction
	partAction
	partBand
	partTableProperty
)

// locate finds the part of msg at the offset of err. The message is valid up to there.
func locate(err *openflow.Error, msg []byte) partOfMessage {
	switch {
	case err.Type == TypePacketOut && err.Offset >= 24:
		return partAction
	case err.Type == TypeGroupMod && err.Offset >= 16+bucketLen:
		return partAction
	case err.Type == TypeMeterMod && err.Offset >= 16:
		return partBand
	case err.Type == TypeMultipartRequest && err.Offset >= multipartLen && Part(u16(msg[8:])) == PartTableFeatures:
		return partTableProperty
	case err.Type != TypeFlowMod || err.Offset < 48 || len(msg) < 56:
		return partOther
	}
	off := 48 + padded(int(u16(msg[50:])))
	if err.Offset < off || off > len(msg) {
		return partMatch
	}
	for off+8 <= err.Offset {
		n := int(u16(msg[off+2:]))
		if n < 8 || off+n > len(msg) {
			break
		}
		if err.Offset < off+n {
			return partAction
		}
		off += n
	}
	return partInstruction
}
