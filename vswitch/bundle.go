package vswitch

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Bundles as ONF extension 230 has them for OpenFlow 1.3: the messages of OpenFlow 1.4 (sections 6.8 and 7.3.9 of
// that specification) in EXPERIMENTER messages.
const (
	onfID            uint32 = 0x4f4e4600
	onfBundleControl uint32 = 2300
	onfBundleAdd     uint32 = 2301
)

// Types of a bundle control message; each answer is the request plus one.
const (
	bundleOpen    uint16 = 0
	bundleClose   uint16 = 2
	bundleCommit  uint16 = 4
	bundleDiscard uint16 = 6
)

// Flags of a bundle. Every bundle here is executed as if it had both.
const (
	bundleAtomic  uint16 = 1 << 0
	bundleOrdered uint16 = 1 << 1
)

// Codes of the experimenter's errors.
const (
	bundleBadID      uint16 = 2302
	bundleExists     uint16 = 2303
	bundleClosed     uint16 = 2304
	bundleTooMany    uint16 = 2305
	bundleBadType    uint16 = 2306
	bundleBadFlags   uint16 = 2307
	bundleMsgBadLen  uint16 = 2308
	bundleMsgBadXID  uint16 = 2309
	bundleMsgUnsup   uint16 = 2310
	bundleMsgTooMany uint16 = 2312
	bundleMsgFailed  uint16 = 2313
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
	data := binary.BigEndian.AppendUint32(nil, onfID)
	return &of13.Error{ErrType: of13.ErrTypeExperimenter, Code: code, Data: append(data, msg[:min(len(msg), 64)]...)}
}

// bundleMessage executes a message of the extension.
func (s *Switch) bundleMessage(c *conn, m *of13.Experimenter, xid uint32) error {
	whole := m.Append(nil, xid) // for the data of errors
	if m.ExpType != onfBundleControl && m.ExpType != onfBundleAdd {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadExpType)
	}
	if len(m.Data) < 8 {
		return refuse(of13.ErrTypeBadRequest, of13.BadRequestBadLen)
	}
	id, kind, flags := binary.BigEndian.Uint32(m.Data), binary.BigEndian.Uint16(m.Data[4:]), binary.BigEndian.Uint16(m.Data[6:])
	if flags&^(bundleAtomic|bundleOrdered) != 0 {
		return refuseBundle(bundleBadFlags, whole)
	}
	b := c.bundles[id]
	if b != nil {
		b.used = s.now
	}
	if m.ExpType == onfBundleAdd {
		return s.addToBundle(c, id, flags, m.Data[8:], xid, whole)
	}
	if b != nil && b.flags != flags && kind != bundleOpen {
		delete(c.bundles, id)
		return refuseBundle(bundleBadFlags, whole)
	}
	code := uint16(0)
	switch kind {
	case bundleOpen:
		code = s.openBundle(c, id, flags)
	case bundleClose:
		switch {
		case b == nil:
			code = bundleBadID
		case b.closed:
			delete(c.bundles, id)
			code = bundleClosed
		default:
			b.closed = true
		}
	case bundleCommit:
		code = bundleBadID
		if b != nil {
			delete(c.bundles, id)
			code = s.commitBundle(c, b)
		}
	case bundleDiscard:
		if b == nil {
			code = bundleBadID
		}
		delete(c.bundles, id)
	default:
		code = bundleBadType
	}
	if code != 0 {
		return refuseBundle(code, whole)
	}
	answer := slices.Clone(m.Data[:8])
	binary.BigEndian.PutUint16(answer[4:], kind+1)
	s.send(c, &of13.Experimenter{ID: onfID, ExpType: onfBundleControl, Data: answer}, xid)
	return nil
}

func (s *Switch) openBundle(c *conn, id uint32, flags uint16) (code uint16) {
	switch {
	case c.bundles[id] != nil:
		delete(c.bundles, id)
		return bundleExists
	case len(c.bundles) >= maxBundles:
		return bundleTooMany
	}
	c.bundles[id] = &bundle{flags: flags, used: s.now}
	return 0
}

// addToBundle keeps a message for the commit; a bundle that is not there is opened. The message is judged when it is committed, but
// for what can never be in a bundle.
func (s *Switch) addToBundle(c *conn, id uint32, flags uint16, msg []byte, xid uint32, whole []byte) error {
	b := c.bundles[id]
	if b == nil {
		if code := s.openBundle(c, id, flags); code != 0 {
			return refuseBundle(code, whole)
		}
		b = c.bundles[id]
	}
	h, err := openflow.ParseHeader(msg)
	code := uint16(0)
	switch {
	case b.closed:
		code = bundleClosed
	case b.flags != flags:
		code = bundleBadFlags
	case err != nil || int(h.Length) > len(msg):
		code = bundleMsgBadLen
	case h.XID != xid:
		code = bundleMsgBadXID
	case h.Version != of13.Version || h.Type != of13.TypeFlowMod && h.Type != of13.TypeGroupMod && h.Type != of13.TypePortMod && h.Type != of13.TypePacketOut:
		code = bundleMsgUnsup
	case b.bytes+int(h.Length) > maxBundleBytes:
		code = bundleMsgTooMany
	}
	if code != 0 {
		return refuseBundle(code, whole)
	}
	b.msgs = append(b.msgs, slices.Clone(msg[:h.Length]))
	b.bytes += int(h.Length)
	return nil
}

// commitBundle executes the messages of b in their order, all or none. They are rehearsed first: what the commands
// change is undone, and packets are not sent. What passes the rehearsal cannot fail afterwards.
func (s *Switch) commitBundle(c *conn, b *bundle) (code uint16) {
	if c.role == of13.RoleSlave && len(b.msgs) > 0 {
		s.sendError(c, b.msgs[0], refuse(of13.ErrTypeBadRequest, of13.BadRequestIsSlave))
		return bundleMsgFailed
	}
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
		return bundleMsgFailed
	}
	for _, msg := range b.msgs {
		if err := s.command(c, msg); err != nil {
			panic("vswitch: a bundle passed its rehearsal and failed: " + err.Error())
		}
	}
	return 0
}

// expireBundles discards the bundles that nobody completes, as Open vSwitch does.
func (c *conn) expireBundles(now time.Duration) {
	for id, b := range c.bundles {
		if b.used+bundleIdle <= now {
			delete(c.bundles, id)
		}
	}
}
