package topology

import (
	"fmt"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
)

// What this application tells others, by app.Emit. Take it with app.HandleEmitted; it comes in the transaction of the
// input that changed the topology, and nothing is told twice.
type (
	// SwitchUp says that a switch is there, with these ports. Links and hosts follow as they are found.
	SwitchUp struct {
		Switch app.Switch
		Ports  []app.Port
	}
	// SwitchDown says that a switch is gone. LinkDown and HostGone of its links and hosts come before it.
	SwitchDown struct{ Switch app.Switch }

	// LinkUp says that a link was found, in one direction. It carries packets both ways for sure once it is
	// bidirectional.
	LinkUp struct {
		Link
		Bidirectional bool // the other direction is up too
	}
	// LinkDown says that directions of links are gone, all for one reason.
	LinkDown struct {
		Links  []Link
		Reason Reason
	}

	// HostSeen says that a host was found, has moved, or has another address.
	HostSeen struct{ Host }
	// HostGone says that the port of hosts is down or has become a link's, or that they made room for others.
	HostGone struct{ Hosts []app.MAC }
)

// Link is one direction of a link.
type Link struct{ From, To app.PortOf }

// Host is what is known of a host.
type Host struct {
	MAC       app.MAC
	At        app.PortOf
	Addresses []netip.Addr // at most 8, in the order in which they were learned
}

// Reason is why a link is down.
type Reason uint8

// Reasons.
const (
	PortDown     Reason = iota + 1 // the switch at one end says that its port is down, or removed
	SwitchIsDown                   // the switch at one end is gone
	ProbesLost                     // the ports are up, and nothing comes through
)

func (r Reason) String() string {
	switch r {
	case 0:
		return "none"
	case PortDown:
		return "port down"
	case SwitchIsDown:
		return "switch down"
	case ProbesLost:
		return "probes lost"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// changes gathers what a handler has to tell.
type changes struct {
	reason Reason
	down   []Link
	gone   []app.MAC
}

func (c *changes) emit(tx *app.Tx) error {
	if len(c.down) > 0 {
		if err := app.Emit(tx, LinkDown{c.down, c.reason}); err != nil {
			return err
		}
	}
	if len(c.gone) > 0 {
		return app.Emit(tx, HostGone{c.gone})
	}
	return nil
}
