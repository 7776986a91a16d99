package of14

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func bundleControlToV13(dst, msg []byte) ([]byte, error) {
	if err := atLeast(msg, bodyAt); err != nil {
		return dst, err
	}
	m := of13.BundleControl{ID: be.Uint32(msg[8:]), CtrlType: be.Uint16(msg[12:]), Flags: be.Uint16(msg[14:])}
	return m.Append(dst, openflow.XID(msg)), nil
}

// bundleErrorToV13 makes an error of the extension for 1.3, whose codes are the same, from BundleUnknown on.
func bundleErrorToV13(dst, msg []byte, code uint16) ([]byte, error) {
	if code > of13.BundleInProgress-of13.BundleUnknown { // about a time of execution, which nobody asks for
		code = 0
	}
	n := len(dst)
	m := of13.Error{ErrType: of13.ErrTypeExperimenter, Code: of13.BundleUnknown + code}
	dst = be.AppendUint32(m.Append(dst, openflow.XID(msg)), of13.OnfID)
	return checked(append(dst, msg[12:]...), n, msg)
}

// experimenterFromV13 finds the messages about bundles among those of experimenters.
func experimenterFromV13(dst, msg []byte, version uint8) ([]byte, error) {
	var m of13.Experimenter
	if err := m.Decode(msg); err != nil {
		return dst, err
	}
	if m.ID != of13.OnfID || m.ExpType != of13.OnfBundleControl && m.ExpType != of13.OnfBundleAdd {
		return relabel(dst, msg, version), nil
	}
	n, xid := len(dst), openflow.XID(msg)
	if m.ExpType == of13.OnfBundleControl {
		var ctl of13.BundleControl
		if err := ctl.Decode(msg); err != nil {
			return dst, err
		}
		dst = openflow.AppendHeader(dst, version, TypeBundleControl, xid)
		dst = be.AppendUint32(dst, ctl.ID)
		dst = be.AppendUint16(be.AppendUint16(dst, ctl.CtrlType), ctl.Flags)
		openflow.SetLength(dst[n:])
		return dst, nil
	}
	var add of13.BundleAdd
	if err := add.Decode(msg); err != nil {
		return dst, err
	}
	dst = openflow.AppendHeader(dst, version, TypeBundleAdd, xid)
	dst = be.AppendUint16(pad(be.AppendUint32(dst, add.ID), 2), add.Flags)
	dst, err := addedFromV13(dst, add.Message, msg, version)
	if err == nil && len(dst)-n > openflow.MaxMessageLen {
		err = unsupported(msg, bundleMessageAt, "a message of this size in a bundle")
	}
	if err != nil {
		return dst[:n], err
	}
	openflow.SetLength(dst[n:])
	return dst, nil
}

// bundleMessageAt is where the message in a bundle's message begins.
const bundleMessageAt = 24

// addedFromV13 appends the message that msg adds to a bundle.
func addedFromV13(dst, added, msg []byte, version uint8) ([]byte, error) {
	h, err := openflow.ParseHeader(added)
	switch {
	case err != nil || int(h.Length) > len(added):
		return dst, fail(msg, bundleMessageAt, openflow.BadLength, "a bundle's message is not whole: %d bytes",
			len(added))
	case int(h.Length) < len(added):
		return dst, unsupported(msg, bundleMessageAt+int(h.Length), "properties of a bundle")
	case h.Type == openflow.TypeExperimenter:
		return dst, unsupported(msg, bundleMessageAt, "an experimenter's message in a bundle")
	}
	return FromV13(dst, added, version)
}
