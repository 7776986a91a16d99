package topology

import (
	"fmt"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/app"
)

// Messages that this application emits with app.Emit. Receive them with app.HandleEmitted, in the transaction of the
// input that changed the topology. Each change is emitted once.
type (
	// SwitchUp: a switch is up, with these ports. Its links and hosts follow as they are found.
	SwitchUp struct {
		Switch app.Switch
		Ports  []app.Port
	}
	// SwitchDown: a switch is down. LinkDown and HostGone of its links and hosts precede it.
	SwitchDown struct{ Switch app.Switch }

	// LinkUp: one direction of a link was found. Only when it is bidirectional is it known to carry packets both ways.
	LinkUp struct {
		Link
		Bidirectional bool // the other direction is up too
	}
	// LinkDown: directions of links are down, all for the same reason.
	LinkDown struct {
		Links  []Link
		Reason Reason
	}

	// HostSeen: a host was found, has moved, or has another address.
	HostSeen struct{ Host }
	// HostGone: the port of these hosts is down or has a link now, or they were replaced by others.
	HostGone struct{ Hosts []app.MAC }
)

// Link is one direction of a link.
type Link struct{ From, To app.PortOf }

// Host is a host at the edge.
type Host struct {
	MAC       app.MAC
	At        app.PortOf
	Addresses []netip.Addr // at most 8, in the order in which they were learned
}

// Reason is why a link is down.
type Reason uint8

// Reasons.
const (
	PortDown     Reason = iota + 1 // the switch at one end reports its port down or removed
	SwitchIsDown                   // the switch at one end is down
	ProbesLost                     // the ports are up, but no probe arrives
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

// changes collects what a handler emits.
type changes struct {
	reason    Reason
	down      []Link
	gone      []app.MAC
	dismissed []dismissed
}

// maxDismissed bounds the links from a switch that is down whose receivers are told, because a transaction may emit
// only so many messages. The others notice that no more probes arrive.
const maxDismissed = 256

// dismiss tells the receiver of a link that is down, so that another link to its port is found at once.
func (c *changes) dismiss(d dismissed) {
	if len(c.dismissed) < maxDismissed {
		c.dismissed = append(c.dismissed, d)
	}
}

func (c *changes) emit(tx *app.Tx) error {
	if len(c.down) > 0 {
		if err := app.Emit(tx, LinkDown{c.down, c.reason}); err != nil {
			return err
		}
	}
	if len(c.gone) > 0 {
		if err := app.Emit(tx, HostGone{c.gone}); err != nil {
			return err
		}
	}
	for _, d := range c.dismissed {
		if err := app.Emit(tx, d); err != nil {
			return err
		}
	}
	return nil
}
