package of13

import "github.com/holdfast-sdn/holdfast/openflow"

// Bundles for OpenFlow 1.3 are ONF extension 230: the messages of OpenFlow 1.4 (section 7.3.9 of that
// specification) as EXPERIMENTER messages.
const (
	OnfID            uint32 = 0x4f4e4600
	OnfBundleControl uint32 = 2300
	OnfBundleAdd     uint32 = 2301
)

// Types of a bundle control message. The reply to a request is the request plus one.
const (
	BundleOpenRequest uint16 = iota
	BundleOpenReply
	BundleCloseRequest
	BundleCloseReply
	BundleCommitRequest
	BundleCommitReply
	BundleDiscardRequest
	BundleDiscardReply
)

// Flags of a bundle. All its messages carry the same ones.
const (
	BundleAtomic  uint16 = 1 << iota // either all messages are executed, or none
	BundleOrdered                    // in the order in which they were added
)

// Codes of the extension's errors, which are of ErrTypeExperimenter with OnfID first in the data.
const (
	BundleUnknown uint16 = iota + 2300
	BundleEPerm
	BundleBadID
	BundleExists
	BundleClosed
	BundleOutOfBundles
	BundleBadType
	BundleBadFlags
	BundleMsgBadLen
	BundleMsgBadXID
	BundleMsgUnsup
	BundleMsgConflict
	BundleMsgTooMany
	BundleMsgFailed
	BundleTimeout
	BundleInProgress
)

// BundleAddLen is the number of bytes that a BundleAdd adds to a message.
const BundleAddLen = 24

const bundleLen = BundleAddLen

// BundleControl opens, closes, commits or discards a bundle, or is the answer.
type BundleControl struct {
	ID       uint32
	CtrlType uint16
	Flags    uint16
}

// Type returns TypeExperimenter.
func (*BundleControl) Type() uint8 { return TypeExperimenter }

// Append appends the message.
func (m *BundleControl) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(put32(begin(dst, TypeExperimenter, xid), OnfID), OnfBundleControl)
	return end(put16(put16(put32(dst, m.ID), m.CtrlType), m.Flags), n)
}

// Decode reads a bundle control message. It ignores properties, because the extension defines none.
func (m *BundleControl) Decode(msg []byte) error {
	if err := openBundle(msg, OnfBundleControl); err != nil {
		return err
	}
	*m = BundleControl{u32(msg[16:]), u16(msg[20:]), u16(msg[22:])}
	return nil
}

// BundleAdd puts a message into a bundle, and opens the bundle if necessary. The switch answers only if it refuses the
// message.
type BundleAdd struct {
	ID    uint32
	Flags uint16
	// Message is a whole message, to which Append gives the transaction id of the outer one, as it must
	// have. Decode does not look into it, nor where it ends: properties may follow.
	Message []byte
}

// Type returns TypeExperimenter.
func (*BundleAdd) Type() uint8 { return TypeExperimenter }

// Append appends the message.
func (m *BundleAdd) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = put32(put32(begin(dst, TypeExperimenter, xid), OnfID), OnfBundleAdd)
	dst = append(put16(put16(put32(dst, m.ID), 0), m.Flags), m.Message...)
	if len(m.Message) >= openflow.HeaderLen {
		openflow.SetXID(dst[n+bundleLen:], xid)
	}
	return end(dst, n)
}

// Decode reads a BUNDLE_ADD_MESSAGE.
func (m *BundleAdd) Decode(msg []byte) error {
	if err := openBundle(msg, OnfBundleAdd); err != nil {
		return err
	}
	*m = BundleAdd{u32(msg[16:]), u16(msg[22:]), msg[bundleLen:]}
	return nil
}

// BundleError returns the code of an error of the extension, one of the Bundle codes.
func (m *Error) BundleError() (code uint16, ok bool) {
	return m.Code, m.ErrType == ErrTypeExperimenter && len(m.Data) >= 4 && u32(m.Data) == OnfID
}

func openBundle(msg []byte, expType uint32) error {
	if err := open(msg, TypeExperimenter, bundleLen); err != nil {
		return err
	}
	if u32(msg[8:]) != OnfID || u32(msg[12:]) != expType {
		return fail(msg, 8, openflow.Unknown, "experimenter %#x, type %d: %#x, %d expected", u32(msg[8:]),
			u32(msg[12:]), OnfID, expType)
	}
	return nil
}
