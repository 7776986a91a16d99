package history

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// stockHistory is what is observed of a switch without an agent: what it sends to all its controllers, and what it
// executes. Here an epoch exists if the switch has its sync marker.
type stockHistory struct {
	id     openflow.DatapathID
	boots  int
	epochs []*stockEpoch
	logged *stockEpoch // the newest in the log; nil is none

	// All that it sent, including restarts, from the first that may still be logged. An epoch has a contiguous part of
	// it: its next event is one of candidates, of which there are several while the logged part occurs more than once.
	told       []fingerprint
	candidates []int
	drops      bool   // the switch drops what a controller does not read: then an epoch may have gaps
	lost       uint64 // in no epoch

	executed []fingerprint // since the last marker
}

// stockEpoch is one epoch of such a switch.
type stockEpoch struct {
	epoch uint64
	boot  int // of the switch

	events  uint64 // in the log
	shared  int    // of these, sent to all controllers
	marks   int    // of these
	ended   bool   // in the log
	refused bool   // the ledger ended it

	due      fifo[stockCommand] // in the log, and not executed
	asked    []stockCommand     // requests without a logged answer, oldest first
	commands uint64             // in the log
	executed uint64             // the newest
	done     uint64             // as the log says
}

type stockCommand struct {
	dueCommand
	seq uint64
}

// restarted stands for a restart in told.
var restarted = fingerprint{special: experimenter.TypeSwitchUp}

// boot: the switch starts with empty tables.
func (s *stockHistory) boot() error {
	s.boots++
	s.told = append(s.told, restarted)
	return s.unmarked()
}

// unmarked checks that no command was executed outside of a bundle with a marker.
func (s *stockHistory) unmarked() error {
	if len(s.executed) == 0 {
		return nil
	}
	return violated("switch %s: it has executed %v, and no marker says so", s.id, s.executed[0])
}

// tell handles a message that the switch sends to all its controllers.
func (s *stockHistory) tell(msg []byte) { s.told = append(s.told, sharedFingerprint(msg)) }

// obey handles a message that the switch has executed.
func (s *stockHistory) obey(msg []byte) error {
	if openflow.XID(msg) < handshake.OwnXID {
		s.executed = append(s.executed, fingerprintOf(msg))
		return nil
	}
	epoch, seq, ok := markerIn(msg)
	if !ok {
		return nil
	}
	list := s.executed
	s.executed = nil
	e := s.find(epoch)
	if e == nil {
		if n := len(s.epochs); n > 0 && s.epochs[n-1].epoch > epoch {
			return violated("switch %s: epoch %d begins after epoch %d", s.id, epoch, s.epochs[n-1].epoch)
		}
		e = &stockEpoch{epoch: epoch, boot: s.boots}
		s.epochs = append(s.epochs, e)
	}
	if e.boot != s.boots || e != s.epochs[len(s.epochs)-1] {
		return violated("switch %s: a marker of epoch %d, which is over", s.id, epoch)
	}
	return s.execute(e, list, seq)
}

// execute checks what was executed up to a marker: the commands of the log up to its sequence, each once, in order, and
// none before it is committed.
func (s *stockHistory) execute(e *stockEpoch, list []fingerprint, seq uint64) error {
	for _, f := range list {
		if e.due.len() == 0 {
			return violated("switch %s, epoch %d: executes %v (number %d by its xid) behind %d, but nothing more "+
				"is committed", s.id, e.epoch, f, f.number(), e.executed)
		}
		want := e.due.pop()
		if f != want.fingerprint {
			return violated("switch %s, epoch %d: executes %v (number %d by its xid) behind %d; command %d, of "+
				"entry %d, is %v",
				s.id, e.epoch, f, f.number(), e.executed, want.seq, want.index, want.fingerprint)
		}
		e.executed = want.seq
	}
	if seq < e.executed || seq > e.commands || e.due.len() > 0 && e.due.first().seq <= seq {
		return violated("switch %s, epoch %d: a marker says that %d commands are executed of %d; the last that was "+
			"is %d", s.id, e.epoch, seq, e.commands, e.executed)
	}
	return nil
}

func (s *stockHistory) find(epoch uint64) *stockEpoch {
	for i := len(s.epochs) - 1; i >= 0; i-- {
		if e := s.epochs[i]; e.epoch == epoch {
			return e
		}
	}
	return nil
}

// logEvent checks the next event of the log.
func (s *stockHistory) logEvent(epoch, seq uint64, f fingerprint) error {
	if s.logged == nil || epoch > s.logged.epoch {
		if err := s.logEpoch(epoch, f); err != nil {
			return err
		}
	}
	e := s.logged
	switch {
	case epoch != e.epoch:
		return violated("switch %s: event %d of epoch %d (%v) after epoch %d has begun", s.id, seq, epoch, f, e.epoch)
	case e.ended:
		return violated("switch %s, epoch %d: event %d (%v) after the epoch's end", s.id, epoch, seq, f)
	case seq != e.events+1:
		return violated("switch %s, epoch %d: event %d (%v) follows event %d", s.id, epoch, seq, f, e.events)
	}
	e.events = seq
	switch {
	case f.special == experimenter.TypeSwitchDown:
		e.ended = true
	case f.special != 0 && seq > 1:
		return violated("switch %s, epoch %d: event %d is %v", s.id, epoch, seq, f)
	case f.isShared():
		return s.logShared(e, f)
	case seq > 1:
		return s.logAnswer(e, f)
	}
	return nil
}

// logEpoch begins an epoch in the log.
func (s *stockHistory) logEpoch(epoch uint64, first fingerprint) error {
	e := s.find(epoch)
	switch {
	case e == nil:
		return violated("switch %s: %v of epoch %d, of which it has no marker", s.id, first, epoch)
	case first.special != experimenter.TypeSwitchUp:
		return violated("switch %s, epoch %d: event 1 is %v", s.id, epoch, first)
	}
	s.endShared()
	s.logged = e
	return nil
}

// endShared discards the state of an epoch that ends, and counts what is in no epoch.
func (s *stockHistory) endShared() {
	if len(s.candidates) == 0 {
		return
	}
	end := s.candidates[0]
	s.lost += uint64(substance(s.told[:end]) - (s.logged.shared - s.logged.marks))
	s.told = slices.Clone(s.told[end:])
	s.candidates = nil
}

// logShared checks that what the switch sends to all controllers is in the epoch without gaps.
func (s *stockHistory) logShared(e *stockEpoch, f fingerprint) error {
	var next []int
	if e.shared == 0 {
		for i, t := range s.told {
			if t == f {
				next = append(next, i+1)
			}
		}
	}
	for _, i := range s.candidates {
		if i < len(s.told) && s.told[i] == f {
			next = append(next, i+1)
		} else if skip := slices.Index(s.told[i:], f); s.drops && skip >= 0 {
			next = append(next, i+skip+1)
		}
	}
	if len(next) > 0 {
		if s.candidates = next; s.drops {
			s.candidates = next[:1]
		}
		e.shared++
		if f.isMark() {
			e.marks++
		}
		return nil
	}
	if e.shared == 0 {
		return violated("switch %s, epoch %d: begins with event %d (%v), which it has not told since the last that "+
			"is in the log", s.id, e.epoch, e.events, f)
	}
	at := s.candidates[0]
	if at == len(s.told) {
		return violated("switch %s, epoch %d: event %d is %v, but the switch has told nothing more", s.id, e.epoch,
			e.events, f)
	}
	where := "nowhere"
	if i := slices.Index(s.told[at:], f); i >= 0 {
		where = "further on: so it is lost"
	} else if slices.Contains(s.told[:at], f) {
		where = "before that: so it is repeated"
	}
	return violated("switch %s, epoch %d: event %d is %v, but the switch has told %v next; the other it told %s", s.id,
		e.epoch, e.events, f, s.told[at], where)
}

// logAnswer checks an event that is for one controller: it answers a request of the log that has no answer yet, or
// refuses a command that was not executed.
func (s *stockHistory) logAnswer(e *stockEpoch, f fingerprint) error {
	if f.typ == openflow.TypeError {
		return s.logRefusal(e, f)
	}
	i := slices.IndexFunc(e.asked, func(c stockCommand) bool { return c.xid == f.xid })
	if i < 0 {
		return violated("switch %s, epoch %d: event %d is %v, which answers nothing that the log has asked and has "+
			"no answer to", s.id, e.epoch, e.events, f)
	}
	e.asked = slices.Delete(e.asked, i, i+1)
	return nil
}

// logRefusal discards the whole next transaction.
func (s *stockHistory) logRefusal(e *stockEpoch, f fingerprint) error {
	found := false
	for n := 0; e.due.len() > 0 && (n == 0 || ledger.Continues(e.due.first().xid)); n++ {
		found = e.due.pop().xid == f.xid || found
	}
	if !found {
		return violated("switch %s, epoch %d: event %d is %v, which refuses no command of the next transaction", s.id,
			e.epoch, e.events, f)
	}
	return nil
}

// logCommand handles a command of the log.
func (s *stockHistory) logCommand(seq, index uint64, f fingerprint) error {
	e := s.logged
	switch {
	case e == nil || e.ended:
		return violated("switch %s: command %d (%v) is logged while no epoch is open", s.id, seq, f)
	case seq != e.commands+1:
		return violated("switch %s, epoch %d: command %d (%v) is logged after %d", s.id, e.epoch, seq, f, e.commands)
	}
	e.commands = seq
	if c := (stockCommand{dueCommand{f, index}, seq}); f.typ == of13.TypeBarrierRequest {
		e.asked = append(e.asked, c)
	} else {
		e.due.push(c)
	}
	return nil
}

// logDone checks a watermark of commands that are done: executed or, if they are requests, answered in the log.
func (s *stockHistory) logDone(epoch, seq uint64) error {
	e := s.logged
	switch {
	case e == nil || e.epoch != epoch:
		return violated("switch %s: commands of epoch %d are logged as done, which is not the newest in the log", s.id,
			epoch)
	case seq < e.done || seq > e.commands:
		return violated("switch %s, epoch %d: commands up to %d of %d are logged as done after %d", s.id, epoch, seq,
			e.commands, e.done)
	case e.due.len() > 0 && e.due.first().seq <= seq:
		return violated("switch %s, epoch %d: command %d is logged as done; the switch has executed %d", s.id, epoch,
			seq, e.executed)
	case len(e.asked) > 0 && e.asked[0].seq <= seq:
		return violated("switch %s, epoch %d: command %d is logged as done; the answer to %d is not in the log", s.id,
			epoch, seq, e.asked[0].seq)
	}
	e.done = seq
	return nil
}

func (s *stockHistory) logReach(epoch uint64) error {
	if s.logged == nil || s.logged.epoch != epoch || s.logged.ended {
		return violated("switch %s: reachability is logged of epoch %d, which is not open in the log", s.id, epoch)
	}
	return nil
}

// logClose ends an epoch that the ledger closes.
func (s *stockHistory) logClose(epoch uint64) error {
	if err := s.logReach(epoch); err != nil {
		return err
	}
	s.logged.ended, s.logged.refused = true, true
	return nil
}

// refuse checks that an epoch is over in the log.
func (s *stockHistory) refuse(epoch uint64) error {
	if l := s.logged; l == nil || l.epoch < epoch || l.epoch == epoch && !l.refused {
		return violated("switch %s: epoch %d is refused, which is not over in the log", s.id, epoch)
	}
	return nil
}

// unlogged counts the events after the last logged one. Sync markers are sent all the time, and do not count.
func (s *stockHistory) unlogged() int {
	from := 0
	if len(s.candidates) > 0 {
		from = s.candidates[0]
	}
	if s.drops {
		return 0 // as far as is known
	}
	return substance(s.told[from:])
}

// substance counts what a switch has sent, without sync markers and restarts.
func substance(told []fingerprint) (n int) {
	for _, f := range told {
		if f != restarted && !f.isMark() {
			n++
		}
	}
	return n
}

// live is the epoch of the switch's marker; 0 is none.
func (s *stockHistory) live() uint64 {
	if n := len(s.epochs); n > 0 && s.epochs[n-1].boot == s.boots {
		return s.epochs[n-1].epoch
	}
	return 0
}

// finish checks that nothing is missing, and that the switch is in the epoch of its marker.
func (s *stockHistory) finish() error {
	e := s.logged
	switch {
	case e == nil || e.epoch != s.live() || e.ended:
		return violated("switch %s: at the end its marker is of epoch %d, which is not open in the log", s.id, s.live())
	case e.due.len() > 0:
		return violated("switch %s, epoch %d: at the end it has executed %d commands of %d; next is %v of entry %d",
			s.id, e.epoch,
			e.executed, e.commands, e.due.first().fingerprint, e.due.first().index)
	case len(e.asked) > 0:
		return violated("switch %s, epoch %d: at the end command %d (%v) has no answer in the log", s.id, e.epoch,
			e.asked[0].seq, e.asked[0].fingerprint)
	case s.unlogged() > 0:
		return violated("switch %s, epoch %d: at the end %d events are not in the log", s.id, e.epoch, s.unlogged())
	}
	return s.unmarked()
}

// The following knows the format of southbound's sync markers.

// markText is in the packet that is a sync marker; the term and the number follow.
var markText = []byte("Holdfast sync")

// MarkOf reads a sync marker from a packet-in.
func MarkOf(msg []byte) (m experimenter.SyncMarker, ok bool) {
	i := bytes.Index(msg, markText)
	if i < 0 || msg[1] != of13.TypePacketIn || len(msg) < i+len(markText)+16 {
		return m, false
	}
	rest := msg[i+len(markText):]
	return experimenter.SyncMarker{Generation: binary.BigEndian.Uint64(rest),
		Number: binary.BigEndian.Uint64(rest[8:])}, true
}

// sharedFingerprint is the fingerprint of the logged form of msg.
func sharedFingerprint(msg []byte) fingerprint {
	if m, ok := MarkOf(msg); ok {
		msg = m.Append(nil, of13.Version)
	}
	return fingerprintOf(msg)
}

func (f fingerprint) isMark() bool { return f.typ == openflow.TypeExperimenter }

// isShared reports whether an event of the log is one that the switch sent to all its controllers.
func (f fingerprint) isShared() bool { return ToAll(f.typ) || f.isMark() }

// ToAll reports whether a switch sends such messages to all its controllers.
func ToAll(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}

// markerIn reads the epoch and the sequence from the flow entry that is the marker.
func markerIn(msg []byte) (epoch, seq uint64, ok bool) {
	var m of13.FlowMod
	if msg[1] != of13.TypeFlowMod || m.Decode(msg) != nil || m.Command != of13.FlowAdd || m.Cookie>>56 != 0x48 {
		return 0, 0, false
	}
	src, _ := m.Match.Get(of13.FieldEthSrc)
	dst, _ := m.Match.Get(of13.FieldEthDst)
	if len(src.Value) != 6 || len(dst.Value) != 6 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(slices.Concat(src.Value[4:], dst.Value)), m.Cookie & (1<<56 - 1), true
}
