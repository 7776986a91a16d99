package agent

import "github.com/holdfast-sdn/holdfast/openflow"

// Counters count since the agent started.
type Counters struct {
	Events        uint64 // taken from the switch into the buffer, SWITCH_UP and SWITCH_DOWN included
	Sent          uint64 // events written to masters, repetitions included
	Acked         uint64 // events released by acknowledgements
	Full          uint64 // times that the event buffer was full
	Forwarded     uint64 // commands that passed to the switch
	Loose         uint64 // commands without a sequence that passed to the switch
	Duplicates    uint64 // commands that had passed before
	Stale         uint64 // commands of an epoch that is over
	RefusedBlocks uint64 // blocks of commands that were not from the master of the highest term
	RefusedRoles  uint64 // claims to be master with a term that had passed
}

// Status is a snapshot of one switch behind the agent.
type Status struct {
	Switch      openflow.DatapathID
	Version     uint8  // OpenFlow version of the switch
	Connected   bool   // the switch is
	Epoch       uint64 // the newest, open while Connected
	Held        int    // events waiting for an acknowledgement
	HeldBytes   int
	Forwarded   uint64 // the highest command sequence of the epoch that passed to the switch
	Done        uint64 // the highest that the switch has executed
	Term        uint64 // the highest of any master
	Master      string // address of the master; empty when there is none
	Controllers int    // connections to controllers
	Counters    Counters
}

// Status returns what the core knows. Which switch this is, and who the controllers are, is
// known around it.
func (c *Core) Status() Status {
	return Status{
		Version: c.version, Connected: c.live, Epoch: c.Epoch(),
		Held: c.events.held(), HeldBytes: c.events.heldBytes(),
		Forwarded: c.commands.Forwarded, Done: c.commands.Done,
		Term: c.generation, Counters: c.count,
	}
}

// Epoch returns the newest epoch, open or closed; 0 when there is none.
func (c *Core) Epoch() uint64 {
	if len(c.epochs) == 0 {
		return 0
	}
	return c.epochs[len(c.epochs)-1].epoch
}

// Live reports whether the newest epoch is open.
func (c *Core) Live() bool { return c.live }

// Held returns how many events wait for an acknowledgement.
func (c *Core) Held() int { return c.events.held() }

// QueuedCommands returns how many bytes wait for the switch. Who bounds them reads neither
// from the master nor from the switch while there are too many.
func (c *Core) QueuedCommands() int { return len(c.commands.Out) }

// Master returns the connection of the master; nil when it has none.
func (c *Core) Master() *Peer { return c.master }
