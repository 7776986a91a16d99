package southbound

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Here is what courier does with what the switch answers.

// takes reports whether msg answers what the courier itself has sent, or refuses a command in a
// bundle. refused are the ERROR messages that applications are to get.
func (c *courier) takes(msg []byte) (refused [][]byte, ok bool) {
	if !c.active {
		return nil, false // what it answers is nobody's any more
	}
	xid, own := openflow.XID(msg), openflow.XID(msg) >= courierXIDs
	s := c.step
	switch msg[1] {
	case openflow.TypeError:
		if !own && (s == nil || !s.bundles(xid)) {
			return nil, false
		}
		return c.failed(msg), true
	case of13.TypeBarrierReply:
		if own && s != nil && s.barrier == xid {
			return c.passed(), true
		}
		return nil, own
	case openflow.TypeExperimenter:
		var reply of13.BundleControl
		switch {
		case !own || s == nil || reply.Decode(msg) != nil:
		case s.open == xid && reply.CtrlType == of13.BundleOpenReply:
			s.opened = true
		case s.commit == xid && reply.CtrlType == of13.BundleCommitReply:
			c.finish()
		}
		return nil, own
	}
	return nil, false
}

// bundles reports whether a command with this xid is in the step's bundle.
func (s *step) bundles(xid uint32) bool {
	return s.kind == bundled && slices.ContainsFunc(s.commands,
		func(x command) bool { return openflow.XID(x.msg) == xid })
}

// finish ends a step that is done.
func (c *courier) finish() {
	c.marker.seq = max(c.marker.seq, c.step.last())
	c.step, c.tries = nil, 0
	c.pump()
}

// failed takes an ERROR.
func (c *courier) failed(msg []byte) (refused [][]byte) {
	var e of13.Error
	if err := e.Decode(msg); err != nil {
		return nil
	}
	if e.ErrType == of13.ErrTypeBadRequest && e.Code == of13.BadRequestIsSlave {
		c.halt() // another controller is master now
		c.lost = true
		return nil
	}
	s, xid := c.step, openflow.XID(msg)
	switch {
	case s == nil:
	case s.bundles(xid):
		s.refusals = append(s.refusals, slices.Clone(msg))
	case xid == s.open:
		if _, some := e.BundleError(); some && c.tries < maxTries { // it knows bundles, and has too many
			s.retry = true
			c.tries++
		}
	case xid == s.marker:
		c.serial, c.unmarked = true, c.unmarked || s.kind == marked // it may take one outside of bundles
	case xid == s.barrier:
		return c.passed() // it has its place in the order, too
	case xid == s.commit:
		return c.rejected(e)
	}
	return nil
}

// passed takes the answer to the last barrier of the step.
func (c *courier) passed() (refused [][]byte) {
	s := c.step
	switch {
	case s.kind != bundled:
		c.finish()
	case s.commit != 0: // the answer to the commit decides
	case s.retry:
		c.again()
	case c.serial || !s.opened: // whoever has not answered by now does not know what was asked
		c.serial = true
		c.control(s, of13.BundleDiscardRequest, c.xid())
		c.again()
	case len(s.refusals) > 0:
		c.control(s, of13.BundleDiscardRequest, c.xid())
		return c.refuse()
	default:
		s.commit = c.xid()
		c.control(s, of13.BundleCommitRequest, s.commit)
	}
	return nil
}

// rejected takes the refusal of a commit: nothing of the bundle was done.
func (c *courier) rejected(e of13.Error) [][]byte {
	s := c.step
	code, ours := e.BundleError()
	switch timeout := ours && code != of13.BundleMsgFailed; {
	case c.serial:
		c.again()
		return nil
	case len(s.refusals) > 0:
	case timeout && c.tries < maxTries: // of the bundle itself: it was open for too long, or there are too many
		c.tries++
		c.again()
		return nil
	case len(s.commands) == 0:
		c.serial = true // it does not even take the marker
		c.again()
		return nil
	default: // the switch does not say which is bad
		bad := s.commands[0].msg
		own := of13.Error{ErrType: e.ErrType, Code: e.Code, Data: e.Data}
		s.refusals = append(s.refusals, own.Append(nil, openflow.XID(bad)))
	}
	return c.refuse()
}

// refuse deals with a bundle of which some command is bad. If it has one transaction this is void, and
// nothing else goes until the log says so; else each goes alone.
func (c *courier) refuse() (refused [][]byte) {
	s := c.step
	if s.transactions > 1 {
		c.solo += s.transactions
		c.again()
		return nil
	}
	for _, r := range s.refusals {
		refused = append(refused, s.unwrap(r))
	}
	c.fresh = max(c.fresh, s.fresh) // the marker was not set
	c.step, c.hold, c.tries = nil, true, 0
	return refused
}

// unwrap makes the ERROR for a message in a bundle that for the command itself: the switch shows the
// message that had it in it.
func (s *step) unwrap(refusal []byte) []byte {
	var e of13.Error
	xid := openflow.XID(refusal)
	i := slices.IndexFunc(s.commands, func(x command) bool { return openflow.XID(x.msg) == xid })
	if e.Decode(refusal) != nil || i < 0 || e.ErrType == of13.ErrTypeExperimenter {
		return refusal
	}
	msg := s.commands[i].msg
	e.Data = msg[:min(len(msg), 64)]
	return e.Append(nil, xid)
}

// again has the commands of the step go once more, before all others.
func (c *courier) again() {
	s := c.step
	c.queue, c.fresh, c.step = append(s.commands, c.queue...), max(c.fresh, s.fresh), nil
	c.pump()
}

// logged says that the last refusal is in the log.
func (c *courier) logged() {
	c.hold = false
	c.pump()
}

// answers reports whether msg is the last that is to come for the request that was sent alone: then it
// is done as soon as msg is logged.
func (c *courier) answers(msg []byte) (seq uint64, last bool) {
	s := c.step
	if s == nil || s.kind != alone || openflow.XID(msg) != openflow.XID(s.commands[0].msg) {
		return 0, false
	}
	if msg[1] == of13.TypeMultipartReply && len(msg) >= 12 && msg[11]&byte(of13.FlagMore) != 0 {
		return 0, false
	}
	if len(c.queue) > 0 {
		return c.queue[0].seq - 1, true
	}
	return c.last, true
}
