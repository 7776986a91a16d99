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

// stockHistory is what is observed of a switch with bundles and without an agent: what it sends to all its controllers,
// and what it executes. Here an epoch exists if the switch has its sync marker.
type stockHistory struct {
	loggedSwitch
	broadcast
	boots  int
	epochs []*stockEpoch
	logged *stockEpoch // that of loggedSwitch

	executed []fingerprint // since the last marker
}

// stockEpoch is one epoch of such a switch.
type stockEpoch struct {
	loggedEpoch
	boot  int          // of the switch
	asked []dueCommand // requests without a logged answer, oldest first
}

// boot: the switch starts with empty tables.
func (s *stockHistory) boot() error {
	s.boots++
	s.restart()
	return s.unmarked()
}

// unmarked checks that no command was executed outside of a bundle with a marker.
func (s *stockHistory) unmarked() error {
	if len(s.executed) == 0 {
		return nil
	}
	return violated("switch %s: it has executed %v, and no marker says so", s.id, s.executed[0])
}

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
		if s.open(s.live()) {
			return violated("switch %s: epoch %d begins, and the log goes on with epoch %d", s.id, epoch, s.live())
		}
		e = &stockEpoch{loggedEpoch: loggedEpoch{epoch: epoch}, boot: s.boots}
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
	if err := s.nextOwn(epoch, seq, f); err != nil {
		return err
	}
	switch {
	case f.special != 0:
		return nil
	case f.isShared():
		return s.logShared(s.id, s.epoch, f)
	}
	return s.logAnswer(s.logged, f)
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
	s.logged, s.epoch = e, &e.loggedEpoch
	return nil
}

// logAnswer checks an event that is for one controller: it answers a request of the log that has no answer yet, or
// refuses a command that was not executed.
func (s *stockHistory) logAnswer(e *stockEpoch, f fingerprint) error {
	if f.typ == openflow.TypeError {
		return s.logRefusal(e, f)
	}
	i := slices.IndexFunc(e.asked, func(c dueCommand) bool { return c.xid == f.xid })
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

// logCommand handles a command of the log. A request waits for its answer in place of its execution.
func (s *stockHistory) logCommand(seq, index uint64, f fingerprint) error {
	c, err := s.command(seq, index, f)
	switch {
	case err != nil:
		return err
	case f.typ == of13.TypeBarrierRequest || f.typ == of13.TypeMultipartRequest:
		s.logged.asked = append(s.logged.asked, c)
	default:
		s.logged.due.push(c)
	}
	return nil
}

// logDone checks a watermark of commands that are done: executed or, if they are requests, answered in the log.
func (s *stockHistory) logDone(epoch, seq uint64) error {
	if err := s.loggedSwitch.logDone(epoch, seq); err != nil {
		return err
	}
	switch e := s.logged; {
	case e.due.len() > 0 && e.due.first().seq <= seq:
		return violated("switch %s, epoch %d: command %d is logged as done; the switch has executed %d", s.id, epoch,
			seq, e.executed)
	case len(e.asked) > 0 && e.asked[0].seq <= seq:
		return violated("switch %s, epoch %d: command %d is logged as done; the answer to %d is not in the log", s.id,
			epoch, seq, e.asked[0].seq)
	}
	return nil
}

// live is the epoch of the switch's marker; 0 is none.
func (s *stockHistory) live() uint64 {
	if n := len(s.epochs); n > 0 && s.epochs[n-1].boot == s.boots {
		return s.epochs[n-1].epoch
	}
	return 0
}

// quiet reports whether every command of the open epoch is executed, refused or answered.
func (s *stockHistory) quiet() bool {
	e := s.logged
	return e == nil || e.ended || e.due.len() == 0 && len(e.asked) == 0
}

// finish checks that nothing is missing, and that the switch is in the epoch of its marker.
func (s *stockHistory) finish() error {
	e := s.logged
	switch {
	case !s.open(s.live()):
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
