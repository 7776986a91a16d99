package vswitch

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// SetBFD monitors the link of a port by a new BFD session, which replaces an existing one. From now on the port is live
// while the session is up, and BFD packets of the peer do not reach the tables.
func (s *Switch) SetBFD(now time.Duration, no of13.Port, c bfd.Config) error {
	s.begin(now)
	p := s.ports[no]
	if p == nil {
		return fmt.Errorf("vswitch: BFD at port %v: there is no such port", no)
	}
	session, err := bfd.New(s.now, c)
	if err != nil {
		return fmt.Errorf("vswitch: BFD at port %v: %w", no, err)
	}
	p.session = session
	s.tickBFD(p)
	return nil
}

// ClearBFD ends the session of a port, if it has one. The peer detects that as a failed link.
func (s *Switch) ClearBFD(now time.Duration, no of13.Port) {
	s.begin(now)
	if p := s.ports[no]; p != nil && p.session != nil {
		p.session = nil
		s.setLink(p, p.linkUp())
	}
}

// BFD returns the state of the session of a port, if it has one.
func (s *Switch) BFD(no of13.Port) (bfd.Status, bool) {
	p := s.ports[no]
	if p == nil || p.session == nil {
		return bfd.Status{}, false
	}
	return p.session.Status(), true
}

// Deadline is when a BFD session needs a Tick, if one does: these sessions need it in time, while flow entries and
// bundles may wait for the next periodic Tick. Pass frames that have arrived first, or the caller's delay is taken for
// silence.
func (s *Switch) Deadline() (at time.Duration, ok bool) {
	for _, p := range s.inOrder {
		if p.session == nil {
			continue
		}
		if due, any := p.session.Deadline(); any && (!ok || due < at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// excuse extends the detection time of all BFD sessions to at least d from now.
func (s *Switch) excuse(now, d time.Duration) {
	s.begin(now)
	for _, p := range s.inOrder {
		if p.session != nil {
			p.session.Excuse(s.now, d)
		}
	}
}

// frameBFD handles a frame if it is for the session of a port, and reports whether it was. The port's configuration
// does not apply to these frames: they are not forwarded.
func (s *Switch) frameBFD(p *port, frame []byte) bool {
	packet, err := bfd.DecodeFrame(frame)
	if errors.Is(err, bfd.ErrOther) {
		return false
	}
	p.stats.RxPackets++
	p.stats.RxBytes += uint64(len(frame))
	if err == nil {
		_ = p.session.Receive(s.now, packet) // one for an earlier session is dropped
		s.tickBFD(p)
	}
	return true
}

// tickBFD sends what the session of a port has to send, a few frames at most, and updates the live bit.
func (s *Switch) tickBFD(p *port) {
	for packet, due := p.session.Tick(s.now); due; packet, due = p.session.Tick(s.now) {
		if !p.Up() {
			continue
		}
		n := len(s.slab)
		s.slab = bfd.AppendFrame(s.slab, p.HwAddr, packet)
		s.frames = append(s.frames, Frame{p.Port, s.slab[n:len(s.slab):len(s.slab)]})
		p.stats.TxPackets++
		p.stats.TxBytes += bfd.FrameLen
	}
	s.setLink(p, p.linkUp())
}
