package vswitch

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Bounds of bundles, for each connection, and how long one may be idle.
const (
	maxBundles     = 64
	maxBundleBytes = 16 << 20
	bundleIdle     = 10 * time.Second
)

// bundle is an open or closed bundle: messages that wait for the commit.
type bundle struct {
	flags  uint16
	closed bool
	used   time.Duration
	msgs   [][]byte
	bytes  int
}

// refuseBundle is an error of the extension (experimenter id in the data).
func refuseBundle(code uint16, msg []byte) *of13.Error {
	data := binary.BigEndian.AppendUint32(nil, of13.OnfID)
	return &of13.Error{ErrType: of13.ErrTypeExperimenter, Code: code, Data: append(data, msg[:min(len(msg), 64)]...)}
}

// bundleMessage executes a message of the extension.
func (s *Switch) bundleMessage(c *conn, m *of13.Experimenter, xid uint32) error {
	whole := m.Append(nil, xid) // for the data of errors
	var add of13.BundleAdd
	var ctl of13.BundleControl
	var err error
	switch m.ExpType {
	case of13.OnfBundleAdd:
		err = add.Decode(whole)
	case of13.OnfBundleControl:
		err = ctl.Decode(whole)
	default:
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadExpType)
	}
	if err != nil {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadLen)
	}
	if c.role == of13.RoleSlave { // as Open vSwitch does, whatever is in the bundle
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
	}
	if (add.Flags|ctl.Flags)&^(of13.BundleAtomic|of13.BundleOrdered) != 0 {
		return refuseBundle(of13.BundleBadFlags, whole)
	}
	if m.ExpType == of13.OnfBundleAdd {
		return s.addToBundle(c, add, xid, whole)
	}
	return s.controlBundle(c, ctl, xid, whole)
}

func (s *Switch) controlBundle(c *conn, m of13.BundleControl, xid uint32, whole []byte) error {
	b := c.bundles[m.ID]
	if b != nil {
		b.used = s.now
	}
	if b != nil && b.flags != m.Flags && m.CtrlType != of13.BundleOpenRequest {
		delete(c.bundles, m.ID)
		return refuseBundle(of13.BundleBadFlags, whole)
	}
	code := uint16(0)
	switch m.CtrlType {
	case of13.BundleOpenRequest:
		code = s.openBundle(c, m.ID, m.Flags)
	case of13.BundleCloseRequest:
		switch {
		case b == nil:
			code = of13.BundleBadID
		case b.closed:
			delete(c.bundles, m.ID)
			code = of13.BundleClosed
		default:
			b.closed = true
		}
	case of13.BundleCommitRequest:
		code = of13.BundleBadID
		if b != nil {
			delete(c.bundles, m.ID)
			code = s.commitBundle(c, b)
		}
	case of13.BundleDiscardRequest:
		if b == nil {
			code = of13.BundleBadID
		}
		delete(c.bundles, m.ID)
	default:
		code = of13.BundleBadType
	}
	if code != 0 {
		return refuseBundle(code, whole)
	}
	m.CtrlType++
	s.send(c, &m, xid)
	return nil
}

func (s *Switch) openBundle(c *conn, id uint32, flags uint16) (code uint16) {
	switch {
	case c.bundles[id] != nil:
		delete(c.bundles, id)
		return of13.BundleExists
	case len(c.bundles) >= maxBundles:
		return of13.BundleOutOfBundles
	}
	c.bundles[id] = &bundle{flags: flags, used: s.now}
	return 0
}

// addToBundle keeps a message for the commit; it opens the bundle if needed. The message is checked at the commit,
// except that messages that can never be in a bundle, or cannot be decoded, are refused at once.
func (s *Switch) addToBundle(c *conn, m of13.BundleAdd, xid uint32, whole []byte) error {
	b := c.bundles[m.ID]
	if b == nil {
		if code := s.openBundle(c, m.ID, m.Flags); code != 0 {
			return refuseBundle(code, whole)
		}
		b = c.bundles[m.ID]
	}
	b.used = s.now
	h, err := openflow.ParseHeader(m.Message)
	code := uint16(0)
	switch {
	case b.closed:
		code = of13.BundleClosed
	case b.flags != m.Flags:
		code = of13.BundleBadFlags
	case err != nil || int(h.Length) > len(m.Message):
		code = of13.BundleMsgBadLen
	case h.XID != xid:
		code = of13.BundleMsgBadXID
	case h.Version != of13.Version || !s.bundles(h.Type):
		code = of13.BundleMsgUnsup
	case b.bytes+int(h.Length) > maxBundleBytes:
		code = of13.BundleMsgTooMany
	}
	if code != 0 {
		return refuseBundle(code, whole)
	}
	if _, err := of13.Decode(m.Message[:h.Length]); err != nil {
		return err // as Open vSwitch does: the bundle continues without it
	}
	b.msgs = append(b.msgs, slices.Clone(m.Message[:h.Length]))
	b.bytes += int(h.Length)
	return nil
}

// bundles reports whether messages of a type can be in a bundle.
func (s *Switch) bundles(typ uint8) bool {
	switch typ {
	case of13.TypeFlowMod, of13.TypePortMod:
		return true
	case of13.TypeGroupMod, of13.TypePacketOut:
		return !s.config.FewBundled
	}
	return false
}

// commitBundle executes the messages of b in order, all or none. They are rehearsed first: the changes are undone, and
// packets are not sent. What passes the rehearsal cannot fail afterwards.
func (s *Switch) commitBundle(c *conn, b *bundle) (code uint16) {
	serial := s.serial
	s.rehearsing = true
	var err error
	var bad []byte
	for _, msg := range b.msgs {
		if err = s.command(c, msg); err != nil {
			bad = msg
			break
		}
	}
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	s.rehearsing, s.undo, s.serial = false, nil, serial
	if err != nil {
		s.sendError(c, bad, err)
		return of13.BundleMsgFailed
	}
	for _, msg := range b.msgs {
		if err := s.command(c, msg); err != nil {
			panic("vswitch: a bundle passed its rehearsal and failed: " + err.Error())
		}
	}
	return 0
}

// expireBundles discards the bundles that are not completed in time, as Open vSwitch does.
func (c *conn) expireBundles(now time.Duration) {
	for id, b := range c.bundles {
		if b.used+bundleIdle <= now {
			delete(c.bundles, id)
		}
	}
}
