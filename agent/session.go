package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Session is one switch and its connections: a Core, and the rules that say when a connection is made, read, written
// and closed. It has no I/O, clock, goroutine or lock. It outlives the connections.
//
// A shell does the I/O, such as the goroutines of this package and the simulator. It dials while Controller.Dial says
// so, passes what it reads to Input, reads no more while Full, writes what Take appends, and calls End when a
// connection has ended. Each call may end the reason for which another connection waits: it left a rest in Input, it is
// Full, or Dial was false. So the shell then looks at those again.
type Session struct {
	core         *Core
	commandBytes int     // commands not yet written to the switch, beyond which the session takes no more
	sw           *Switch // nil while the switch is not connected
	controllers  []*Controller
	peers        []*Peer // scratch of Tick
}

// Line is a connection as its session sees it. Its methods are called within those of the session: they must not call
// it.
type Line interface {
	// Remote is the peer's address.
	Remote() string
	// Wake says that Take has something to append.
	Wake()
	// Close closes the connection because of cause. End is called later, as for any connection.
	Close(cause error)
}

// Causes for which a session closes its connections: see Core.Stale, Core.Outdated and Session.Beat.
var (
	errStale   = errors.New("the controllers know a newer epoch of the switch: it begins a new one above that")
	errVersion = errors.New("the switch came back with another OpenFlow version")
	errSilent  = errors.New("it leads, and has sent nothing for three heartbeats or more")
)

// NewSession makes the session of a switch that has never connected, and of the given number of controllers. For
// maxEvents and maxBytes see NewCore.
func NewSession(maxEvents, maxBytes, commandBytes, controllers int) *Session {
	s := &Session{core: NewCore(maxEvents, maxBytes), commandBytes: commandBytes}
	for range controllers {
		s.controllers = append(s.controllers, &Controller{s: s, pause: BackoffFirst, again: 1,
			pulse: heartbeat.Monitor{Second: true}})
	}
	return s
}

// Controllers returns the connections to the controllers. They are not connected at first.
func (s *Session) Controllers() []*Controller { return s.controllers }

// Up says that the switch has completed the handshake on line at the given time, in nanoseconds. It opens an epoch. The
// error says why the switch cannot be served.
func (s *Session) Up(line Line, now uint64, hs *handshake.Handshake) (*Switch, error) {
	if s.sw != nil {
		return nil, fmt.Errorf("its datapath id is in use by %s: give each switch its own", s.sw.line.Remote())
	}
	if _, err := s.core.SwitchUp(now, hs.Version, hs.Features, hs.Ports); err != nil {
		return nil, err
	}
	s.sw = &Switch{s: s, line: line}
	for _, c := range s.controllers {
		if c.peer != nil && s.core.Outdated(c.peer) {
			c.close(errVersion)
		}
	}
	s.wake()
	return s.sw, nil
}

// Tick is to be called about once a second; see Core.Tick. It reports whether a controller may be dialled that could
// not be before.
func (s *Session) Tick() (rested bool) {
	s.peers = s.peers[:0]
	for _, c := range s.controllers {
		if c.peer != nil {
			s.peers = append(s.peers, c.peer)
			if c.ready && c.peer.Ready() {
				c.lasts, c.pause = true, BackoffFirst
			}
			c.ready = c.peer.Ready()
		}
	}
	rested = s.tickRests()
	s.core.Tick(s.peers)
	s.wake()
	return rested
}

// tickRests shortens the rests of controllers that serve the switch elsewhere, and reports whether one has ended.
func (s *Session) tickRests() (ended bool) {
	served := slices.ContainsFunc(s.controllers, (*Controller).Lasts)
	for _, c := range s.controllers {
		if served {
			c.again = 1
		}
		if c.rest > 0 {
			if !served {
				c.rest = min(c.rest, c.again)
			}
			c.rest--
			ended = ended || c.rest == 0
		}
	}
	return ended
}

// Beat is to be called heartbeat.Ticks times in each interval of heartbeats. It sends heartbeats to the master, and
// closes the connection if the master is silent, so that it is made again. Meanwhile the leader may reach the switch
// through another controller. For crowd see heartbeat.Seen.
func (s *Session) Beat(crowd func() int) {
	for _, c := range s.controllers {
		if c.Master() {
			c.beat(crowd)
		}
	}
}

// Status returns a snapshot of all but the field Switch.
func (s *Session) Status() Status {
	st := s.core.Status()
	for _, c := range s.controllers {
		if c.peer != nil {
			st.Controllers++
		}
		if c.Master() {
			st.Master = c.line.Remote()
		}
	}
	return st
}

// Epoch is Core.Epoch.
func (s *Session) Epoch() uint64 { return s.core.Epoch() }

// Newest returns the newest epoch, and the sequence of the last event in it.
func (s *Session) Newest() (epoch, seq uint64) { return s.core.Newest() }

// Oldest is Core.Oldest.
func (s *Session) Oldest() uint64 { return s.core.Oldest() }

// Logged is the newest event that a master has acknowledged.
func (s *Session) Logged() experimenter.Ack { return s.core.acked }

// Held is Core.Held.
func (s *Session) Held() int { return s.core.Held() }

// wake wakes the connections that have something to write.
func (s *Session) wake() {
	for _, c := range s.controllers {
		if c.peer != nil && s.core.Pending(c.peer) {
			c.line.Wake()
		}
	}
	if s.sw != nil && s.core.QueuedCommands() > 0 {
		s.sw.line.Wake()
	}
}

// beginAnew closes all connections because all epochs are over, so that the switch returns with a new one.
func (s *Session) beginAnew(cause error) {
	for _, c := range s.controllers {
		c.close(cause)
	}
	if w := s.sw; w != nil {
		s.sw, w.over = nil, cause
		w.line.Close(cause)
	}
}

// Switch is one connection of the switch, from the end of the handshake on.
type Switch struct {
	s    *Session
	line Line
	over error // why the session has closed it
}

// Input takes whole messages. It leaves a rest when the event buffer is full: the shell offers that again, before
// anything else of the switch. An error ends the connection, and says what is wrong with it.
func (w *Switch) Input(batch []byte) (rest []byte, err error) {
	if w.over != nil {
		return nil, w.over
	}
	n, err := w.s.core.FromSwitch(batch)
	if n > 0 {
		w.s.wake()
	}
	return batch[n:], err
}

// Full reports whether the switch should not be read for now, since it does not read what is written to it.
func (w *Switch) Full() bool { return w.over == nil && w.s.core.QueuedCommands() > w.s.commandBytes }

// Take appends what is to be written now.
func (w *Switch) Take(dst []byte) []byte {
	if w.s.sw != w {
		return dst // the core's output is for the next connection
	}
	dst = w.s.core.TakeSwitch(dst)
	w.s.wake()
	return dst
}

// End says that the connection has ended, for a reason that becomes the last event of the epoch.
func (w *Switch) End(reason experimenter.Reason) {
	if w.s.sw != w {
		return
	}
	w.s.sw = nil
	w.s.core.SwitchDown(reason)
	w.s.wake()
}

// Pauses before a controller is dialled again. They double from BackoffFirst to BackoffMost.
const (
	BackoffFirst = 20 * time.Millisecond
	BackoffMost  = 200 * time.Millisecond
	RefusedPause = time.Second // after a REFUSE, whose cause lasts
	// ElsewhereRest is for how many ticks a controller is not asked again that has no replica of the switch's group,
	// while another one serves the switch. Switches seldom change their group. But if no other does, the group of the
	// switch has moved, and what a controller has said was about the former one, or came from a directory that was
	// behind: then the rest is a tick or two at first, and doubles from one REFUSE to the next.
	ElsewhereRest = 30
)

// Controller is the connection to one controller. It is made again whenever it has ended.
type Controller struct {
	s     *Session
	line  Line
	peer  *Peer         // nil while not connected
	over  error         // why the session has closed it
	pause time.Duration // before it is dialled again
	ready bool          // at the last tick
	lasts bool          // it was ready at two ticks in a row
	// elsewhere: it has no replica of the switch's group, as it said when it was last connected
	elsewhere bool
	rest      int // ticks until it is asked again, because of that
	again     int // how many these are at most while no controller serves the switch
	pulse     heartbeat.Monitor
	// since the last Beat
	wrote, heard bool
}

// Dial reports whether the controller is to be dialled: there is an epoch to attach with, and it is not said to be
// served elsewhere.
func (c *Controller) Dial() bool { return c.rest == 0 && c.s.core.Attachable() }

// Up says that the connection is made. What other streams of the same connection send and hear counts for it: pair is
// theirs, or nil. An error ends the connection.
func (c *Controller) Up(line Line, pair *heartbeat.Pair) error {
	if !c.Dial() {
		return errStale
	}
	c.pulse.Pair = pair
	c.line, c.peer, c.over = line, c.s.core.Connect(), nil
	line.Wake()
	return nil
}

// Input takes whole messages. An error ends the connection, and is to be passed to End.
func (c *Controller) Input(batch []byte) (rest []byte, err error) {
	if c.peer == nil {
		return nil, c.over
	}
	c.heard = true
	err = c.s.core.FromController(c.peer, batch)
	c.s.wake()
	return nil, err
}

// Full reports whether the controller should not be read for now, since too many of its commands wait for the switch.
func (c *Controller) Full() bool { return c.Master() && c.s.core.QueuedCommands() >= c.s.commandBytes }

// Take appends what is to be written now. More may be pending after that.
func (c *Controller) Take(dst []byte) []byte {
	if c.peer == nil {
		return dst
	}
	n := len(dst)
	dst = c.s.core.Take(c.peer, dst)
	c.wrote = c.wrote || len(dst) > n
	return dst
}

// beat sends the master a heartbeat if it is due, and closes the connection if the master is silent.
func (c *Controller) beat(crowd func() int) {
	send, lost := c.pulse.Tick(heartbeat.Seen{Sent: c.wrote, Heard: c.heard, Reading: !c.Full(), Crowd: crowd})
	c.wrote, c.heard = false, false
	switch {
	case lost:
		c.close(errSilent)
	case send:
		c.peer.echo(c.s.core.version)
		c.line.Wake()
	}
}

// Master reports whether the controller is the master.
func (c *Controller) Master() bool { return c.peer != nil && c.peer == c.s.core.Master() }

// Lasts reports whether the connection counts as made: it was ready for a whole tick. Before that the controller may
// still refuse it.
func (c *Controller) Lasts() bool { return c.lasts }

// End says that the connection has ended, or was not made, because of err, and returns after which time the controller
// is to be dialled again. If all epochs are over because err is a *Refused or ErrLostLog, the session closes all
// connections; then over says why.
func (c *Controller) End(err error) (pause time.Duration, over error) {
	served := c.lasts
	if c.peer != nil {
		c.leave()
	}
	if err == errSilent && c.over != errSilent {
		c.pulse.Lost() // another switch of the same connection has found it
	}
	var no *Refused
	refused := errors.As(err, &no)
	c.elsewhere = refused && no.Reason == experimenter.ReasonElsewhere
	switch {
	case c.elsewhere:
		if served { // so the group of the switch has moved
			for _, other := range c.s.controllers {
				other.rest = 0
			}
		}
		c.rest, c.again = ElsewhereRest, min(2*c.again, ElsewhereRest)
		return BackoffFirst, nil
	case refused && no.Reason == experimenter.ReasonStaleEpoch:
		if c.s.core.Stale(no.Epoch) {
			over = errStale
		}
		c.pause = BackoffFirst
	case refused:
		c.pause = RefusedPause
	case errors.Is(err, ErrLostLog):
		c.s.core.BeginAnew()
		over, c.pause = ErrLostLog, BackoffFirst
	}
	if over != nil {
		c.s.beginAnew(over)
	}
	pause = c.pause
	c.pause = min(2*pause, BackoffMost)
	return pause, over
}

// Elsewhere reports whether the controller has said that it has no replica of the switch's group, so that others serve
// the switch.
func (c *Controller) Elsewhere() bool { return c.elsewhere }

// close closes the connection from this side, if there is one.
func (c *Controller) close(cause error) {
	if c.peer != nil {
		c.leave()
		c.over, c.pause = cause, BackoffFirst
		c.line.Close(cause)
	}
}

func (c *Controller) leave() {
	c.s.core.Disconnect(c.peer)
	c.peer, c.ready, c.lasts = nil, false, false
}
