// Package southbound is a controller's side of its switch connections: handshake, version negotiation, liveness, roles,
// and one type for each kind of peer. An agent exchanges numbered blocks of events and commands. For a switch with
// bundles and no agent, the controllers together provide the same guarantees. A legacy switch, which has neither, gets
// at-most-once delivery of events and commands. The protocols are in docs/design/control-path.md and
// docs/design/stock.md.
//
// Above this package everything is OpenFlow 1.3; other versions are translated here. It stores nothing that an agent or
// the ledger can send again, and holds the events of a switch without an agent in memory until they are logged. It does
// not know which controller leads, or what is in the log: the controller tells each session.
//
// Core is the protocol, and pure. Session is a Core with a lock whose output is written to a Line. Serve provides lines
// over TCP, and a simulator its own.
//
//	ln, err := net.Listen("tcp", ":6653")
//	err = southbound.Serve(ctx, ln, southbound.Config{Logger: log}, handler)
package southbound

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Peer is the kind of the peer of a session.
type Peer uint8

// The kinds of peers.
const (
	Agent Peer = iota + 1 // an agent, which keeps events and filters commands
	// a switch with bundles and no agent: the controllers keep its events, and commands are sent in bundles
	Bundles
	Legacy // a switch without agent and bundles: at-most-once delivery
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

// State is the state of a session's peer.
type State struct {
	Peer    Peer  // changes only from Bundles to Legacy, if the switch refuses something that bundles need
	Version uint8 // of OpenFlow, as the peer speaks it
	Remote  string

	// Epoch is the newest epoch that the peer reported. An agent reports it in ATTACH and in each SWITCH_UP, so a
	// session that is not master may learn of it late. It is 0 for a switch without an agent before Claim.
	Epoch uint64
	// InSync: this controller could lead now without missing an event that another one has received. Always true unless
	// Peer is Bundles.
	InSync bool
	// Fenced: an agent refuses this controller as master, because it had a master with a later term, or one whose log
	// has events that are not in this controller's.
	Fenced bool
	// Silent: the session has ended because an agent that it claims was silent for three intervals of heartbeats.
	Silent bool
	// Claimed is the version of the assignment in the last claim that the peer had accepted when it connected; 0: none
	// is known.
	Claimed uint16
	// Guarantee is "exactly-once", "at-most-once" or "none", and Why is the reason. It is "" for a switch of kind
	// Bundles of which this controller is not the master.
	Guarantee, Why string
}

// Resume is what the log contains of a switch that is being claimed.
type Resume struct {
	Epoch    uint64
	Live     bool   // the epoch has not ended
	Events   uint64 // logged in it
	Commands uint64 // issued in it
	Done     uint64 // of these, executed or answered
}

// Unknown is an unknown number of events, see Session.Skipped.
const Unknown = -1

// Batch is a run of events of one switch: Count messages of OpenFlow 1.3 one after the other, the first with sequence
// First. SWITCH_UP and SWITCH_DOWN are among them, as messages of openflow/experimenter. Messages is valid until
// Delivery.Done.
//
// Done is not 0 if an event answers a command. Then all commands up to Done are executed, which must be logged together
// with the event.
type Batch struct {
	Epoch    uint64
	First    uint64
	Count    int
	Messages []byte
	Done     uint64
}

// Delivery is the next events of a session. Done is called once the handler is done with them, from any goroutine;
// until then it gets no more events of the session, which is not read if it goes on sending. An error closes the
// session.
type Delivery struct {
	Session *Session
	Batch   Batch
	Done    func(error)
}

// Handler receives the input of the sessions. The calls for one session never overlap, except CommandsDone, which may
// come before Delivery.Done. They may block, but while one does, nothing is read from the peer, which may be an agent
// with many switches.
type Handler interface {
	// Attached starts a session: the handshake is complete and no other session has this datapath id. If it closes or
	// refuses the session, nothing is logged here.
	Attached(s *Session)
	// Events delivers what one read has brought, of several sessions if their agent has many switches. The handler may
	// keep list. Sequences repeat after Claim, when events are sent again that are not acknowledged.
	Events(list []Delivery)
	// CommandsDone reports that the switch has executed every command up to and including seq.
	CommandsDone(s *Session, epoch, seq uint64)
	// Detached ends a session that was Attached, with the reason. All of its deliveries are done.
	Detached(s *Session, err error)
}

// Config bounds a server. Zero fields take the defaults.
type Config struct {
	Logger *slog.Logger     // default: no log
	Now    func() time.Time // source of the epochs of switches without an agent; default time.Now

	// Admit returns an error if the peer of a connection may not speak for a switch; agent says whether it does as an
	// agent. It is called after the handshake, and may wait until ctx ends. nil: everybody may.
	Admit func(ctx context.Context, conn net.Conn, id openflow.DatapathID, agent bool) error

	MaxSessions int // connections at once, handshakes included; default 4,096
	// HeldBytes is what the sessions hold together of events that are not logged, or that came before the end of the
	// handshake. Beyond it a session that holds more than its share holds no more, so that it is never twice as much.
	// Default 256 MiB
	HeldBytes        int
	HandshakeTimeout time.Duration // from accept to Attached; default 5 s
	EchoInterval     time.Duration // between echo requests; default 1 s
	SilentAfter      time.Duration // a peer that is silent for this long is dead; default 5 s
	Heartbeat        time.Duration // between heartbeats to an agent that is claimed; default heartbeat.DefaultInterval
	ProbeTimeout     time.Duration // for the older of two sessions with one datapath id; default 500 ms
	SendQueue        int           // bytes that wait for a peer that does not read; default 8 MiB
	WriteTimeout     time.Duration // for one write; default 10 s
}

// Defaults of Config, and times that are not configured.
const (
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultEchoInterval     = time.Second
	DefaultSilentAfter      = 5 * time.Second
	DefaultProbeTimeout     = 500 * time.Millisecond
	DefaultSendQueue        = 8 << 20

	TickInterval      = 100 * time.Millisecond // of Session.Tick
	LingerAfterRefuse = time.Second            // that a refused agent has to read the REFUSE
)

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
	if c.HeldBytes == 0 {
		c.HeldBytes = 256 << 20
	}
	if c.SendQueue == 0 {
		c.SendQueue = DefaultSendQueue
	}
	set(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	set(&c.EchoInterval, DefaultEchoInterval)
	set(&c.SilentAfter, DefaultSilentAfter)
	set(&c.Heartbeat, heartbeat.DefaultInterval)
	set(&c.ProbeTimeout, DefaultProbeTimeout)
	set(&c.WriteTimeout, 10*time.Second)
	return c
}

func (c Config) validate() error {
	if err := ofconn.CheckEcho(c.EchoInterval, c.SilentAfter); err != nil {
		return fmt.Errorf("southbound: %w", err)
	}
	return nil
}
