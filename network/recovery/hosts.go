package recovery

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// maxUnheard bounds the hosts of which topology has told nothing since their switch was down: it has forgotten them
// then, and says of none that it is gone. With more of them, each new host takes the place of one. Less in a test.
var maxUnheard = 16384

func (v *visit) hostSeen(m topology.HostSeen) error {
	if l, ok := v.links.Get(v.tx, all, m.At); ok && l.Found { // its frame has crossed a switch that is down
		return nil
	}
	v.heard(m.MAC)
	old, known := v.hosts.Get(v.tx, all, m.MAC)
	moved := !known || old != placeOf(m.At)
	if moved {
		if !known {
			v.makeRoom()
		}
		v.hosts.Put(v.tx, all, m.MAC, placeOf(m.At))
		v.changed(hostQuiet, fmt.Sprintf("%s is at %s", hostName(m.MAC), portName(m.At)))
	}
	// topology removes them with a switch that is down, and finds the host again by any frame
	if moved || len(m.Addresses) > 0 {
		v.addrs.Put(v.tx, all, m.MAC, m.Addresses)
	}
	return nil
}

// hostGone keeps hosts of a switch that is down.
func (v *visit) hostGone(m topology.HostGone) error {
	for _, mac := range m.Hosts {
		at, known := v.hosts.Get(v.tx, all, mac)
		if row, _ := v.switches.Get(v.tx, all, at.Switch); known && row.Up {
			v.dropHost(mac, "not at its port any more")
		}
	}
	return nil
}

func (v *visit) dropHosts(why string, gone func(app.PortOf) bool) {
	for mac, at := range v.hosts.All(v.tx, all) {
		if gone(at.portOf()) {
			v.dropHost(mac, why)
		}
	}
}

func (v *visit) dropHost(mac app.MAC, why string) {
	v.heard(mac)
	v.hosts.Delete(v.tx, all, mac)
	v.addrs.Delete(v.tx, all, mac)
	v.changed(hostQuiet, fmt.Sprintf("%s is gone: %s", hostName(mac), why))
}

// unhear notes that topology knows nothing of the hosts of a switch any more.
func (v *visit) unhear(s app.Switch) {
	for mac, at := range v.hosts.All(v.tx, all) {
		if _, is := v.unheard.Get(v.tx, all, mac); at.Switch == s && !is {
			v.unheard.Put(v.tx, all, mac, true)
			v.st.Unheard++
		}
	}
}

// heard notes that topology knows a host, or that it is gone.
func (v *visit) heard(mac app.MAC) {
	if _, is := v.unheard.Get(v.tx, all, mac); is {
		v.unheard.Delete(v.tx, all, mac)
		v.st.Unheard--
	}
}

// makeRoom drops hosts so that there is room for a new one.
func (v *visit) makeRoom() {
	for mac := range v.unheard.All(v.tx, all) {
		if v.st.Unheard < maxUnheard {
			return
		}
		v.dropHost(mac, "not heard since its switch was down")
	}
}
