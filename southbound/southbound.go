// Package southbound is a controller's side of its switch connections: handshake, version negotiation, liveness, roles,
// and one type for each kind of peer. An agent exchanges numbered blocks of events and commands. A switch with bundles
// and no agent gets the same guarantees from the controllers together. A legacy switch, which has neither, gets each
// event and each command at most once. The protocols are in docs/design/control-path.md and docs/design/stock.md.
//
// Above it everything is OpenFlow 1.3; other versions are translated here. It stores nothing: what an agent or the
// ledger can send again it does not keep, and the events of a switch without an agent it holds in memory until they are
// logged. It does not know who leads, nor what is in the log: the controller tells each session.
//
// Core is the protocol, pure. Session is a Core with a lock whose output is written to a Line. Serve brings TCP to it,
// and a simulator its own lines.
//
//	ln, err := net.Listen("tcp", ":6653")
//	err = southbound.Serve(ctx, ln, southbound.Config{Logger: log}, handler)
package southbound

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Peer is the kind of the peer of a session.
type Peer uint8

// The kinds of peers.
const (
	Agent Peer = iota + 1 // an agent, which keeps events and filters commands
	// a switch without an agent: the controllers keep its events, and its commands go in bundles
	Bundles
	Legacy // a switch without agent and bundles: all at most once
)

func (p Peer) String() string {
	switch p {
	case Agent:
		return "agent"
	case Bundles:
		return "bundles"
	case Legacy:
		return "legacy"
	}
	return "none"
}

// State is what a session knows of its peer.
type State struct {
	Peer    Peer  // Bundles becomes Legacy if the switch refuses what bundles need; nothing else changes
	Version uint8 // of OpenFlow, as the peer speaks it
	Remote  string
	Attach  experimenter.Attach // what an agent said first; zero without one

	// Epoch is the newest epoch that the peer named. An agent names it in ATTACH and by the next SWITCH_UP, so a
	// session that is not master may hear of it late. A switch without an agent has none before Claim, 0.
	Epoch uint64
	// InSync says that this controller could lead now without missing an event that another one has received.
	// Always so unless Peer is Bundles.
	InSync bool
	// Fenced says that an agent refuses this controller as master, since it had one with a later term.
	Fenced bool
	// Guarantee is "exactly-once", "at-most-once" or "none", and Why is the reason. It is "" for a switch of
	// Bundles of which this controller is not the master.
	Guarantee, Why string
}

// Resume is what the log knows of a switch that is being claimed.
type Resume struct {
	Epoch    uint64
	Live     bool   // the epoch has not ended
	Events   uint64 // logged in it
	Commands uint64 // issued in it
}

// Unknown is a number of events that is not known, see Session.Skipped.
const Unknown = -1

// Batch is a run of events of one switch: Count messages of OpenFlow 1.3 one after the other, the first with sequence
// First. SWITCH_UP and SWITCH_DOWN are among them, as messages of openflow/experimenter. Messages is valid during the
// call only.
//
// Done is not 0 if an event answers a command: then all commands up to Done are executed, and that is to be logged
// together with the event.
type Batch struct {
	Epoch    uint64
	First    uint64
	Count    int
	Messages []byte
	Done     uint64
}

// Handler is told what the sessions receive. The calls for one session never overlap, except CommandsDone, which may
// overlap with Events. They may block: then nothing more is read from that peer, and TCP pushes back.
type Handler interface {
	// Attached starts a session: the handshake is complete and no other session has this datapath id.
	Attached(s *Session)
	// Events hands over the next events. Sequences repeat after Claim, when an agent sends again what is not
	// acknowledged. An error closes the session.
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
