package southbound

import (
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Session is one switch, connected by its agent or directly: a Core with a lock, whose output is written to a Line. Its
// methods are safe for concurrent use and never block.
//
// The first group of methods is for the controller, the second for the reader of the connection: Serve, or a simulator.
type Session struct {
	line Line

	mu   sync.Mutex // guards core; held for copies only, never for I/O or a Handler
	core Core
}

// Line is the connection of a session. Its methods are called with the session locked: they must not call it.
type Line interface {
	// Remote is the peer's network address.
	Remote() string
	// Now is the time in nanoseconds. It becomes the epochs of switches without an agent.
	Now() uint64
	// Write queues out, which it copies. If mark is not 0, the line calls Session.Written with it when out is written.
	// After an error the line ends by itself.
	Write(out []byte, mark uint64) error
	// Linger closes the line of a refused peer after the time it needs to read the reason.
	Linger(reason experimenter.Reason)
	// Close closes the line because of err.
	Close(err error)
}

// NewSession returns the session of a new connection.
func NewSession(line Line) *Session { return &Session{line: line} }

// Switch returns the datapath id, once the switch is attached.
func (s *Session) Switch() openflow.DatapathID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Switch()
}

// State returns the present state of the peer.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.core.State()
	st.Remote = s.line.Remote()
	return st
}

// Claim claims the switch for a leader, whose log contains r of it, in a generation (experimenter.Generation). An agent
// then sends every event that is not acknowledged, from the first on. With Bundles the epoch likewise continues with
// the events held here, if the switch still has the marker of the epoch and no event was missed. Otherwise, and always
// with Legacy, a new epoch begins. ErrNotMaster: this session was claimed in a later generation.
func (s *Session) Claim(generation uint64, r Resume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Claim(generation, s.line.Now(), r); err != nil {
		return err
	}
	return s.flush()
}

// Standby ends the claim, because another controller leads, or the leader uses another path. generation is one in which
// the leader has claimed the switch or may claim it, or 0 if it is unknown. With Bundles events are held from then on
// until they are seen in the log.
func (s *Session) Standby(generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Standby(generation)
	s.flush()
}

// Logged reports that another controller has logged an event of the switch. Every such event must be reported, in
// order. It returns false if this session claims the switch, and has not numbered the event so: then another session is
// the one whose events are logged. The caller calls Standby and repeats the report. Logged and Skipped have an effect
// with Bundles only.
func (s *Session) Logged(epoch, seq uint64, msg []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ours := s.core.Logged(epoch, seq, msg)
	s.flush()
	return ours
}

// Skipped is Logged for the events up to seq of which the log contains only how many are asynchronous: n. It is Unknown
// if this controller has not seen all events in the log, as after a snapshot.
func (s *Session) Skipped(epoch, seq uint64, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Skipped(epoch, seq, n)
}

// Acknowledge reports that every event of the epoch up to seq is logged and need not be kept.
func (s *Session) Acknowledge(epoch, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Acknowledge(epoch, seq)
	s.flush()
}

// Send queues a block of commands: messages of OpenFlow 1.3 one after the other, which it copies. It sets b.Bytes. If
// b.First is 0, the commands are best-effort: they are sent once, and are lost with the connection. Commands of another
// epoch than the switch's are dropped, by the agent or here. If the peer does not read, its queue fills and the session
// ends; numbered commands must be sent again in the next session. ErrNotMaster: b.Generation is not that of the
// last Claim.
func (s *Session) Send(b experimenter.Block, messages []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Send(b, messages); err != nil {
		return err
	}
	return s.flush()
}

// Hold stops the delivery of events until Resend, but not of acknowledgements of commands. If it is called within
// Handler.Events, no event after those is delivered. It has no effect with Legacy.
func (s *Session) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Hold()
}

// Resend delivers every event again that is not acknowledged, from the first on.
func (s *Session) Resend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Resend()
	s.flush()
}

// Refuse tells the peer why it must disconnect, and closes the line. epoch is the newest that the controllers know. A
// switch without an agent that is refused for a stale epoch stays connected, and begins a new epoch above it.
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

// Input is Core.Next.
func (s *Session) Input(buf []byte) (rest []byte, a Action, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, a, err = s.core.Next(buf, s.line.Now())
	if ferr := s.flush(); err == nil {
		err = ferr
	}
	return rest, a, err
}

// More reports whether Input has an action even without input.
func (s *Session) More() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.More()
}

// Full reports whether the switch should not be read for now.
func (s *Session) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Full()
}

// Refused reports whether the peer was refused. Its messages are ignored from then on.
func (s *Session) Refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Refused()
}

// Told reports whether the peer knows already what is wrong with events of an epoch. Then an error of Handler.Events
// about them does not end the session.
func (s *Session) Told(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Told(epoch)
}

// Held returns how many events are held here, see Core.Held.
func (s *Session) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Held()
}

// leavePool is called when the connection has ended.
func (s *Session) leavePool() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.leavePool()
}

// HeldBytes is Core.HeldBytes.
func (s *Session) HeldBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.HeldBytes()
}

// Written is called with the mark of a Line.Write that is complete.
func (s *Session) Written(mark uint64) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Written(mark)
}

// Echo sends an echo request. It should be called about once a second.
func (s *Session) Echo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Echo()
	s.flush()
}

// Share is Core.Share. All sessions that share p have the same caller of Beat.
func (s *Session) Share(p *heartbeat.Pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Share(p)
}

// silence is Core.Silence.
func (s *Session) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Silence()
}

// Beat must be called heartbeat.Ticks times in each interval of Config.Heartbeat; see Core.Beat. An error ends the
// session.
func (s *Session) Beat(reading bool, crowd func() int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Beat(reading, crowd); err != nil {
		return err
	}
	return s.flush()
}

// Tick must be called ten times a second; see Core.Tick. An error ends the session.
func (s *Session) Tick(reading bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Tick(s.line.Now(), reading); err != nil {
		return err
	}
	return s.flush()
}

// End ends the session with the connection, and returns the last event, if there is one.
func (s *Session) End(r experimenter.Reason) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.End(r)
}

// Untranslated counts the messages that the other OpenFlow version cannot express.
func (s *Session) Untranslated() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Untranslated()
}

// flush writes the output of the core. The caller holds s.mu.
func (s *Session) flush() error {
	out := s.core.TakeOut()
	if len(out) == 0 {
		return nil
	}
	return s.line.Write(out, s.core.WriteMark())
}
