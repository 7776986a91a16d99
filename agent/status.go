package agent

import "github.com/holdfast-sdn/holdfast/openflow"

// Counters are counted from the start of the agent.
type Counters struct {
	Events        uint64 // events taken into the buffer, including SWITCH_UP and SWITCH_DOWN
	Sent          uint64 // events written to masters, including repetitions
	Acked         uint64 // events that were acknowledged
	Full          uint64 // times that the event buffer was full
	Forwarded     uint64 // commands that passed to the switch
	BestEffort    uint64 // commands without a sequence that passed to the switch
	Duplicates    uint64 // commands dropped since they had passed before
	Stale         uint64 // commands of an epoch that has ended
	RefusedBlocks uint64 // blocks of commands that did not come from the master, or not in the generation of its claim
	RefusedRoles  uint64 // claims to be master with a generation below the highest
}

// Status is a snapshot of one switch behind the agent.
type Status struct {
	Switch      openflow.DatapathID
	Version     uint8 // OpenFlow version of the switch
	Connected   bool
	Epoch       uint64 // the newest epoch, which is open while Connected
	Held        int    // events that are not acknowledged
	HeldBytes   int
	Forwarded   uint64 // the highest command sequence of the epoch that passed to the switch
	Done        uint64 // the highest command sequence that the switch has executed
	Generation  uint64 // the highest of any master
	Master      string // address; empty when there is none
	Controllers int    // number of connections to controllers
	Counters    Counters
}

// Status returns what the core knows: all but the fields Switch, Master and Controllers.
func (c *Core) Status() Status {
	return Status{
		Version: c.version, Connected: c.live, Epoch: c.Epoch(),
		Held: c.events.Len(), HeldBytes: c.events.Bytes(),
		Forwarded: uint64(c.commands.passed), Done: c.commands.done,
		Generation: c.generation, Counters: c.count,
	}
}

// Epoch returns the newest epoch, open or closed; 0 if there is none.
func (c *Core) Epoch() uint64 {
	if len(c.epochs) == 0 {
		return 0
	}
	return c.epochs[len(c.epochs)-1].epoch
}

// Held returns how many events are not acknowledged.
func (c *Core) Held() int { return c.events.Len() }

// QueuedCommands returns how many bytes are to be written to the switch. To bound them, the caller stops reading from
// the master and from the switch.
func (c *Core) QueuedCommands() int { return len(c.commands.out) }

// Master returns the connection of the master; nil if there is none.
func (c *Core) Master() *Peer { return c.master }
