// Package southbound is a controller's side of its switch connections: handshake, version
// negotiation, liveness, roles, the blocks of events and commands exchanged with an agent,
// and the same for a switch that has no agent. The protocol is in
// docs/design/control-path.md, and without an agent in docs/design/stock.md. Above it everything is
// OpenFlow 1.3; other versions are translated here. It stores nothing: what an agent, or the ledger,
// can send again it does not keep, and the events of a stock switch it holds in memory until they are logged.
//
// Core is the protocol, pure; Session and Serve move its bytes.
//
//	ln, err := net.Listen("tcp", ":6653")
//	err = southbound.Serve(ctx, ln, southbound.Config{Logger: log}, handler)
package southbound

import (
	"fmt"
	"log/slog"
	"time"
)

// Mode says what is at the other end of a session.
type Mode uint8

// The modes.
const (
	Agent  Mode = iota + 1 // an agent, which buffers events and filters commands
	Stock                  // a switch by itself: all controllers hold its events, and its commands are in bundles
	Direct                 // a switch of OpenFlow 1.0 by itself: events of a dying leader are lost
)

func (m Mode) String() string {
	switch m {
	case Agent:
		return "agent"
	case Stock:
		return "stock"
	case Direct:
		return "direct"
	}
	return "no mode"
}

// Batch is a run of events of one switch: Count messages of OpenFlow 1.3 one after the
// other, the first with sequence First. SWITCH_UP and SWITCH_DOWN are among them, as
// messages of openflow/experimenter. Messages is valid during the call only.
//
// Done is not 0 if an event answers a command: then all commands up to Done are executed, and
// that is to be logged together with the event.
type Batch struct {
	Epoch    uint64
	First    uint64
	Count    int
	Messages []byte
	Done     uint64
}

// Handler is told what the sessions hear. The calls for one session never overlap, except
// CommandsDone, which may overlap with Events. They may block: then nothing more is
// read from that peer, and TCP pushes back.
type Handler interface {
	// Attached starts a session: the handshake is complete and no other session has this
	// datapath id.
	Attached(s *Session)
	// Events hands over the next events. Sequences repeat after TakeMaster, when an agent
	// sends again what is not acknowledged. An error closes the session.
	Events(s *Session, b Batch) error
	// CommandsDone says that the switch has executed every command up to and with seq.
	CommandsDone(s *Session, epoch, seq uint64)
	// Detached ends a session that was Attached. The error says why.
	Detached(s *Session, err error)
}

// Config bounds a server. Zero fields take the defaults.
type Config struct {
	Logger *slog.Logger     // default: no log
	Now    func() time.Time // gives the epochs of switches without an agent; default time.Now

	MaxSessions      int           // connections at once, handshakes included; default 4,096
	HandshakeTimeout time.Duration // from accept to Attached; default 5 s
	EchoInterval     time.Duration // between echo requests; default 1 s
	SilentAfter      time.Duration // a peer that sends nothing for so long is dead; default 5 s
	ProbeTimeout     time.Duration // for the older of two sessions with one datapath id; default 500 ms
	SendQueue        int           // bytes that wait for a peer that does not read; default 8 MiB
	WriteTimeout     time.Duration // for one write; default 10 s
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = 4096
	}
	if c.SendQueue == 0 {
		c.SendQueue = 8 << 20
	}
	set(&c.HandshakeTimeout, 5*time.Second)
	set(&c.EchoInterval, time.Second)
	set(&c.SilentAfter, 5*time.Second)
	set(&c.ProbeTimeout, 500*time.Millisecond)
	set(&c.WriteTimeout, 10*time.Second)
	return c
}

func (c Config) validate() error {
	if c.EchoInterval >= c.SilentAfter {
		return fmt.Errorf("southbound: EchoInterval %v must be less than SilentAfter %v, or every quiet switch "+
			"counts as dead",
			c.EchoInterval, c.SilentAfter)
	}
	return nil
}
