package southbound

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// How bundles handles the messages of the switch.

// deliverBytes bounds the held events that are delivered in one batch.
const deliverBytes = 256 << 10

func (b *bundles) more() bool {
	return b.state == leading && (!b.paused && b.told < b.held.Last() || b.moreDone()) || b.moreEnd()
}

// moreEnd reports whether the end of the epoch is to be delivered.
func (b *bundles) moreEnd() bool { return b.state == ending && !b.paused && b.told == b.resume.Events }

// moreDone reports whether commands are done that were not reported. A command whose answer is an event is reported
// when that event is delivered, so not while the switch is held up.
func (b *bundles) moreDone() bool {
	delivered := b.answer == 0 || b.answer <= b.told && !b.paused
	return delivered && b.sender.done() > b.doneSaid
}

func (b *bundles) next(buf []byte, now uint64) (rest []byte, a Action, err error) {
	switch {
	case b.state == leading && !b.paused && b.told < b.held.Last():
		return buf, b.deliverHeld(), nil
	case b.state == leading && b.moreDone():
		b.doneSaid = b.sender.done()
		return buf, Action{Kind: CommandsDone, Batch: Batch{Epoch: b.epoch}, Done: b.doneSaid}, nil
	case b.moreEnd():
		b.told++
		return buf, b.ended(b.told, experimenter.ReasonConnectionLost), nil
	case len(buf) == 0:
		return nil, Action{}, nil
	}
	if b.hs.Version == of13.Version {
		if n, count := b.run(buf); n > 0 {
			return buf[n:], b.handOver(buf[:n], count), nil
		}
	}
	msg, rest, err := openflow.Next(buf)
	if err == nil && msg[0] != b.hs.Version {
		err = errVersion(msg[0], b.hs.Version)
	}
	if err != nil {
		return nil, Action{}, err
	}
	if b.state == asking && answersHandshake(msg) {
		return rest, Action{}, b.answered(msg, now) // answered reads the switch's own version
	}
	continues := hasMore(msg)
	if b.hs.Version != of13.Version {
		msg, _ = b.runToV13(msg)
	}
	for len(msg) > 0 && err == nil {
		n := int(msg[2])<<8 | int(msg[3])
		err = b.message(msg[:n:n], continues, now)
		msg = msg[n:]
	}
	return rest, Action{}, err
}

// run delivers as many shared events from the start of buf as need no change: the usual case.
func (b *bundles) run(buf []byte) (n, count int) {
	if b.state != leading || b.paused || len(b.held.ahead) > 0 {
		return 0, 0
	}
	for n < len(buf) && !b.held.full() {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		msg := buf[n : n+size]
		if msg[0] != of13.Version || !shared(msg[1]) {
			break
		}
		if _, marker := syncMarkerIn(msg); marker {
			break
		}
		b.held.received(msg, false)
		n, count = n+size, count+1
	}
	return n, count
}

// handOver makes the action for the next held events.
func (b *bundles) handOver(messages []byte, count int) Action {
	a := Action{Kind: Events, Batch: Batch{Epoch: b.epoch, First: b.told + 1, Count: count, Messages: messages}}
	next := b.nextAnswer()
	b.told += uint64(count)
	if 0 < next.event && next.event <= b.told {
		a.Batch.Done, b.doneSaid = next.done, max(b.doneSaid, next.done)
	}
	return a
}

// deliverHeld delivers held events. A batch ends with an answer, because later events may be in another entry, and the
// completion of the command must be in the entry of its answer.
func (b *bundles) deliverHeld() Action {
	upTo := b.held.Last()
	if next := b.nextAnswer(); next.event > 0 {
		upTo = next.event
	}
	_, n, run := b.held.Run(b.told, upTo, deliverBytes)
	b.in = append(b.in[:0], run...) // the handler reads it while more events are added to held
	return b.handOver(b.in, n)
}

// answersWith records that commands up to done are done together with the newest event.
func (b *bundles) answersWith(done uint64) {
	b.answer = b.held.Last()
	b.answers = append(b.answers, answer{b.answer, done})
}

// nextAnswer returns the first answer that was not delivered; zero if there is none.
func (b *bundles) nextAnswer() (next answer) {
	i, _ := slices.BinarySearchFunc(b.answers, b.told+1,
		func(a answer, number uint64) int { return cmp.Compare(a.event, number) })
	if i < len(b.answers) {
		next = b.answers[i]
	}
	return next
}

// message handles one message, of OpenFlow 1.3. For continues see bundleSender.answers.
func (b *bundles) message(msg []byte, continues bool, now uint64) error {
	xid := openflow.XID(msg)
	switch typ := msg[1]; {
	case typ == openflow.TypeEchoRequest:
		b.out = handshake.EchoReply(b.out, msg)
		b.out[len(b.out)-len(msg)] = b.hs.Version
		return nil
	case typ == openflow.TypeHello, typ == openflow.TypeEchoReply:
		return nil
	case shared(typ):
		if b.held.flooded() {
			return errFlooded
		}
		if m, ok := syncMarkerIn(msg); ok {
			msg, b.unseen = m.Append(nil, of13.Version), 0
		}
		b.held.received(msg, false)
		return nil
	case typ == openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return errPlaysAgent(t)
		}
	}
	if refused, ours := b.sender.takes(msg); ours {
		b.refusals(refused)
		switch {
		case b.sender.cannot != "":
			return unable{b.sender.cannot}
		case b.state == founding && b.sender.step == nil && b.sender.active:
			b.founded(now)
		}
		return nil
	}
	if xid >= handshake.OwnXID || xid == 0 && msg[1] == openflow.TypeExperimenter { // the latter is ROLE_STATUS
		return b.roleOrMarkers(msg, now)
	}
	if b.state == leading { // an answer to an application
		b.held.received(msg, true)
		if done, last := b.sender.answers(msg, continues); last {
			b.answersWith(done)
		}
	}
	return nil
}

// refusals delivers ERROR messages for commands in a bundle.
func (b *bundles) refusals(list [][]byte) {
	if len(list) == 0 || b.state != leading {
		return
	}
	for _, msg := range list {
		b.held.received(msg, true)
	}
	b.answersWith(b.sender.done())
	b.refusal = b.held.Last()
}

// answersHandshake reports whether msg belongs to the handshake of a new epoch.
func answersHandshake(msg []byte) bool {
	switch msg[1] {
	case of13.TypeFeaturesReply, of13.TypeMultipartReply, openflow.TypeError:
		xid := openflow.XID(msg)
		return xid >= handshake.OwnXID && xid < firstXID
	}
	return false
}

func (b *bundles) answered(msg []byte, now uint64) (err error) {
	if b.out, err = b.hs.Input(b.out, msg); err != nil || !b.hs.Done {
		return err
	}
	if b.hs.Datapath != b.id {
		return errRenamed(b.hs.Datapath)
	}
	b.held.clear()                          // earlier events belong to no epoch
	b.held.inSync, b.held.ahead = true, nil // and all that follow belong to the new one
	b.found(now)
	return nil
}

// roleOrMarkers handles answers to claim.
func (b *bundles) roleOrMarkers(msg []byte, now uint64) error {
	if b.state != claiming {
		return nil
	}
	xid := openflow.XID(msg)
	switch msg[1] {
	case of13.TypeRoleReply:
		var r of13.RoleReply
		err := r.Decode(msg)
		b.accepted = b.accepted || err == nil && xid == b.roleXID && r.Role == of13.RoleMaster
		return err
	case openflow.TypeError:
		var e of13.Error
		if err := e.Decode(msg); err != nil {
			return err
		}
		switch {
		case xid == b.roleXID && isStale(e): // an entry of this leader soon shows whether another leads
			b.stale = true
		case xid == b.roleXID:
			return unable{noRoles}
		case xid == b.markersXID && b.accepted: // it cannot list flow entries: treated as no marker
			b.decide(now)
		}
	case of13.TypeMultipartReply:
		var part of13.MultipartReply
		if err := part.Decode(msg); err != nil || xid != b.markersXID {
			return err
		}
		most := experimenter.MaxEpoch(b.resume.Epoch)
		for f := range part.Flows().All() {
			if m, ok := markerOf(f); ok && m.epoch < most && len(b.markers) < maxMarkers {
				b.markers = append(b.markers, m)
			}
		}
		if part.Flags&of13.FlagMore == 0 && b.accepted {
			b.decide(now)
		}
	}
	return nil
}

// maxMarkers bounds the markers that are examined: usually there is one, or none. Those whose epoch leaves none above
// it that the ledger takes are not of this cluster.
const maxMarkers = 16

// withoutRoles returns the messages with those that would change roles replaced by messages that no switch supports. So
// the switch refuses them, and the application that sent them receives the ERROR.
func withoutRoles(messages []byte) []byte {
	copied := false
	for at := 0; at < len(messages); {
		n := int(messages[at+2])<<8 | int(messages[at+3])
		if typ := messages[at+1]; typ == of13.TypeRoleRequest || typ == of13.TypeSetAsync {
			if !copied {
				messages, copied = bytes.Clone(messages), true
			}
			messages[at+1] = openflow.TypeExperimenter
			if n >= openflow.HeaderLen+4 {
				binary.BigEndian.PutUint32(messages[at+openflow.HeaderLen:], experimenter.ID)
			}
		}
		at += n
	}
	return messages
}
