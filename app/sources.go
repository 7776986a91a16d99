package app

import (
	"time"
)

// Bounds of a Sources, and how it ages.
const (
	// SourcesPerPort bounds the addresses that are known at one port, for each key.
	SourcesPerPort = 16384
	// SourcesPerKey bounds those at all ports, for each key. When so many are known, a port has no more than an equal
	// share. Ports that had more keep them, so there are less than twice as many.
	SourcesPerKey = 65536
	// SourcePorts bounds the ports at which addresses are known, for each key.
	SourcePorts = 4096
	// SourceAge is for how long an address must not have been seen before it can be forgotten for another one. An
	// address that is silent stays if nobody needs its place, because its packets need not reach the controller.
	SourceAge = time.Hour

	sourcesForgotten = 512         // at a time: a transaction emits at most 1,024 messages
	sourcesSearched  = time.Minute // the least time between two searches for addresses to forget
)

// Sources has the Ethernet addresses of the hosts that have sent packets, and the port where each was seen last. It is
// the part of an application that hosts can fill, since one host can send from any number of addresses. So it has
// bounds, for each port too: a host that fills its port takes no place of others. At a bound, addresses that were not
// seen for SourceAge are forgotten, at most once a minute: those at the port if it is full, otherwise those at all. If
// there are none, a further address is not learned. What is known of one port can be forgotten in one transaction.
//
// K is what it is divided by: the switch, or a number of the application's choice.
type Sources[K Key] struct {
	perPort, perKey uint64
	places          Map[K, MAC, place]
	counts          Map[K, PortOf, crowd] // by port; that of all is at the zero PortOf
}

// place is where an address was seen last.
type place struct {
	_      struct{} `cbor:",toarray"`
	At     PortOf
	Minute int64 // since 1970
}

// crowd is how many addresses are at a port, or at all of them.
type crowd struct {
	_        struct{} `cbor:",toarray"`
	Hosts    uint64
	Ports    uint64 // of all: ports with any
	Searched int64  // the minute of the last search for old ones
}

// Sighting is what Sources.See did.
type Sighting struct {
	Was       PortOf // where the address was seen before
	Known     bool   // it was known
	Learned   bool   // it is known now; false: there is no room, and if it was known, it is forgotten
	Forgotten []MAC  // others that were forgotten for it
}

// NewSources adds sources to an application. The name begins those of its two tables. If the addresses of one port are
// divided among several keys, parts is how many: SourcesPerPort and SourcesPerKey are divided by it.
func NewSources[K Key](a *App, name string, parts uint64, options ...TableOption) Sources[K] {
	return Sources[K]{SourcesPerPort / parts, SourcesPerKey / parts, NewMap[K, MAC, place](a, name, options...),
		NewMap[K, PortOf, crowd](a, name+"_counts", options...)}
}

// Cells names what See and the other methods need for a key.
func (s Sources[K]) Cells(k K) Cells { return Need(s.places.Cell(k), s.counts.Cell(k)) }

// Where returns the port at which an address was seen last.
func (s Sources[K]) Where(tx *Tx, k K, host MAC) (PortOf, bool) {
	p, known := s.places.Get(tx, k, host)
	return p.At, known
}

// See records that a packet came from an address at a port.
func (s Sources[K]) See(tx *Tx, k K, host MAC, at PortOf) (seen Sighting) {
	was, known := s.places.Get(tx, k, host)
	minute := tx.Now().Unix() / 60
	seen = Sighting{Was: was.At, Known: known, Learned: true}
	switch {
	case known && was.At == at && was.Minute == minute:
		return seen
	case known && was.At == at:
		s.places.Put(tx, k, host, place{At: at, Minute: minute})
		return seen
	case known:
		s.Forget(tx, k, host)
	}
	if !s.room(tx, k, at) {
		seen.Forgotten = s.search(tx, k, at, minute)
		if seen.Learned = len(seen.Forgotten) > 0 && s.room(tx, k, at); !seen.Learned {
			return seen
		}
	}
	s.places.Put(tx, k, host, place{At: at, Minute: minute})
	s.count(tx, k, at, 1)
	return seen
}

// room reports whether there is room for one more address at a port.
func (s Sources[K]) room(tx *Tx, k K, at PortOf) bool {
	here, _ := s.counts.Get(tx, k, at)
	all, _ := s.counts.Get(tx, k, PortOf{})
	switch {
	case here.Hosts == 0:
		return all.Ports < SourcePorts
	case here.Hosts >= s.perPort:
		return false
	}
	return all.Hosts < s.perKey || here.Hosts < s.perKey/all.Ports
}

// count counts one address more at a port, or one less.
func (s Sources[K]) count(tx *Tx, k K, at PortOf, more int) {
	here, _ := s.counts.Get(tx, k, at)
	all, _ := s.counts.Get(tx, k, PortOf{})
	before := here.Hosts
	here.Hosts += uint64(more)
	all.Hosts += uint64(more)
	switch {
	case before == 0:
		all.Ports++
	case here.Hosts == 0:
		all.Ports--
	}
	if s.counts.Put(tx, k, PortOf{}, all); here.Hosts == 0 {
		s.counts.Delete(tx, k, at)
		return
	}
	s.counts.Put(tx, k, at, here)
}

// search forgets old addresses unless it did so lately: those at a port if that is full, otherwise those at all ports.
func (s Sources[K]) search(tx *Tx, k K, at PortOf, minute int64) (gone []MAC) {
	everywhere := PortOf{}
	if here, _ := s.counts.Get(tx, k, at); here.Hosts < s.perPort {
		at = everywhere
	}
	c, _ := s.counts.Get(tx, k, at)
	if minute < c.Searched+int64(sourcesSearched/time.Minute) {
		return nil
	}
	c.Searched = minute
	s.counts.Put(tx, k, at, c)
	for host, p := range s.places.All(tx, k) {
		if minute-p.Minute > int64(SourceAge/time.Minute) && (at == everywhere || at == p.At) {
			if gone = append(gone, host); len(gone) == sourcesForgotten {
				break
			}
		}
	}
	for _, host := range gone {
		s.Forget(tx, k, host)
	}
	return gone
}

// Forget forgets an address.
func (s Sources[K]) Forget(tx *Tx, k K, host MAC) {
	if p, known := s.places.Get(tx, k, host); known {
		s.places.Delete(tx, k, host)
		s.count(tx, k, p.At, -1)
	}
}

// ForgetPort forgets all addresses at a port.
func (s Sources[K]) ForgetPort(tx *Tx, k K, at PortOf) {
	here, _ := s.counts.Get(tx, k, at)
	if here.Hosts == 0 {
		return // and looking takes long
	}
	for host, p := range s.places.All(tx, k) {
		if p.At == at {
			s.places.Delete(tx, k, host)
		}
	}
	all, _ := s.counts.Get(tx, k, PortOf{})
	all.Hosts -= here.Hosts
	all.Ports--
	s.counts.Put(tx, k, PortOf{}, all)
	s.counts.Delete(tx, k, at)
}
