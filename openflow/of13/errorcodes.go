package of13

import "fmt"

// Types of errors (section 7.4.4).
const (
	ErrTypeHelloFailed uint16 = iota
	ErrTypeBadRequest
	ErrTypeBadAction
	ErrTypeBadInstruction
	ErrTypeBadMatch
	ErrTypeFlowModFailed
	ErrTypeGroupModFailed
	ErrTypePortModFailed
	ErrTypeTableModFailed
	ErrTypeQueueOpFailed
	ErrTypeSwitchConfigFailed
	ErrTypeRoleRequestFailed
	ErrTypeMeterModFailed
	ErrTypeTableFeaturesFailed
	ErrTypeExperimenter uint16 = 0xffff
)

// Codes of ErrTypeHelloFailed.
const (
	HelloFailedIncompatible uint16 = iota
	HelloFailedEPerm
)

// Codes of ErrTypeBadRequest.
const (
	BadRequestBadVersion uint16 = iota
	BadRequestBadType
	BadRequestBadMultipart
	BadRequestBadExperimenter
	BadRequestBadExpType
	BadRequestEPerm
	BadRequestBadLen
	BadRequestBufferEmpty
	BadRequestBufferUnknown
	BadRequestBadTableID
	BadRequestIsSlave
	BadRequestBadPort
	BadRequestBadPacket
	BadRequestMultipartBufferOverflow
)

// Codes of ErrTypeBadAction.
const (
	BadActionBadType uint16 = iota
	BadActionBadLen
	BadActionBadExperimenter
	BadActionBadExpType
	BadActionBadOutPort
	BadActionBadArgument
	BadActionEPerm
	BadActionTooMany
	BadActionBadQueue
	BadActionBadOutGroup
	BadActionMatchInconsistent
	BadActionUnsupportedOrder
	BadActionBadTag
	BadActionBadSetType
	BadActionBadSetLen
	BadActionBadSetArgument
)

// Codes of ErrTypeBadInstruction.
const (
	BadInstructionUnknownInst uint16 = iota
	BadInstructionUnsupInst
	BadInstructionBadTableID
	BadInstructionUnsupMetadata
	BadInstructionUnsupMetadataMask
	BadInstructionBadExperimenter
	BadInstructionBadExpType
	BadInstructionBadLen
	BadInstructionEPerm
)

// Codes of ErrTypeBadMatch.
const (
	BadMatchBadType uint16 = iota
	BadMatchBadLen
	BadMatchBadTag
	BadMatchBadDlAddrMask
	BadMatchBadNwAddrMask
	BadMatchBadWildcards
	BadMatchBadField
	BadMatchBadValue
	BadMatchBadMask
	BadMatchBadPrereq
	BadMatchDupField
	BadMatchEPerm
)

// Codes of ErrTypeFlowModFailed.
const (
	FlowModFailedUnknown uint16 = iota
	FlowModFailedTableFull
	FlowModFailedBadTableID
	FlowModFailedOverlap
	FlowModFailedEPerm
	FlowModFailedBadTimeout
	FlowModFailedBadCommand
	FlowModFailedBadFlags
)

// Codes of ErrTypeGroupModFailed.
const (
	GroupModFailedGroupExists uint16 = iota
	GroupModFailedInvalidGroup
	GroupModFailedWeightUnsupported
	GroupModFailedOutOfGroups
	GroupModFailedOutOfBuckets
	GroupModFailedChainingUnsupported
	GroupModFailedWatchUnsupported
	GroupModFailedLoop
	GroupModFailedUnknownGroup
	GroupModFailedChainedGroup
	GroupModFailedBadType
	GroupModFailedBadCommand
	GroupModFailedBadBucket
	GroupModFailedBadWatch
	GroupModFailedEPerm
)

// Codes of ErrTypePortModFailed.
const (
	PortModFailedBadPort uint16 = iota
	PortModFailedBadHwAddr
	PortModFailedBadConfig
	PortModFailedBadAdvertise
	PortModFailedEPerm
)

// Codes of ErrTypeTableModFailed.
const (
	TableModFailedBadTable uint16 = iota
	TableModFailedBadConfig
	TableModFailedEPerm
)

// Codes of ErrTypeQueueOpFailed.
const (
	QueueOpFailedBadPort uint16 = iota
	QueueOpFailedBadQueue
	QueueOpFailedEPerm
)

// Codes of ErrTypeSwitchConfigFailed.
const (
	SwitchConfigFailedBadFlags uint16 = iota
	SwitchConfigFailedBadLen
	SwitchConfigFailedEPerm
)

// Codes of ErrTypeRoleRequestFailed.
const (
	RoleRequestFailedStale uint16 = iota
	RoleRequestFailedUnsup
	RoleRequestFailedBadRole
)

// Codes of ErrTypeMeterModFailed.
const (
	MeterModFailedUnknown uint16 = iota
	MeterModFailedMeterExists
	MeterModFailedInvalidMeter
	MeterModFailedUnknownMeter
	MeterModFailedBadCommand
	MeterModFailedBadFlags
	MeterModFailedBadRate
	MeterModFailedBadBurst
	MeterModFailedBadBand
	MeterModFailedBadBandValue
	MeterModFailedOutOfMeters
	MeterModFailedOutOfBands
)

// Codes of ErrTypeTableFeaturesFailed.
const (
	TableFeaturesFailedBadTable uint16 = iota
	TableFeaturesFailedBadMetadata
	TableFeaturesFailedBadType
	TableFeaturesFailedBadLen
	TableFeaturesFailedBadArgument
	TableFeaturesFailedEPerm
)

// errorNames has, for each type, its name and those of its codes.
var errorNames = [...]struct {
	name  string
	codes []string
}{
	{"HELLO_FAILED", []string{"INCOMPATIBLE", "EPERM"}},
	{"BAD_REQUEST", []string{"BAD_VERSION", "BAD_TYPE", "BAD_MULTIPART", "BAD_EXPERIMENTER", "BAD_EXP_TYPE", "EPERM",
		"BAD_LEN",
		"BUFFER_EMPTY", "BUFFER_UNKNOWN", "BAD_TABLE_ID", "IS_SLAVE", "BAD_PORT", "BAD_PACKET",
		"MULTIPART_BUFFER_OVERFLOW"}},
	{"BAD_ACTION", []string{"BAD_TYPE", "BAD_LEN", "BAD_EXPERIMENTER", "BAD_EXP_TYPE", "BAD_OUT_PORT", "BAD_ARGUMENT",
		"EPERM", "TOO_MANY",
		"BAD_QUEUE", "BAD_OUT_GROUP", "MATCH_INCONSISTENT", "UNSUPPORTED_ORDER", "BAD_TAG", "BAD_SET_TYPE",
		"BAD_SET_LEN", "BAD_SET_ARGUMENT"}},
	{"BAD_INSTRUCTION", []string{"UNKNOWN_INST", "UNSUP_INST", "BAD_TABLE_ID", "UNSUP_METADATA", "UNSUP_METADATA_MASK",
		"BAD_EXPERIMENTER", "BAD_EXP_TYPE", "BAD_LEN", "EPERM"}},
	{"BAD_MATCH", []string{"BAD_TYPE", "BAD_LEN", "BAD_TAG", "BAD_DL_ADDR_MASK", "BAD_NW_ADDR_MASK", "BAD_WILDCARDS",
		"BAD_FIELD",
		"BAD_VALUE", "BAD_MASK", "BAD_PREREQ", "DUP_FIELD", "EPERM"}},
	{"FLOW_MOD_FAILED", []string{"UNKNOWN", "TABLE_FULL", "BAD_TABLE_ID", "OVERLAP", "EPERM", "BAD_TIMEOUT",
		"BAD_COMMAND", "BAD_FLAGS"}},
	{"GROUP_MOD_FAILED", []string{"GROUP_EXISTS", "INVALID_GROUP", "WEIGHT_UNSUPPORTED", "OUT_OF_GROUPS",
		"OUT_OF_BUCKETS",
		"CHAINING_UNSUPPORTED", "WATCH_UNSUPPORTED", "LOOP", "UNKNOWN_GROUP", "CHAINED_GROUP", "BAD_TYPE",
		"BAD_COMMAND",
		"BAD_BUCKET", "BAD_WATCH", "EPERM"}},
	{"PORT_MOD_FAILED", []string{"BAD_PORT", "BAD_HW_ADDR", "BAD_CONFIG", "BAD_ADVERTISE", "EPERM"}},
	{"TABLE_MOD_FAILED", []string{"BAD_TABLE", "BAD_CONFIG", "EPERM"}},
	{"QUEUE_OP_FAILED", []string{"BAD_PORT", "BAD_QUEUE", "EPERM"}},
	{"SWITCH_CONFIG_FAILED", []string{"BAD_FLAGS", "BAD_LEN", "EPERM"}},
	{"ROLE_REQUEST_FAILED", []string{"STALE", "UNSUP", "BAD_ROLE"}},
	{"METER_MOD_FAILED", []string{"UNKNOWN", "METER_EXISTS", "INVALID_METER", "UNKNOWN_METER", "BAD_COMMAND",
		"BAD_FLAGS", "BAD_RATE",
		"BAD_BURST", "BAD_BAND", "BAD_BAND_VALUE", "OUT_OF_METERS", "OUT_OF_BANDS"}},
	{"TABLE_FEATURES_FAILED", []string{"BAD_TABLE", "BAD_METADATA", "BAD_TYPE", "BAD_LEN", "BAD_ARGUMENT", "EPERM"}},
}

// ErrorName returns the specification's names of an error type and code, without their prefixes.
func ErrorName(errType, code uint16) string {
	switch {
	case errType == ErrTypeExperimenter:
		return fmt.Sprintf("EXPERIMENTER/%d", code)
	case int(errType) >= len(errorNames):
		return fmt.Sprintf("unknown(%d)/%d", errType, code)
	}
	e := errorNames[errType]
	return e.name + "/" + nameOf(e.codes, uint32(code))
}
