package southbound

import (
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/of14"
)

// translator translates messages of a switch of another version into OpenFlow 1.3, and commands into that version. Its
// results are valid until the next call of the same direction.
type translator struct {
	in, fromV13  []byte
	untranslated uint64   // messages that the other version cannot express
	asked        []uint32 // xids of PORT_DESC requests of the replayed application to a switch of 1.0, the newest last
}

// maxAsked bounds asked; what is older is answered by the features.
const maxAsked = 64

// eventsToV13 translates a run of numbered events: each becomes exactly one message.
func (t *translator) eventsToV13(run []byte) []byte {
	t.in = t.in[:0]
	for len(run) > 0 {
		n := int(run[2])<<8 | int(run[3])
		msg := run[:n]
		run = run[n:]
		at := len(t.in)
		if t.in = t.toV13(t.in, msg); countMessages(t.in[at:]) != 1 {
			t.in = t.cannotSay(t.in[:at], msg, of13.BadRequestMultipartBufferOverflow)
		}
	}
	return t.in
}

// runToV13 translates events that have no numbers yet, and returns how many messages they became.
func (t *translator) runToV13(run []byte) ([]byte, int) {
	t.in = t.in[:0]
	for len(run) > 0 {
		n := int(run[2])<<8 | int(run[3])
		t.in = t.toV13(t.in, run[:n])
		run = run[n:]
	}
	return t.in, countMessages(t.in)
}

func (t *translator) toV13(dst, msg []byte) []byte {
	if msg[0] == of13.Version {
		return append(dst, msg...)
	}
	var err error
	at := len(dst)
	switch typ, ours := experimenter.Is(msg); {
	case ours && typ == experimenter.TypeSwitchUp:
		var up experimenter.SwitchUp
		if up, err = experimenter.ParseSwitchUp(msg); err == nil {
			return append(dst, t.upToV13(up.Features, up.Ports)...)
		}
	case ours:
		dst = append(dst, msg...)
		dst[at] = of13.Version // the layout is the same
		return dst
	case msg[0] != openflow.Version10:
		dst, err = of14.ToV13(dst, msg)
	case msg[1] == of13.TypeFeaturesReply && t.answersPorts(openflow.XID(msg)):
		dst, err = of10.PortsToV13(dst, msg)
	default:
		dst, err = of10.ToV13(dst, msg)
	}
	if err != nil {
		return t.cannotSay(dst[:at], msg, of13.BadRequestBadType)
	}
	return dst
}

// cannotSay replaces a message that 1.3 cannot express by an ERROR, so the requester gets an answer and the numbering
// is kept.
func (t *translator) cannotSay(dst, msg []byte, code uint16) []byte {
	t.untranslated++
	e := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: code, Data: msg[:min(len(msg), 64)]}
	return e.Append(dst, openflow.XID(msg))
}

// answersPorts reports whether the application whose request a FEATURES_REPLY of 1.0 answers has asked for PORT_DESC.
// Those of the ledger ask for nothing else that is answered so: they have the features from SWITCH_UP. So it does not
// matter whether this session has sent the request: after a failover the reply can come to another one, or again.
func (t *translator) answersPorts(xid uint32) bool {
	switch {
	case xid >= handshake.OwnXID:
		return false
	case message.TagOf(xid) == message.Replayed:
		return slices.Contains(t.asked, xid)
	}
	return true
}

// ask notes whether a request with this xid asks for PORT_DESC, if it is of the replayed application.
func (t *translator) ask(xid uint32, ports bool) {
	if message.TagOf(xid) != message.Replayed {
		return
	}
	t.asked = slices.DeleteFunc(t.asked, func(x uint32) bool { return x == xid })
	if !ports {
		return
	}
	if len(t.asked) == maxAsked {
		t.asked = slices.Delete(t.asked, 0, 1)
	}
	t.asked = append(t.asked, xid)
}

// upToV13 makes SWITCH_UP. If not all ports fit, all are left out.
func (t *translator) upToV13(features, ports []byte) []byte {
	up := experimenter.SwitchUp{Features: features, Ports: ports}
	if len(features) > 0 && features[0] != of13.Version {
		var err error
		if up.Features, err = t.featuresToV13(nil, features); err != nil {
			up.Features = nil
		}
		switch {
		case features[0] == openflow.Version10:
			up.Ports, err = of10.PortsToV13(nil, features)
		case len(ports) > 0:
			up.Ports, err = of14.ToV13(nil, ports)
		}
		if err != nil || countMessages(up.Ports) != 1 || len(up.Ports)+len(up.Features) > openflow.MaxMessageLen-64 {
			up.Ports = nil
		}
	}
	return up.Append(nil, of13.Version)
}

func (t *translator) featuresToV13(dst, features []byte) ([]byte, error) {
	switch features[0] {
	case of13.Version:
		return append(dst, features...), nil
	case openflow.Version10:
		return of10.ToV13(dst, features)
	}
	return of14.ToV13(dst, features)
}

// commandsFromV13 translates commands, each into exactly one message. A command that the switch's version cannot
// express becomes an EXPERIMENTER message that no switch supports. So the switch itself refuses it, under the command's
// xid, and the application that sent it receives the ERROR.
func (t *translator) commandsFromV13(version uint8, messages []byte) []byte {
	t.fromV13 = t.fromV13[:0]
	for len(messages) > 0 {
		n := int(messages[2])<<8 | int(messages[3])
		msg := messages[:n]
		messages = messages[n:]
		at := len(t.fromV13)
		var err error
		if version == openflow.Version10 {
			t.fromV13, err = of10.FromV13(t.fromV13, msg)
		} else {
			t.fromV13, err = of14.FromV13(t.fromV13, msg, version)
		}
		if err != nil || countMessages(t.fromV13[at:]) != 1 {
			t.untranslated++
			t.fromV13 = openflow.AppendHeader(t.fromV13[:at], version, openflow.TypeExperimenter, openflow.XID(msg))
			t.fromV13 = binary.BigEndian.AppendUint64(t.fromV13, uint64(experimenter.ID)<<32)
			openflow.SetLength(t.fromV13[at:])
			continue
		}
		if version == openflow.Version10 && t.fromV13[at+1] == of13.TypeFeaturesRequest {
			t.ask(openflow.XID(msg), msg[1] == of13.TypeMultipartRequest)
		}
	}
	return t.fromV13
}
