package directory

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// A request is what a controller asks of the directory. It may be lost, repeated, or made by several controllers.
//
//	Assign: 1, number of groups, groups, version claimed, actors
//	Moved:  2, group, version, actor
//	Place:  3, replication, controllers
//	Reached: 4, group, replicas
//	Adopt: 5, number of actors, actors
//	Pin: 6, 1 or 0, actor
const (
	requestAssign  = 1
	requestMoved   = 2
	requestPlace   = 3
	requestReached = 4
	requestAdopt   = 5
	requestPin     = 6
)

// Assign is the request to assign those of the actors that have no row. Groups are those from which to choose for a
// switch: the controller that asks has a replica of each, so that it can serve the switch, and the first is its home.
// Any other actor is assigned to the first.
//
// A switch without a row may have been in another cluster, or in this one before all logs were lost. Claimed is the
// version in the last claim that the switch has accepted, 0 if there is none. The new version is above that.
type Assign struct {
	Actors  []ledger.Actor
	Groups  []uint64
	Claimed uint16
}

// Moved is the request to record that an actor has arrived in a group. It changes nothing if there is a row with that
// version or a newer one.
type Moved struct {
	Actor ledger.Actor
	ledger.Assignment
}

// Place is the request for the layout of a cluster with these controllers; see Layout.Place. It changes nothing if the
// cluster has that layout.
type Place struct {
	Replication uint64
	Controllers []uint64
}

// Reached is the request of the leader of a home group that has the replicas that it is to have. It changes nothing if
// it is to have others by now.
type Reached struct {
	Group    uint64
	Replicas []uint64
}

// Adopt is the request of the leader of group 1 to assign actors to it that it has from a cluster of one group. The
// last one has none: all that the group has are assigned.
type Adopt struct{ Actors []ledger.Actor }

// Pin is the request to pin an actor to the group in which it lives, or to release it. Only an operator moves an actor
// that is pinned.
type Pin struct {
	Actor  ledger.Actor
	Pinned bool
}

// MaxAdopted bounds the actors of one request, so that its transaction is small enough for the log.
const MaxAdopted = 4096

// Append appends the encoding of the request.
func (r Adopt) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, requestAdopt), uint64(len(r.Actors)))
	for _, a := range r.Actors {
		b = a.Append(b)
	}
	return b
}

// Append appends the encoding of the request.
func (r Place) Append(b []byte) []byte {
	return appendIDs(binary.AppendUvarint(append(b, requestPlace), r.Replication), r.Controllers)
}

// Append appends the encoding of the request.
func (r Reached) Append(b []byte) []byte {
	return appendIDs(binary.AppendUvarint(append(b, requestReached), r.Group), r.Replicas)
}

// Append appends the encoding of the request.
func (r Assign) Append(b []byte) []byte {
	b = binary.AppendUvarint(append(b, requestAssign), uint64(len(r.Groups)))
	for _, g := range r.Groups {
		b = binary.AppendUvarint(b, g)
	}
	b = binary.AppendUvarint(b, uint64(r.Claimed))
	for _, a := range r.Actors {
		b = a.Append(b)
	}
	return b
}

// Append appends the encoding of the request.
func (r Pin) Append(b []byte) []byte {
	pinned := byte(0)
	if r.Pinned {
		pinned = 1
	}
	return r.Actor.Append(append(b, requestPin, pinned))
}

// Append appends the encoding of the request.
func (r Moved) Append(b []byte) []byte {
	return r.Actor.Append(appendRow(append(b, requestMoved), r.Assignment))
}

var (
	errRequest = errors.New("the request to the directory is damaged")
	errRow     = errors.New("the row of the directory is damaged")
)

// parse decodes a request: an Assign, with at least one group, a Moved, a Place, with at least one controller, a
// Reached, an Adopt, or a Pin.
func parse(b []byte) (any, error) {
	if len(b) == 0 {
		return nil, errRequest
	}
	kind, b := b[0], b[1:]
	n, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	switch kind {
	case requestAssign:
		var r Assign
		for ; n > 0; n-- {
			var g uint64
			if g, b, err = uvarint(b); err != nil {
				return nil, err
			}
			r.Groups = append(r.Groups, g)
		}
		var claimed uint64
		if claimed, b, err = uvarint(b); err != nil || claimed > math.MaxUint16 {
			return nil, errRequest
		}
		r.Claimed = uint16(claimed)
		for len(b) > 0 {
			var a ledger.Actor
			if a, b, err = ledger.ParseActor(b); err != nil {
				return nil, errRequest
			}
			r.Actors = append(r.Actors, a)
		}
		if len(r.Groups) == 0 {
			return nil, errRequest
		}
		return r, nil
	case requestMoved:
		r := Moved{Assignment: ledger.Assignment{Group: n}}
		if r.Version, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if r.Actor, b, err = ledger.ParseActor(b); err != nil || len(b) > 0 {
			return nil, errRequest
		}
		return r, nil
	case requestPin:
		r := Pin{Pinned: n == 1}
		if r.Actor, b, err = ledger.ParseActor(b); err != nil || len(b) > 0 || n > 1 {
			return nil, errRequest
		}
		return r, nil
	case requestAdopt:
		var r Adopt
		for ; n > 0; n-- {
			var a ledger.Actor
			if a, b, err = ledger.ParseActor(b); err != nil {
				return nil, errRequest
			}
			r.Actors = append(r.Actors, a)
		}
		if len(b) > 0 {
			return nil, errRequest
		}
		return r, nil
	case requestPlace, requestReached:
		r := reader{b: b}
		ids := r.ids()
		switch {
		case r.end() != nil || kind == requestPlace && len(ids) == 0:
			return nil, errRequest
		case kind == requestPlace:
			return Place{n, ids}, nil
		}
		return Reached{n, ids}, nil
	}
	return nil, errRequest
}

func uvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errRequest
	}
	return v, b[n:], nil
}

func appendRow(b []byte, r ledger.Assignment) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, r.Group), r.Version)
}

func parseRow(b []byte) (r ledger.Assignment, err error) {
	group, rest, err := uvarint(b)
	if err != nil {
		return r, errRow
	}
	version, rest, err := uvarint(rest)
	if err != nil || len(rest) > 0 {
		return r, errRow
	}
	return ledger.Assignment{Group: group, Version: version}, nil
}
