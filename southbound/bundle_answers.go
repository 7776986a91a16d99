package southbound

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// How a bundleSender handles the answers of the switch.

// takes reports whether msg answers a message of the sender itself, or refuses a command in a bundle. refused are the
// ERROR messages to deliver to applications.
func (b *bundleSender) takes(msg []byte) (refused [][]byte, ok bool) {
	if !b.active {
		return nil, false // it answers a request of an ended epoch or mastership
	}
	xid, own := openflow.XID(msg), openflow.XID(msg) >= firstXID
	s := b.step
	switch msg[1] {
	case openflow.TypeError:
		if !own && b.inBundle(xid) == nil {
			return nil, false
		}
		return b.failed(msg), true
	case of13.TypeBarrierReply:
		if own && s != nil && s.barrier == xid {
			return b.passed(), true
		}
		return nil, own
	case openflow.TypeExperimenter:
		var reply of13.BundleControl
		switch {
		case !own || s == nil || reply.Decode(msg) != nil:
		case s.open == xid && reply.CtrlType == of13.BundleOpenReply:
			s.opened = true
		case s.commit == xid && reply.CtrlType == of13.BundleCommitReply:
			b.finish()
		}
		return nil, own
	}
	return nil, false
}

// inBundle returns the command with this xid in the outstanding bundle; nil if there is none.
func (b *bundleSender) inBundle(xid uint32) []byte {
	if s := b.step; s != nil && s.bundled {
		for seq := s.first; seq <= s.last; seq++ {
			if msg := b.box.Item(seq); openflow.XID(msg) == xid {
				return msg
			}
		}
	}
	return nil
}

// finish ends a step whose commands are done.
func (b *bundleSender) finish() {
	b.marker = b.behind(b.step)
	b.settle(b.step.last)
	b.step, b.tries = nil, 0
	b.pump()
}

// failed handles an ERROR.
func (b *bundleSender) failed(msg []byte) (refused [][]byte) {
	var e of13.Error
	if err := e.Decode(msg); err != nil {
		return nil
	}
	if e.ErrType == of13.ErrTypeBadRequest && e.Code == of13.BadRequestIsSlave {
		b.halt() // another controller is master now
		b.fenced = true
		return nil
	}
	s, xid := b.step, openflow.XID(msg)
	cmd := b.inBundle(xid)
	switch {
	case s == nil:
	case cmd != nil && b.excludes(cmd[1], e):
		s.excluded = true
	case cmd != nil:
		if uint64(len(s.refusals)) <= s.last-s.first { // one for each command is all that there can be
			s.refusals = append(s.refusals, slices.Clone(msg))
		}
	case xid == s.open:
		if _, some := e.BundleError(); some && b.tries < maxTries { // it supports bundles, and has too many
			s.retry = true
			b.tries++
		}
	case xid == s.marker && !s.retry && !s.excluded: // else there may be no bundle for it
		b.cannot = noMarker
	case xid == s.barrier:
		return b.passed() // an ERROR has its place in the order too, like a reply
	case xid == s.commit:
		return b.rejected(e)
	}
	return nil
}

// excludes reports whether e says that the switch takes no command of this type in a bundle, and remembers the type.
// Every switch that has bundles must take FLOW_MOD.
func (b *bundleSender) excludes(typ uint8, e of13.Error) bool {
	code, ours := e.BundleError()
	if !ours || code != of13.BundleMsgUnsup || typ == of13.TypeFlowMod {
		return false
	}
	b.alone |= 1 << typ
	return true
}

const noMarker = "it does not take the flow entry that says what is done: run an agent beside it"

// passed handles the answer to the last barrier of the step.
func (b *bundleSender) passed() (refused [][]byte) {
	s := b.step
	switch {
	case b.cannot != "":
	case !s.bundled:
		b.finish()
	case s.commit != 0: // the answer to the commit decides the result
	case s.retry:
		b.again()
	case !s.opened: // without an answer by now, the switch does not support bundles
		b.cannot = noBundles
	case s.excluded: // before refusals: the next try shows these again
		b.control(s, of13.BundleDiscardRequest, b.xid())
		b.again()
	case len(s.refusals) > 0:
		b.control(s, of13.BundleDiscardRequest, b.xid())
		return b.refuse()
	default:
		s.commit = b.xid()
		b.control(s, of13.BundleCommitRequest, s.commit)
	}
	return nil
}

// rejected handles the refusal of a commit: no command of the bundle was executed.
func (b *bundleSender) rejected(e of13.Error) [][]byte {
	s := b.step
	code, ours := e.BundleError()
	switch timeout := ours && code != of13.BundleMsgFailed; {
	case b.cannot != "":
		return nil
	case s.excluded:
		b.again()
		return nil
	case len(s.refusals) > 0:
	case timeout && b.tries < maxTries: // of the bundle itself: it was open for too long, or there are too many
		b.tries++
		b.again()
		return nil
	case s.last < s.first:
		b.cannot = noMarker
		return nil
	default: // the switch does not say which is bad
		own := of13.Error{ErrType: e.ErrType, Code: e.Code, Data: e.Data}
		s.refusals = append(s.refusals, own.Append(nil, openflow.XID(b.command(1))))
	}
	return b.refuse()
}

// refuse handles a bundle with a bad command. If it has one transaction, that is discarded, and nothing is sent until
// its refusal is logged. Otherwise each transaction is sent alone.
func (b *bundleSender) refuse() (refused [][]byte) {
	s := b.step
	if s.transactions > 1 {
		b.solo += s.transactions
		b.again()
		return nil
	}
	for _, r := range s.refusals {
		refused = append(refused, b.unwrap(r))
	}
	b.fresh = max(b.fresh, s.fresh) // the marker was not set
	b.settle(s.last)
	b.step, b.hold, b.tries = nil, true, 0
	return refused
}

// unwrap turns the ERROR for a message in a bundle into one for the command itself, because the switch returns the
// message that contained the command.
func (b *bundleSender) unwrap(refusal []byte) []byte {
	var e of13.Error
	msg := b.inBundle(openflow.XID(refusal))
	if e.Decode(refusal) != nil || msg == nil || e.ErrType == of13.ErrTypeExperimenter {
		return refusal
	}
	e.Data = msg[:min(len(msg), 64)]
	return e.Append(nil, openflow.XID(refusal))
}

// again sends the commands of the step once more.
func (b *bundleSender) again() {
	b.fresh, b.step = max(b.fresh, b.step.fresh), nil
	b.pump()
}

// logged records that the last refusal is in the log.
func (b *bundleSender) logged() {
	b.hold = false
	b.pump()
}

// answers reports whether msg is the last answer to the request that was sent alone. The request is done as soon as msg
// is logged. continues says that msg is a translation, and that the message of the switch has more parts.
func (b *bundleSender) answers(msg []byte, continues bool) (seq uint64, last bool) {
	s := b.step
	if s == nil || s.bundled || continues || hasMore(msg) {
		return 0, false
	}
	request := b.box.Item(s.first)
	if !repeatable(request[1]) || openflow.XID(msg) != openflow.XID(request) {
		return 0, false
	}
	return s.first, true
}

// hasMore reports whether msg, of OpenFlow 1.3 or later, is a part of a reply and not its last one.
func hasMore(msg []byte) bool {
	return msg[1] == of13.TypeMultipartReply && len(msg) >= 12 && msg[11]&byte(of13.FlagMore) != 0
}
