// Package model has the messages about flow entries and paths with which applications talk to each other: in words of
// the network, and of no southbound protocol. It is no application, holds no state, and knows no encoding: package node
// turns entries into what switches understand. Switches, ports, links and hosts are those of package topology, which
// knows no southbound protocol either.
//
// After section 4 of the Beehive paper (Yeganeh and Ganjali), where node controllers own the flow entries of a switch
// and a path manager writes to them.
package model

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Match is the frames for which an entry is: those of Class that enter by a port with a tag.
type Match struct {
	In  app.Port // 0: any
	Tag uint16   // the outermost VLAN id, 1 to 4094; 0: whatever Class says
	packet.Class
}

// Entry is a flow entry: it sends the frames of a match out of a port.
type Entry struct {
	Match
	Priority uint16 // the highest of those that match counts
	Push     uint16 // a tag that frames get; 0: none
	Pop      bool   // frames lose their outermost tag
	Out      app.Port
	// While Out is down, frames leave by Backup with BackupTag, in place of Push or Tag: the switch decides that (fast
	// failover). 0: they are dropped.
	Backup    app.Port
	BackupTag uint16
}

// Bounds of changes and entries. What exceeds them is refused.
const (
	MaxSteps   = 512    // of a change
	MaxChanged = 1024   // flow entries that a change installs and removes: each takes about 1 KiB of a transaction
	MaxEntries = 16_384 // flow entries of a switch
	MaxFlows   = 32     // flow entries that a switch needs for an Entry, because of ranges of ports
)

// Step installs or removes an entry. To remove one, its match and priority are enough.
type Step struct {
	Entry
	ID     uint64 // of the owner's, for what it installs the entry; an entry belongs to one
	Remove bool
}

// Change asks the node controller of a switch for steps, in their order. It answers with one Changed when the switch
// has confirmed them. An owner may have one change of a switch outstanding.
type Change struct {
	_      struct{} `cbor:",toarray"`
	Switch app.Switch
	Owner  string // the name of the application
	Number uint64 // chosen by the owner
	Steps  Steps  // at most MaxSteps
}

// Changed is the end of a change: the switch has executed all steps but those that are refused.
type Changed struct {
	_       struct{} `cbor:",toarray"`
	Switch  app.Switch
	Owner   string
	Number  uint64
	Away    bool // the switch is down: it may have executed steps, and what it did is undone when it is back
	Refused []Refusal
}

// Refusal says that a step was not executed, and what the entry replaces is as it was.
type Refusal struct {
	Step int // from 0
	Why  string
}

// NodeUp says that a switch is up and has confirmed all entries that it should have, and no others of package node.
type NodeUp struct{ Switch app.Switch }

// NodeDown says that a switch is down. It may still forward by its entries.
type NodeDown struct{ Switch app.Switch }

// NodeForgotten says that a switch which is down does not come back. Nothing waits for it any more.
type NodeForgotten struct{ Switch app.Switch }

// Removed tells an owner that a switch has removed an entry by itself, or that somebody else has removed it there.
type Removed struct {
	Switch app.Switch
	Owner  string
	ID     uint64
	Why    string
}
