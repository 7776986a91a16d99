// Package trace follows some events of switches through the processes that handle them: from the agent that reads an
// event to the switch that has executed the commands it has led to. The spans go to a collector of OpenTelemetry.
//
// Which events are followed, and the ids of their traces, are computed from what names an event. So an agent, a leader
// and the next leader write spans of one trace, and nothing of it is sent between them or logged.
package trace

import (
	"encoding/binary"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Event names an event of a switch, as the log does.
type Event struct {
	Switch openflow.DatapathID
	Epoch  uint64
	Seq    uint64
}

// The names of attributes. Logs about an event have the same; see Tracer.Names.
const (
	Switch  = "switch"
	Epoch   = "epoch"
	Number  = "event" // sequence of the event in its epoch
	Group   = "group"
	Term    = "term"
	Command = "command" // sequence of the command in its epoch
	Target  = "target"  // the switch of a command
	Message = "message" // type of the event
	From    = "from"    // the actor in another group whose message was executed because of the event
	Actor   = "actor"   // that has handled the event, or a message because of it
)

// ID is the id of the trace, the same in all processes.
func (e Event) ID() (id [16]byte) {
	a := e.hash()
	binary.BigEndian.PutUint64(id[:], a)
	binary.BigEndian.PutUint64(id[8:], mix(a^0x9e3779b97f4a7c15)|1) // not zero, which is no id
	return id
}

// root is the id of the first span, of which all others are children.
func (e Event) root() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], mix(e.hash()+1)|1)
	return id
}

func (e Event) hash() uint64 {
	return mix(mix(mix(uint64(e.Switch))^e.Epoch) ^ e.Seq)
}

// mix is a bijection in which each bit of the result depends on all bits of x (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Span is a part of what happens because of an event.
type Span struct {
	Event
	Name       string
	Root       bool // the first span of the trace
	Start, End time.Time
	Attributes []Attribute // beside those that name the event
}

// Attribute is a number that a span has, or a text.
type Attribute struct {
	Name  string
	Value uint64
	Text  string // if it is not empty, in place of Value
}
