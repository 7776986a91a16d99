package show

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// place is where packets begin or end: a host, or any port of a switch.
type place struct {
	Switch app.Switch
	Host   *topology.Host // nil for a switch
}

func (p place) String() string {
	at := "switch " + p.Switch.String()
	if p.Host == nil {
		return at
	}
	if a := addresses(p.Host.Addresses); a != "" {
		return fmt.Sprintf("host %v (%s) at %s", p.Host.MAC, a, at)
	}
	return fmt.Sprintf("host %v at %s", p.Host.MAC, at)
}

// find returns the place of an operator's name for it: a switch by its datapath id, in hexadecimal; a host by its
// Ethernet address or by one of its IP addresses.
func find(name string, switches []app.Switch, hosts []topology.Host) (place, error) {
	digits := strings.TrimPrefix(name, "0x")
	if hw, err := net.ParseMAC(name); err == nil && len(hw) == len(app.MAC{}) {
		return findHost(name, hosts, func(h topology.Host) bool { return h.MAC == app.MAC(hw) })
	} else if err == nil && len(hw) == 8 { // a datapath id with colons; first, since it could be IPv6
		digits = hex.EncodeToString(hw)
	} else if addr, err := netip.ParseAddr(name); err == nil {
		return findHost(name, hosts, func(h topology.Host) bool { return slices.Contains(h.Addresses, addr.Unmap()) })
	}
	id, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return place{}, fmt.Errorf("%q names no place: use the datapath id of a switch in hexadecimal, or the "+
			"Ethernet or IP address of a host", name)
	}
	if !slices.Contains(switches, app.Switch(id)) {
		return place{}, fmt.Errorf("no switch %v is up: holdfast topology lists those that are", app.Switch(id))
	}
	return place{Switch: app.Switch(id)}, nil
}

func findHost(name string, hosts []topology.Host, is func(topology.Host) bool) (place, error) {
	var found []topology.Host
	for _, h := range hosts {
		if is(h) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return place{}, fmt.Errorf("no host %s is known: holdfast topology lists those that have been seen", name)
	case 1:
		return place{found[0].At.Switch, &found[0]}, nil
	}
	return place{}, fmt.Errorf("hosts %v and %v both have %s: give the Ethernet address", found[0].MAC, found[1].MAC,
		name)
}
