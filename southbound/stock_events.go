package southbound

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Here is what Core does with what a stock switch says.

// deliverBytes bounds the events held that are handed over at once.
const deliverBytes = 256 << 10

// More reports that Next has something to say though nothing has come.
func (c *Core) More() bool {
	s := &c.stock
	return c.mode == Stock && s.state == leading && !c.refused && (!s.paused && s.told < s.end() || s.moreDone())
}

// moreDone reports that commands are done that were not said to be. What is done with an answer waits for that to be
// handed over; which is not certain while the switch is held up.
func (s *stock) moreDone() bool {
	handed := s.answer == 0 || s.answer <= s.told && !s.paused
	return handed && s.courier.done() > s.doneSaid
}

// end is the number of the newest event held.
func (s *stock) end() uint64 { return s.first + uint64(s.held.len()) - 1 }

// Held is how many events of a stock switch are held here: those that are not in the log, as far as is known.
func (c *Core) Held() int { return c.stock.held.len() }

// stockMessages takes messages from a switch that has no agent.
func (c *Core) stockMessages(buf []byte, now uint64) (rest []byte, a Action, err error) {
	s := &c.stock
	defer c.flushCourier()
	if s.state == leading && !s.paused && s.told < s.end() {
		return buf, c.deliverHeld(), nil
	}
	if s.state == leading && s.moreDone() {
		s.doneSaid = s.courier.done()
		return buf, c.stockDone(), nil
	}
	if len(buf) == 0 {
		return nil, Action{}, nil
	}
	if c.hs.Version == of13.Version {
		if n, count, err := c.run(buf); n > 0 || err != nil {
			return buf[n:], c.handOver(buf[:n], count), err
		}
	}
	msg, rest, err := openflow.Next(buf)
	if err == nil && msg[0] != c.hs.Version {
		err = fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", msg[0], c.hs.Version)
	}
	if err != nil {
		return nil, Action{}, err
	}
	if s.state == asking && c.asked(msg) {
		return rest, Action{}, c.answered(msg, now) // which reads the switch's own version
	}
	if c.hs.Version != of13.Version {
		msg, _ = c.runToV13(msg)
	}
	for len(msg) > 0 && err == nil {
		n := int(msg[2])<<8 | int(msg[3])
		err = c.stockMessage(msg[:n:n], now)
		msg = msg[n:]
	}
	return rest, Action{}, err
}

// run takes as many shared events from the start of buf as are to be handed over as they are: the usual case.
func (c *Core) run(buf []byte) (n, count int, err error) {
	s := &c.stock
	if s.state != leading || s.paused || len(s.held.ahead) > 0 {
		return 0, 0, nil
	}
	for n < len(buf) && !s.held.full() {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		msg := buf[n : n+size]
		if msg[0] != of13.Version || !shared(msg[1]) {
			break
		}
		if _, mark := markIn(msg); mark {
			break
		}
		s.held.received(msg, false)
		n, count = n+size, count+1
	}
	return n, count, nil
}

// handOver makes the action for events that were just put among those held.
func (c *Core) handOver(messages []byte, count int) Action {
	s := &c.stock
	a := Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: s.told + 1, Count: count, Messages: messages}}
	next := s.nextAnswer()
	s.told += uint64(count)
	if 0 < next.event && next.event <= s.told {
		a.Batch.Done, s.doneSaid = next.done, max(s.doneSaid, next.done)
	}
	return a
}

// answered notes that commands up to done are done together with the newest event.
func (s *stock) answered(done uint64) {
	s.answer = s.end()
	s.answers = append(s.answers, answer{s.answer, done})
}

// nextAnswer is the first that was not handed over; zero if there is none.
func (s *stock) nextAnswer() (next answer) {
	i, _ := slices.BinarySearchFunc(s.answers, s.told+1,
		func(a answer, number uint64) int { return cmp.Compare(a.event, number) })
	if i < len(s.answers) {
		next = s.answers[i]
	}
	return next
}

func (c *Core) deliverHeld() Action {
	s := &c.stock
	n, most := 0, s.held.len()
	// the batch ends with it: what comes behind may go into another entry, and what is done must not
	if next := s.nextAnswer(); next.event > 0 {
		most = int(next.event - s.told)
	}
	c.in, n = s.held.appendTo(c.in[:0], int(s.told+1-s.first), most, deliverBytes)
	return c.handOver(c.in, n)
}

func (c *Core) stockDone() Action {
	return Action{Kind: CommandsDone, Batch: Batch{Epoch: c.epoch}, Done: c.stock.doneSaid}
}

// stockMessage takes one message, of OpenFlow 1.3.
func (c *Core) stockMessage(msg []byte, now uint64) error {
	s, xid := &c.stock, openflow.XID(msg)
	switch typ := msg[1]; {
	case typ == openflow.TypeEchoRequest:
		c.out = append(c.out, msg...)
		reply := c.out[len(c.out)-len(msg):]
		reply[0], reply[1] = c.hs.Version, openflow.TypeEchoReply
		return nil
	case typ == openflow.TypeHello, typ == openflow.TypeEchoReply:
		return nil
	case shared(typ):
		if s.held.flooded() {
			return errFlooded
		}
		if m, ok := markIn(msg); ok {
			msg, s.unseen = m.Append(nil, of13.Version), 0
		}
		s.held.received(msg, false)
		return nil
	case typ == openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return fmt.Errorf("it sent %s without ATTACH: only an agent may", t)
		}
	}
	if refused, ours := s.courier.takes(msg); ours {
		c.refusals(refused)
		if s.state == founding && s.courier.step == nil && s.courier.active {
			c.lead()
			c.mark(now)
		}
		return nil
	}
	if xid >= handshake.OwnXID || xid == 0 && msg[1] == openflow.TypeExperimenter { // which is ROLE_STATUS
		return c.roleOrMarkers(msg, now)
	}
	if s.state == leading { // an answer to an application
		s.held.received(msg, true)
		if done, last := s.courier.answers(msg); last {
			s.answered(done)
		}
	}
	return nil
}

// refusals hands on ERROR messages for commands in a bundle.
func (c *Core) refusals(list [][]byte) {
	s := &c.stock
	if len(list) == 0 || s.state != leading {
		return
	}
	for _, msg := range list {
		s.held.received(msg, true)
	}
	s.answered(s.courier.done())
	s.refusal = s.end()
}

// asked reports whether msg belongs to the handshake of a new epoch.
func (c *Core) asked(msg []byte) bool {
	switch msg[1] {
	case of13.TypeFeaturesReply, of13.TypeMultipartReply, openflow.TypeError:
		xid := openflow.XID(msg)
		return xid >= handshake.OwnXID && xid < courierXIDs
	}
	return false
}

func (c *Core) answered(msg []byte, now uint64) (err error) {
	if c.out, err = c.hs.Input(c.out, msg); err != nil || !c.hs.Done {
		return err
	}
	if c.hs.Datapath != c.id {
		return fmt.Errorf("its datapath id changed to %s", c.hs.Datapath)
	}
	c.stock.held.clear()                                // what it said before is of no epoch
	c.stock.held.inStep, c.stock.held.ahead = true, nil // and what follows is all of the new one
	c.found(now)
	return nil
}

// roleOrMarkers takes answers to claim.
func (c *Core) roleOrMarkers(msg []byte, now uint64) error {
	s, xid := &c.stock, openflow.XID(msg)
	if s.state != claiming {
		return nil
	}
	switch msg[1] {
	case of13.TypeRoleReply:
		var r of13.RoleReply
		err := r.Decode(msg)
		s.accepted = s.accepted || err == nil && xid == s.roleXID && r.Role == of13.RoleMaster
		return err
	case openflow.TypeError:
		var e of13.Error
		if err := e.Decode(msg); err != nil {
			return err
		}
		switch stale := e.ErrType == of13.ErrTypeRoleRequestFailed && e.Code == of13.RoleRequestFailedStale; {
		case xid == s.roleXID && stale: // the log tells soon
			s.stale = true
		case xid == s.roleXID:
			s.accepted, s.equal, s.roleless = true, true, true
		case xid == s.markersXID && s.accepted: // it cannot tell: then none will be found
			c.decide(now)
		}
	case of13.TypeMultipartReply:
		var part of13.MultipartReply
		if err := part.Decode(msg); err != nil || xid != s.markersXID {
			return err
		}
		for f := range part.Flows().All() {
			if m, ok := markerOf(f); ok && len(s.markers) < maxMarkers {
				s.markers = append(s.markers, m)
			}
		}
		if part.Flags&of13.FlagMore == 0 && s.accepted {
			c.decide(now)
		}
	}
	return nil
}

// maxMarkers bounds the markers that are looked at: there is one, or none.
const maxMarkers = 16

// acknowledge forgets the events up to seq: they are logged.
func (s *stock) acknowledge(seq uint64) {
	if seq < s.first {
		return
	}
	n := min(seq+1-s.first, uint64(s.held.len()))
	s.held.pop(int(n))
	s.first += n
	s.told = max(s.told, s.first-1)
	for len(s.answers) > 0 && s.answers[0].event < s.first { // others may be held up, and are handed over again
		s.answers = s.answers[1:]
	}
	if s.answer < s.first {
		s.answer = 0
	}
	if s.refusal != 0 && s.refusal < s.first {
		s.refusal = 0
		s.courier.logged()
	}
}

// withoutRoles gives the messages with those that would take the switch from Holdfast turned into some that no
// switch knows: so it is the switch that refuses them, to the application that sent them.
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
