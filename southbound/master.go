package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Here is what Core does because the controller says so.

// ErrNotMaster says that a command was sent before TakeMaster, or in a term that has passed.
var ErrNotMaster = errors.New("southbound: not master of the switch in this term")

// Switch names the switch, once it is attached.
func (c *Core) Switch() openflow.DatapathID { return c.id }

// Mode says whether an agent stands before the switch, once it is attached.
func (c *Core) Mode() Mode { return c.mode }

// Version is the OpenFlow version that the peer speaks; 0 before it has said so.
func (c *Core) Version() uint8 { return c.hs.Version }

// Attach is what the agent said first; zero without one.
func (c *Core) Attach() experimenter.Attach { return c.attach }

// Features is the switch's FEATURES_REPLY when it connected, a whole message of
// OpenFlow 1.3; nil before. Read only.
func (c *Core) Features() []byte { return c.features }

// Epoch is the newest epoch that the peer named, see Session.Epoch.
func (c *Core) Epoch() uint64 { return c.epoch }

// Untranslated counts the messages that the other OpenFlow version cannot say.
func (c *Core) Untranslated() uint64 { return c.untranslated }

// TakeMaster claims the switch for the leader of a term, of which the log knows r. In Direct mode each claim
// begins an epoch, above now (in nanoseconds): as soon as Begin is called if it is Fresh; else
// its features and ports are asked for again. In Stock mode the epoch goes on if the switch is the same
// and nothing was missed.
func (c *Core) TakeMaster(term, now uint64, r Resume) error {
	fresh := c.direct.fresh
	c.direct.fresh = false
	if c.master && term <= c.term {
		if term < c.term {
			return ErrNotMaster
		}
		return nil
	}
	c.master, c.term, c.accepted, c.outdone = true, term, false, false
	if c.mode == Stock {
		c.claim(term, r)
		return nil
	}
	if c.mode == Agent {
		role := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: term}
		c.out = role.Append(c.out, handshake.OwnXID)
	}
	if c.mode == Direct {
		c.newEpoch(now)
		if !fresh {
			c.out = c.hs.Restart(c.out)
		}
	}
	return nil
}

// Hold hands over no more events until Resend.
func (c *Core) Hold() {
	switch c.mode {
	case Agent:
		c.accepted = false // until the agent accepts the claim that Resend makes
	case Stock:
		c.stock.paused = true
	}
}

// Resend has every event come that is not acknowledged, from the first.
func (c *Core) Resend() {
	switch {
	case c.refused || !c.master:
	case c.mode == Stock && c.stock.state == leading:
		c.stock.paused, c.stock.told = false, c.stock.first-1
		// the answer makes More be asked
		c.out = handshake.Bare(c.out, c.hs.Version, of13.TypeBarrierRequest, c.stock.courier.xid())
	case c.mode == Agent:
		role := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: c.term}
		c.out = role.Append(c.out, handshake.OwnXID)
	}
}

// AckEvents says what is logged, so that nobody needs to hold it. Without effect in Direct mode.
func (c *Core) AckEvents(a experimenter.Ack) {
	switch {
	case c.refused:
	case c.mode == Agent:
		c.out = a.Append(c.out, c.hs.Version, experimenter.TypeEventAck)
	case c.mode == Stock && c.stock.state == leading && a.Epoch == c.epoch:
		c.stock.acknowledge(a.Seq)
		c.flushCourier()
	}
}

// Send queues a block of commands; it copies messages, of OpenFlow 1.3 one after the other,
// and sets b.Bytes. Commands of another epoch than the switch's are dropped, by the agent or
// here. ErrNotMaster: b.Term is not that of the last TakeMaster.
func (c *Core) Send(b experimenter.Block, messages []byte) error {
	if wanted, err := c.wanted(b, messages); !wanted {
		return err
	}
	if c.mode == Stock {
		c.stock.courier.send(b.First, withoutRoles(messages))
		c.flushCourier()
		return nil
	}
	if c.hs.Version != of13.Version {
		messages = c.commandsFromV13(c.hs.Version, messages)
	}
	if c.mode == Direct {
		return c.forward(b.First, messages)
	}
	b.Bytes = uint32(len(messages))
	c.out = append(b.Append(c.out, c.hs.Version, experimenter.TypeCommands), messages...)
	return nil
}

// wanted reports whether a block is to be sent. Without an error what is not wanted is void.
func (c *Core) wanted(b experimenter.Block, messages []byte) (bool, error) {
	if !c.master || b.Term != c.term {
		return false, ErrNotMaster
	}
	if n := countMessages(messages); n != int(b.Count) {
		return false, fmt.Errorf("southbound: %d messages in a block of %d", n, b.Count)
	}
	return !c.refused && b.Count > 0 && !c.over(b.Epoch), nil
}

// over reports that commands of an epoch are void. An agent judges for itself.
func (c *Core) over(epoch uint64) bool {
	switch c.mode {
	case Direct:
		return epoch != c.epoch || !c.up
	case Stock: // while it is being claimed commands wait
		return c.stock.state == claiming && epoch != c.stock.resume.Epoch ||
			c.stock.state != claiming && (epoch != c.epoch || !c.up)
	}
	return false
}

// SendLoose queues commands without numbers: each is forwarded once, at once, and is lost with the
// connection. Otherwise as Send; b.First is not used.
func (c *Core) SendLoose(b experimenter.Block, messages []byte) error {
	if wanted, err := c.wanted(b, messages); !wanted {
		return err
	}
	if c.mode == Stock {
		if !c.up {
			return nil
		}
		messages = withoutRoles(messages)
	}
	if c.hs.Version != of13.Version {
		messages = c.commandsFromV13(c.hs.Version, messages)
	}
	if c.mode == Agent {
		b.First, b.Bytes = 0, uint32(len(messages))
		c.out = b.Append(c.out, c.hs.Version, experimenter.TypeCommands)
	}
	c.out = append(c.out, messages...)
	if c.mode == Stock { // they may have deleted the marker
		c.stock.courier.renew()
		c.flushCourier()
	}
	return nil
}

// Refuse tells the peer why it cannot stay. It reports whether it can, all the same: a switch
// without agent whose epoch is stale begins one above r.Epoch and now. Else it is Refused, and
// the connection is to be closed; an agent needs a moment to read why.
func (c *Core) Refuse(r experimenter.Refuse, now uint64) (stays bool) {
	if c.mode != Agent {
		if r.Reason != experimenter.ReasonStaleEpoch {
			c.refused = true
			return false
		}
		if c.mode == Stock {
			if c.floor = max(c.floor, r.Epoch); c.stock.state == leading && c.epoch <= c.floor {
				c.anew(now)
				c.flushCourier()
			}
			return true
		}
		if c.floor = max(c.floor, r.Epoch); c.epoch <= c.floor {
			c.newEpoch(now)
			c.out = c.hs.Restart(c.out)
		}
		return true
	}
	c.refused = true
	c.out = r.Append(c.out, c.hs.Version)
	return false
}

// Refused reports that the peer cannot stay: nothing that it says counts any more.
func (c *Core) Refused() bool { return c.refused }

// Told reports whether the peer knows already what is wrong with events of an epoch: an agent
// by a refusal; a switch without agent has begun anew. Then an error of Handler.Events about
// them does not end the session.
func (c *Core) Told(epoch uint64) bool {
	return c.refused || c.mode != Agent && c.epoch != epoch || c.mode == Stock && !c.up
}

// Echo asks the peer for a sign of life. It is to be called about once a second.
func (c *Core) Echo() {
	switch {
	case c.refused:
	case c.hs.Version == 0:
		c.out = c.hs.Tick(c.out)
	default:
		c.out = handshake.Bare(c.out, c.hs.Version, openflow.TypeEchoRequest, handshake.OwnXID)
	}
}

// keepOut is the largest out that a session keeps for reuse.
const keepOut = 256 << 10

// TakeOut returns what is to be written to the peer now, valid until the next call of the Core.
func (c *Core) TakeOut() []byte {
	out := c.out
	c.out = out[:0]
	if cap(out) > keepOut {
		c.out = nil
	}
	return out
}
