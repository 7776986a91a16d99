package agent

import "github.com/holdfast-sdn/holdfast/openflow"

// Counters count since the agent started.
type Counters struct {
	Events        uint64 // taken from the switch into the buffer, SWITCH_UP and SWITCH_DOWN included
	Sent          uint64 // events written to masters, repetitions included
	Acked         uint64 // events released by acknowledgements
	Full          uint64 // times that the event buffer was full
	Forwarded     uint64 // commands that passed to the switch
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
