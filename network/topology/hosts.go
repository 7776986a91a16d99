package topology

import (
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
)

const (
	maxHosts        = 16384
	maxHostsPerPort = 1024
	maxAddresses    = 8

	// seenGrain is the resolution of a host's last sighting, so that not every packet causes a write.
	seenGrain = time.Minute
	// hostAge is how long a host must not have been seen before it may be replaced by another. Otherwise it stays: a
	// silent host is not gone, because its packets need not reach the controller.
	hostAge = time.Hour
	// sweepEvery is the least time between two searches for hosts to replace.
	sweepEvery = time.Minute
)

type hostRow struct {
	_     struct{} `cbor:",toarray"`
	At    app.PortOf
	Addrs []netip.Addr
	Since int64 // when it came there
	Seen  int64 // at most seenGrain before it was last seen
}

type totals struct {
	_       struct{} `cbor:",toarray"`
	Hosts   uint32
	Refused uint64 // packets of hosts for which there was no room
	Swept   int64  // when hosts to replace were last searched
}

// sight learns from a frame at a port of the edge.
func (t *topology) sight(tx *app.Tx, at app.PortOf, frame []byte) error {
	f, ok := ReadFrame(frame)
	port, _ := t.ends.Get(tx, all, at)
	now := tx.Now().UnixNano()
	if !ok || !port.Up || port.link() || port.Silent || now-port.Changed < int64(Settle) {
		return nil
	}
	if err := t.learn(tx, at, port, f); err != nil || !f.Lease.IsValid() {
		return err
	}
	host, known := t.hosts.Get(tx, all, f.Lessee)
	if !known || !host.note(f.Lease, true) {
		return nil
	}
	t.hosts.Put(tx, all, f.Lessee, host)
	return host.tell(tx, f.Lessee)
}

func (t *topology) learn(tx *app.Tx, at app.PortOf, port endRow, f Frame) error {
	now := tx.Now().UnixNano()
	host, known := t.hosts.Get(tx, all, f.From)
	moves := !known || host.At != at
	if moves {
		if known && now-host.Since < int64(Settle) {
			return nil // with a loop or a duplicate address a host would move with each packet
		}
		if room, err := t.room(tx, at, port, known); !room {
			return err
		}
		host, known = t.hosts.Get(tx, all, f.From) // it may have been replaced
		t.move(tx, host.At, at, known)
		host.At, host.Since = at, now
	}
	said := f.Own.IsValid() // else the address is that of the packet, which may come from behind a router
	addr := f.Source
	if said {
		addr = f.Own
	}
	news := host.note(addr, said) || moves
	if !news && now-host.Seen < int64(seenGrain) {
		return nil
	}
	host.Seen = now
	t.hosts.Put(tx, all, f.From, host)
	if !news {
		return nil
	}
	return host.tell(tx, f.From)
}

// move counts a host out of a port, if it was known, and in at another.
func (t *topology) move(tx *app.Tx, from, to app.PortOf, known bool) {
	if known {
		old, _ := t.ends.Get(tx, all, from)
		old.Hosts--
		t.ends.Put(tx, all, from, old)
	} else {
		sum, _ := t.totals.Get(tx, all)
		sum.Hosts++
		t.totals.Put(tx, all, sum)
	}
	port, _ := t.ends.Get(tx, all, to)
	port.Hosts++
	t.ends.Put(tx, all, to, port)
}

// room reports whether a port can have one more host, and replaces an old one if needed. A host that finds no room is
// counted, and stays where it was.
func (t *topology) room(tx *app.Tx, at app.PortOf, port endRow, known bool) (bool, error) {
	sum, _ := t.totals.Get(tx, all)
	full := func() bool { return port.Hosts >= maxHostsPerPort || !known && sum.Hosts >= maxHosts }
	if !full() {
		return true, nil
	}
	var ch changes
	if now := tx.Now().UnixNano(); now-sum.Swept >= int64(sweepEvery) {
		t.forget(tx, &ch, func(h hostRow) bool { return now-h.Seen > int64(hostAge) })
		port, _ = t.ends.Get(tx, all, at)
		sum, _ = t.totals.Get(tx, all)
		sum.Swept = now
	}
	room := !full()
	if !room {
		sum.Refused++
	}
	t.totals.Put(tx, all, sum)
	return room, ch.emit(tx)
}

// note records an address of a host, and reports whether it is new. An address that the host announces replaces the
// oldest one if there is no room; others do not, or each packet from behind a router would be a change.
func (h *hostRow) note(a netip.Addr, said bool) bool {
	if !a.IsValid() || slices.Contains(h.Addrs, a) || len(h.Addrs) >= maxAddresses && !said {
		return false
	}
	if len(h.Addrs) >= maxAddresses {
		h.Addrs = slices.Delete(h.Addrs, 0, 1)
	}
	h.Addrs = append(h.Addrs, a)
	return true
}

func (h *hostRow) tell(tx *app.Tx, mac app.MAC) error {
	return app.Emit(tx, HostSeen{Host{mac, h.At, h.Addrs}})
}

// forgetHosts forgets the hosts of a port. The caller writes row.
func (t *topology) forgetHosts(tx *app.Tx, at app.PortOf, row *endRow, ch *changes) {
	if row.Hosts == 0 {
		return // most ports that go down are links', and looking takes long
	}
	t.forget(tx, ch, func(h hostRow) bool { return h.At == at })
	row.Hosts = 0
}

// forget removes hosts.
func (t *topology) forget(tx *app.Tx, ch *changes, gone func(hostRow) bool) {
	sum, _ := t.totals.Get(tx, all)
	for mac, h := range t.hosts.All(tx, all) {
		if !gone(h) {
			continue
		}
		t.hosts.Delete(tx, all, mac)
		sum.Hosts--
		port, _ := t.ends.Get(tx, all, h.At)
		port.Hosts--
		t.ends.Put(tx, all, h.At, port)
		ch.gone = append(ch.gone, mac)
	}
	t.totals.Put(tx, all, sum)
}
