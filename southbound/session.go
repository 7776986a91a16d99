package southbound

import (
	"sync"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Session is one switch, connected by its agent or by itself: a Core behind a lock, whose output goes to a Line. Its
// methods are safe for concurrent use and never block.
//
// The first group of methods is for the controller, the second for who reads the connection: Serve, or a simulator.
type Session struct {
	line Line

	mu   sync.Mutex // guards core; held for copies only, never for I/O or a Handler
	core Core
}

// Line is the connection of a session. Its methods are called with the session locked: they must not call it.
type Line interface {
	// Remote is the peer's network address.
	Remote() string
	// Now is the time in nanoseconds. The epochs of switches without an agent are such times.
	Now() uint64
	// Write queues out, which it copies. mark is not 0 if Session.Written is to be told it once out is written. After
	// an error the line ends, by itself.
	Write(out []byte, mark uint64) error
	// Linger ends the line, because the peer was refused, when it has had time to read why.
	Linger(reason experimenter.Reason)
	// Close ends the line because of err.
	Close(err error)
}

// NewSession makes the session of a new connection.
func NewSession(line Line) *Session { return &Session{line: line} }

// Switch names the switch, once it is attached.
func (s *Session) Switch() openflow.DatapathID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Switch()
}

// State is what is known of the peer now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.core.State()
	st.Remote = s.line.Remote()
	return st
}

// Claim takes the switch for the leader of a term, whose log knows r. An agent then sends every event that is not
// acknowledged, from the first. With Bundles the epoch goes on likewise, from what this controller holds, if the switch
// still has the epoch's marker and nothing was missed; else, and with Legacy always, a new one begins. ErrNotMaster:
// this session was claimed in a later term.
func (s *Session) Claim(term uint64, r Resume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Claim(term, s.line.Now(), r); err != nil {
		return err
	}
	return s.flush()
}

// Standby says that another controller leads, in a term if that is known, else 0: this one has no claim any more. With
// Bundles events are then held until they are seen in the log.
func (s *Session) Standby(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Standby(term)
	s.flush()
}

// Logged says that an event of the switch has come into the log of another leader. Every one is to be told, in order.
// It has an effect with Bundles only, as has Skipped.
func (s *Session) Logged(msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Logged(msg)
	s.flush()
}

// Skipped is Logged for n asynchronous events of which the log has only the number; or Unknown, if the log has come to
// a point without showing the events before it.
func (s *Session) Skipped(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Skipped(n)
}

// Acknowledge says that every event of the epoch up to seq is logged, so that nobody needs to keep it.
func (s *Session) Acknowledge(epoch, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Acknowledge(epoch, seq)
	s.flush()
}

// Send queues a block of commands: messages of OpenFlow 1.3 one after the other, which it copies. It sets b.Bytes. If
// b.First is 0 the commands are best-effort: they leave once, and are lost with the connection. Commands of another
// epoch than the switch's are dropped, by the agent or here. A peer that does not read fills its queue; then the
// session ends, and the numbered commands are to be sent again when it is back. ErrNotMaster: b.Term is not that of the
// last Claim.
func (s *Session) Send(b experimenter.Block, messages []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Send(b, messages); err != nil {
		return err
	}
	return s.flush()
}

// Hold hands over no more events until Resend; acknowledgements of commands are. It may be called within
// Handler.Events: then nothing that comes behind those events is handed over. Without effect with Legacy.
func (s *Session) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Hold()
}

// Resend has every event handed over that is not acknowledged, from the first.
func (s *Session) Resend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Resend()
	s.flush()
}

// Refuse tells the peer why it cannot stay, and closes. epoch is the newest that the controllers know. A switch without
// an agent that is refused for a stale epoch stays connected and begins a new epoch above.
func (s *Session) Refuse(reason experimenter.Reason, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stays := s.core.Refuse(experimenter.Refuse{Reason: reason, Epoch: epoch}, s.line.Now())
	if s.flush() == nil && !stays {
		s.line.Linger(reason)
	}
}

// Close ends the session; Handler.Detached gets err.
func (s *Session) Close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.Close(err)
}

// Input is Core.Next; see there.
func (s *Session) Input(buf []byte) (rest []byte, a Action, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, a, err = s.core.Next(buf, s.line.Now())
	if ferr := s.flush(); err == nil {
		err = ferr
	}
	return rest, a, err
}

// More reports that Input has something to say though nothing has come.
func (s *Session) More() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.More()
}

// Full reports that nothing more is to be read from the switch for now.
func (s *Session) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Full()
}

// Refused reports that the peer cannot stay: nothing that it says counts any more.
func (s *Session) Refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Refused()
}

// Told reports whether the peer knows already what is wrong with events of an epoch, so that an error of Handler.Events
// about them does not end the session.
func (s *Session) Told(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Told(epoch)
}

// Held is how many events are held here, see Core.Held.
func (s *Session) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Held()
}

// Written tells the mark of a Line.Write that is done.
func (s *Session) Written(mark uint64) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Written(mark)
}

// Echo asks the peer for a sign of life. It is to be called about once a second.
func (s *Session) Echo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Echo()
	s.flush()
}

// Tick is to be called ten times a second. An error says that the switch does not answer, and ends the session.
func (s *Session) Tick() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Tick(s.line.Now()); err != nil {
		return err
	}
	return s.flush()
}

// End says that the connection is over, and returns the last event, if there is one.
func (s *Session) End(r experimenter.Reason) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.End(r)
}

// Untranslated counts the messages that the other OpenFlow version cannot say.
func (s *Session) Untranslated() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Untranslated()
}

// flush writes what the core has to say. s.mu is held.
func (s *Session) flush() error {
	out := s.core.TakeOut()
	if len(out) == 0 {
		return nil
	}
	return s.line.Write(out, s.core.WriteMark())
}
