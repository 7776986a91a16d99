package bfd

import (
	"errors"
	"fmt"
	"time"
)

// slow is how often a session that is not up may send at most (6.8.3), so that links that are down cost little.
const slow = time.Second

// Config is the configuration of a session.
type Config struct {
	// ours: not 0, and preferably random, so that packets of an earlier session are recognised
	Discriminator uint32
	MinTx         time.Duration // the shortest interval at which this end sends
	MinRx         time.Duration // the shortest interval at which this end can receive
	Multiplier    uint8         // the peer declares this end down when this many packets are missing

	// Jitter returns a random number in [0, 1] for each packet. It keeps systems from synchronising their packets
	// (6.8.7).
	Jitter func() float64
}

// Session is one end of a BFD session. Times are since any fixed point. They must not go back: an earlier time is
// replaced by the last one.
type Session struct {
	cfg  Config
	last time.Duration // the latest time that the caller passed

	state, remoteState State
	diag, remoteDiag   Diag

	remoteDiscriminator         uint32
	remoteMinTx, remoteMinRx    time.Duration
	remoteMultiplier            uint8
	remoteDemand                bool
	heard                       bool          // within the detection time
	heardAt                     time.Duration // valid if heard
	desiredMinTx, requiredMinRx time.Duration // as in our packets
	txMinTx, rxMinRx            time.Duration // in force: see retime

	poll                 pollState
	polled               bool          // in the current sequence
	pollsFrom, pollsTill time.Duration // its first and last poll, valid if polled
	settledAt            time.Duration // valid while settling

	owesFinal bool // the peer polls
	changed   bool // since our last packet
	sent      bool
	sentAt    time.Duration // valid if sent: the last packet but finals
	shorten   float64       // of the interval after it, by jitter
}

// pollState is the state of a poll sequence (6.5).
type pollState uint8

const (
	pollIdle    pollState = iota
	pollRunning           // each periodic packet polls
	// over; but finals to its later polls may still come, and must not be taken for those of the next sequence
	pollSettling
)

// New returns a session that is Down, and sends its first packet at once.
func New(now time.Duration, cfg Config) (*Session, error) {
	switch {
	case cfg.Discriminator == 0:
		return nil, errors.New("bfd: the discriminator must not be 0")
	case cfg.Multiplier == 0:
		return nil, errors.New("bfd: detection multiplier 0: use 1 to 255, as a rule 3")
	case cfg.Jitter == nil:
		return nil, errors.New("bfd: no jitter: use rand.Float64")
	}
	if err := checkTimers(cfg.MinTx, cfg.MinRx); err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, last: now, state: Down, remoteState: Down, remoteMinRx: time.Microsecond}
	s.desiredMinTx, s.requiredMinRx = s.wanted()
	s.txMinTx, s.rxMinRx = s.desiredMinTx, s.requiredMinRx
	return s, nil
}

func checkTimers(minTx, minRx time.Duration) error {
	for _, d := range []time.Duration{minTx, minRx} {
		if d < time.Microsecond || d > MaxInterval {
			return fmt.Errorf("bfd: interval %v is not in %v to %v", d, time.Microsecond, MaxInterval)
		}
	}
	return nil
}

// Status is the state of a session for its caller.
type Status struct {
	State, RemoteState State
	Diag, RemoteDiag   Diag          // why each end last went down
	TxInterval         time.Duration // between our packets, before jitter
	DetectionTime      time.Duration // 0: the peer has not been heard yet
}

// Status returns the state of the session.
func (s *Session) Status() Status {
	return Status{s.state, s.remoteState, s.diag, s.remoteDiag, s.txInterval(), s.detectionTime()}
}

// SetTimers changes the intervals. No packet is lost by that: the peer is polled before anything depends on the new
// intervals (6.8.3).
func (s *Session) SetTimers(now, minTx, minRx time.Duration) error {
	if err := checkTimers(minTx, minRx); err != nil {
		return err
	}
	s.advance(now)
	s.cfg.MinTx, s.cfg.MinRx = minTx, minRx
	s.retime()
	return nil
}

// SetAdminDown takes the session down administratively, and tells the peer, until it is called with false (6.8.16).
func (s *Session) SetAdminDown(now time.Duration, down bool) {
	s.advance(now)
	switch {
	case down:
		s.become(AdminDown, DiagAdminDown)
	case s.state == AdminDown:
		s.become(Down, DiagNone)
	}
}

// Receive handles a packet of the peer (6.8.6, from the discriminator on). Call Tick after it. The error says why the
// packet was dropped.
func (s *Session) Receive(now time.Duration, p Packet) error {
	s.advance(now)
	if p.YourDiscriminator != 0 && p.YourDiscriminator != s.cfg.Discriminator {
		return fmt.Errorf("%w: for session %#x, not ours, %#x: the peer will learn it", ErrInvalid, p.YourDiscriminator,
			s.cfg.Discriminator)
	}
	s.remoteDiscriminator, s.remoteState, s.remoteDiag = p.MyDiscriminator, p.State, p.Diag
	s.remoteMinTx, s.remoteMinRx, s.remoteMultiplier, s.remoteDemand = p.DesiredMinTx, p.RequiredMinRx, p.Multiplier,
		p.Demand
	s.heard, s.heardAt = true, s.last
	if p.Final {
		s.answered()
	}
	if s.state == AdminDown {
		return nil
	}
	switch {
	case p.State == AdminDown:
		if s.state != Down {
			s.become(Down, DiagNeighborDown)
		}
	case s.state == Down && p.State == Down:
		s.become(Init, s.diag)
	case s.state == Down && p.State == Init, s.state == Init && p.State >= Init:
		s.become(Up, s.diag)
	case s.state == Up && p.State == Down:
		s.become(Down, DiagNeighborDown)
	}
	s.owesFinal = s.owesFinal || p.Poll
	return nil
}

// Excuse extends the detection time to at least d from now. It is for a caller that was delayed, and cannot know yet
// whether the peer was silent or its packets were only not read.
func (s *Session) Excuse(now, d time.Duration) {
	s.advance(now)
	s.heardAt = max(s.heardAt, s.last+d-s.detectionTime())
}

// answered ends the poll sequence if the peer has answered. A final does not say which poll it answers, so the next
// sequence has to wait for a round trip after the last poll of this one (6.8.3). No round trip took longer than from
// the first poll until now. (That one other packet has come, which 6.8.3 allows as well, proves nothing if a round trip
// takes longer than an interval.)
func (s *Session) answered() {
	if s.poll == pollRunning && s.polled {
		s.poll, s.settledAt = pollSettling, s.pollsTill+s.last-s.pollsFrom
		s.txMinTx, s.rxMinRx = s.desiredMinTx, s.requiredMinRx
	}
}

// become enters a state.
func (s *Session) become(state State, why Diag) {
	if s.state != state || s.diag != why {
		s.state, s.diag, s.changed = state, why, true
	}
	if state == Up {
		s.poll = pollIdle // an unfinished sequence does no harm: see retime
	}
	s.retime()
}

// wanted is the content of our packets.
func (s *Session) wanted() (minTx, minRx time.Duration) {
	if s.state != Up {
		return max(s.cfg.MinTx, slow), s.cfg.MinRx
	}
	return s.cfg.MinTx, s.cfg.MinRx
}

// retime applies the configured intervals (6.8.3). While up, a change waits for the end of the previous poll sequence.
// Until its own sequence is over, this end does not send less often, nor expect more packets, than the peer knows.
// While not up nothing depends on the intervals.
func (s *Session) retime() {
	tx, rx := s.wanted()
	if tx == s.desiredMinTx && rx == s.requiredMinRx {
		return
	}
	if s.state == Up {
		if s.poll != pollIdle {
			return
		}
		s.txMinTx, s.rxMinRx = min(tx, s.txMinTx), max(rx, s.rxMinRx)
	} else {
		s.txMinTx, s.rxMinRx = tx, rx
	}
	s.desiredMinTx, s.requiredMinRx = tx, rx
	if s.poll != pollRunning {
		s.poll, s.polled = pollRunning, false
	}
}

// txInterval is how often this end sends (6.8.2).
func (s *Session) txInterval() time.Duration { return max(s.txMinTx, s.remoteMinRx) }

// detectionTime is how long the peer may be silent (6.8.4).
func (s *Session) detectionTime() time.Duration {
	return time.Duration(s.remoteMultiplier) * max(s.rxMinRx, s.remoteMinTx)
}

// Tick does what is due, and returns the packet to send, if there is one. Call it again until there is none. Call
// Receive for the packets that have arrived before it, or a delayed caller takes its own delay for silence of the peer.
func (s *Session) Tick(now time.Duration) (p Packet, send bool) {
	s.advance(now)
	if s.heard && s.last >= s.heardAt+s.detectionTime() {
		s.heard, s.remoteDiscriminator = false, 0
		if s.state == Init || s.state == Up {
			s.become(Down, DiagExpired)
		}
	}
	if s.owesFinal {
		s.owesFinal, s.changed = false, false
		p = s.packet()
		p.Final = true
		return p, true
	}
	if at, ok := s.nextPacket(); !ok || s.last < at {
		return Packet{}, false
	}
	s.changed, s.sent, s.sentAt, s.shorten = false, true, s.last, s.jitter()
	p = s.packet()
	if s.poll == pollRunning {
		p.Poll = true
		if s.pollsTill = s.last; !s.polled {
			s.polled, s.pollsFrom = true, s.last
		}
	}
	return p, true
}

func (s *Session) packet() Packet {
	return Packet{
		Diag: s.diag, State: s.state, Multiplier: s.cfg.Multiplier,
		MyDiscriminator: s.cfg.Discriminator, YourDiscriminator: s.remoteDiscriminator,
		DesiredMinTx: s.desiredMinTx, RequiredMinRx: s.requiredMinRx,
	}
}

// jitter is the part by which an interval is shortened (6.8.7): up to a quarter; with a multiplier of 1 at least a
// tenth, since a late packet is a lost packet there.
func (s *Session) jitter() float64 {
	j := min(max(s.cfg.Jitter(), 0), 1)
	if s.cfg.Multiplier == 1 {
		return 0.1 + 0.15*j
	}
	return 0.25 * j
}

// nextPacket is when the next packet is due that answers no poll: at once if its content has changed, else periodically
// (6.8.7). A peer can request silence: by an interval of 0, or by demand mode while both ends are up and this end does
// not poll.
func (s *Session) nextPacket() (at time.Duration, ok bool) {
	demand := s.remoteDemand && s.state == Up && s.remoteState == Up && s.poll != pollRunning
	switch {
	case s.remoteMinRx == 0 || demand && !s.changed:
		return 0, false
	case s.changed || !s.sent:
		return s.last, true
	}
	interval := s.txInterval()
	return s.sentAt + interval - time.Duration(s.shorten*float64(interval)), true
}

// Deadline is when Tick has to be called next, if no packet is received before. It is not ok if nothing will be due.
func (s *Session) Deadline() (at time.Duration, ok bool) {
	if s.owesFinal {
		return s.last, true
	}
	at, ok = s.nextPacket()
	if s.heard {
		if expires := s.heardAt + s.detectionTime(); !ok || expires < at {
			return expires, true
		}
	}
	return at, ok
}

func (s *Session) advance(now time.Duration) {
	s.last = max(s.last, now)
	if s.poll == pollSettling && s.last >= s.settledAt {
		s.poll = pollIdle
		s.retime()
	}
}
