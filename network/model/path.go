package model

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Path is a rule for the whole network: frames of a class that enter by From leave by To, unchanged.
type Path struct {
	_        struct{} `cbor:",toarray"`
	Name     string   // unique in the cluster
	From, To app.PortOf
	Class    packet.Class
	Priority uint16       // among paths that begin at From; 0 is DefaultPriority
	Avoid    []app.Switch // that it must not cross
	MaxHops  int          // switches that it may cross; 0 is the bound of the path manager
	Backup   bool         // frames take another route while a link is down, without a controller
}

// DefaultPriority is the priority of the entry at the beginning of a path.
const DefaultPriority uint16 = 1000

// AddPath asks the path manager for a path. It is answered with PathState.
type AddPath struct{ Path }

// AddPaths asks for paths together, each of which is there or is refused by itself. It is answered with a PathState for
// each that is up or refused, and none while it is being installed.
type AddPaths struct {
	_     struct{} `cbor:",toarray"`
	Paths []Path   // at most MaxPaths
}

// MaxPaths bounds the paths of an AddPaths. One with more fails.
const MaxPaths = 256

// RemovePath ends a path.
type RemovePath struct{ Name string }

// PathState says that a path has another state.
type PathState struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	State State
	Why   string // it is refused, broken or bare
}

// State is what a path is for frames.
type State string

// The states of a path.
const (
	Installing State = "installing" // no frame takes it yet
	Up         State = "up"         // every frame takes it
	Bare       State = "bare"       // it is up, was to have a backup, and there is no second way for one
	Broken     State = "broken"     // it is installed, a link or switch of it is down, and there is no other way
	Refused    State = "refused"    // nothing of it is installed
	Removing   State = "removing"   // frames may take it until the switch where it begins has confirmed the end
	Gone       State = "gone"       // nothing of it is left where it begins
)
