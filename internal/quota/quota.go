// Package quota divides a bounded number of places among peers. If all are taken, the peer that has most loses one to a
// peer that has fewer, so that one peer cannot keep the others out, and those that were there first stay. A peer is a
// name, such as an IP address: who can use many of these has as many shares. The package closes and logs nothing.
package quota

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Places are those of one resource. Safe for concurrent use.
type Places[T any] struct {
	bound int

	mu   sync.Mutex             // guards the fields below
	of   map[string][]*Place[T] // by peer, in the order in which they were taken
	used int
}

// Place is one that a peer has taken, for something of the caller's.
type Place[T any] struct {
	For  T
	peer string
}

// New returns a number of places that are free.
func New[T any](bound int) *Places[T] { return &Places[T]{bound: bound, of: map[string][]*Place[T]{}} }

// Take takes a place for a peer. If all are taken and another peer has at least two more than this one, that peer loses
// the place which it took last: it is returned as lost, and the caller ends what it was for. Otherwise the result is
// nil: there is no place.
func (p *Places[T]) Take(peer string, it T) (mine, lost *Place[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used >= p.bound {
		most := slices.MaxFunc(append(slices.Sorted(maps.Keys(p.of)), peer), func(a, b string) int {
			return cmp.Compare(len(p.of[a]), len(p.of[b]))
		})
		list := p.of[most]
		if len(list) < len(p.of[peer])+2 {
			return nil, nil
		}
		lost = list[len(list)-1]
		p.remove(lost)
	}
	mine = &Place[T]{it, peer}
	p.of[peer] = append(p.of[peer], mine)
	p.used++
	return mine, lost
}

// Leave frees a place, unless it was lost before.
func (p *Places[T]) Leave(mine *Place[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(mine)
}

// remove is called with mu locked.
func (p *Places[T]) remove(it *Place[T]) {
	list := p.of[it.peer]
	i := slices.Index(list, it)
	if i < 0 {
		return
	}
	p.used--
	if p.of[it.peer] = slices.Delete(list, i, i+1); len(list) == 1 {
		delete(p.of, it.peer)
	}
}
