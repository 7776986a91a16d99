package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// stock is what Core knows of a switch that has no agent: docs/design/stock.md. A controller that does
// not lead is a standby of the switch: it has the same events sent to it, and holds them.
type stock struct {
	state   stockState
	resume  Resume
	held    held
	courier courier
	first   uint64 // number of the oldest event held
	told    uint64 // number of the newest event that was handed over
	paused  bool   // nothing is handed over: see Hold

	roleXID, markersXID uint32
	accepted            bool // the role
	stale               bool // the role is another's, in a later term
	markers             []marker

	clean bool // nothing that this connection may have brought is in the log
	equal bool // the switch tells slaves nothing: this controller is EQUAL

	roleless bool // the switch knows no roles

	asked      any // what the switch has not answered for so many ticks
	unanswered int

	lastMark uint64 // number
	unseen   int    // marks sent since one came back
	marks    int    // ticks since the epoch, or the mastership, began

	// Commands are done up to doneSaid. What is done together with an event, its answer, is said with it.
	doneSaid uint64
	answers  []answer // that are not logged, oldest first: no more than events are held
	answer   uint64   // number of the newest; 0: there is none
	refusal  uint64   // number of the last event that refuses commands
}

// answer is the number of an event, and up to where commands are done when that is logged.
type answer struct{ event, done uint64 }

type stockState uint8

const (
	standing stockState = iota // by: another controller leads
	claiming                   // has asked for the role, and for the marker
	asking                     // for features and ports, since an epoch begins
	founding                   // sets the marker of a new epoch
	leading                    // is the master
)

// Resume is what the log knows of a switch that is being claimed.
type Resume struct {
	Epoch    uint64
	Live     bool   // the epoch has not ended
	Events   uint64 // logged in it
	Commands uint64 // issued in it
}

// allAsync asks for every asynchronous message, in every role.
var allAsync = of13.SetAsync{
	PacketIn:    [2]uint32{7, 7},
	PortStatus:  [2]uint32{7, 7},
	FlowRemoved: [2]uint32{15, 15},
}

// Ticks: marks are frequent at first, when other controllers may be coming back; and a switch may take
// its time to answer, as some do for a table full of flow entries.
const (
	frequentMarks = 100
	seldom        = 10
	patience      = 150
)

var errNoAnswer = errors.New("it has not answered for 15 s, or another controller has made itself its master: it " +
	"does not read, is overloaded, or has controllers of another site")

var errFlooded = fmt.Errorf("it has sent %d events, or %d MB of them, and no answer to what it was asked before: "+
	"it is overloaded, or another controller has made itself its master", 2*maxHeld, 2*maxHeldBytes>>20)

// lacksMarks is how many marks a switch may keep from a slave until it is not believed to tell slaves anything.
const lacksMarks = 5

// put sends messages of OpenFlow 1.3 to the switch.
func (c *Core) put(m of13.Message, xid uint32) { c.putBytes(m.Append(nil, xid)) }

func (c *Core) putBytes(v13 []byte) {
	if c.hs.Version != of13.Version {
		v13 = c.commandsFromV13(c.hs.Version, v13)
	}
	c.out = append(c.out, v13...)
}

// flushCourier sends what the courier has to say.
func (c *Core) flushCourier() {
	if len(c.stock.courier.out) > 0 {
		c.putBytes(c.stock.courier.out)
		c.stock.courier.out = c.stock.courier.out[:0]
	}
}

// attachStock is for the end of the handshake.
func (c *Core) attachStock() {
	var f of13.FeaturesReply
	_ = f.Decode(c.features) // else it was not accepted
	c.stock.courier.table = max(f.NTables, 1) - 1
	c.stock.clean = true
	c.put(&allAsync, c.stock.courier.xid())
}

// Standby says that another controller leads, in a term if that is known: events are held until they
// are seen in its log. In Agent mode no more than that this controller has no claim any more: the agent hears from the
// other.
func (c *Core) Standby(term uint64) {
	if c.mode == Agent {
		c.master, c.outdone = false, false
	}
	if c.mode != Stock || c.refused {
		return
	}
	if c.stock.state != standing {
		if c.stock.state == leading && c.stock.first == 1 || c.stock.state == founding || c.stock.state == asking {
			c.stock.held.lost() // of an epoch that is not in the log
		}
		c.stock.held.share()
		c.stock.courier.halt()
		c.stock.state, c.up, c.master = standing, false, false
		c.stock.first, c.stock.told, c.stock.paused = 0, 0, false
	}
	switch {
	case c.stock.equal: // if it was master, the switch makes it a slave
		c.put(&of13.RoleRequest{Role: of13.RoleEqual}, c.stock.courier.xid())
	case term > 0:
		c.put(&of13.RoleRequest{Role: of13.RoleSlave, GenerationID: term}, c.stock.courier.xid())
	}
}

// Logged says that an event of the switch is in the log of another leader.
func (c *Core) Logged(msg []byte) {
	if c.mode != Stock || c.stock.state != standing {
		return
	}
	if t, ours := experimenter.Is(msg); ours && t != experimenter.TypeSyncMarker {
		if t == experimenter.TypeSwitchUp {
			c.stock.held.lost()
		}
		return
	}
	if !shared(msg[1]) && !isMark(msg) {
		return
	}
	c.stock.clean = false
	c.stock.held.logged(msg)
	if c.stock.held.lacks >= lacksMarks && !c.stock.equal {
		c.stock.equal = true
		c.put(&of13.RoleRequest{Role: of13.RoleEqual}, c.stock.courier.xid())
	}
}

// Skipped is Logged for n events of which the log has only the number.
func (c *Core) Skipped(n int) {
	if c.mode == Stock && c.stock.state == standing && n > 0 {
		c.stock.clean = false
		c.stock.held.skipped(n)
	}
}

// Unknown says that the log has come to a point without showing the events before it.
func (c *Core) Unknown() {
	if c.mode == Stock && c.stock.state == standing {
		c.stock.clean = false
		c.stock.held.lost()
	}
}

// InStep reports whether this controller could lead now without missing an event: it is master,
// or knows exactly what is not in the log. Always so but in Stock mode.
func (c *Core) InStep() bool {
	return c.mode != Stock || c.stock.state == leading || c.stock.state == standing && c.stock.held.inStep
}

// Full reports that nothing more is to be read from the switch until events are logged.
func (c *Core) Full() bool {
	waits := c.stock.state == standing || c.stock.state == leading // else for answers
	return c.mode == Stock && waits && c.stock.held.full() && !c.More()
}

// claim asks the switch for the role and for the marker.
func (c *Core) claim(term uint64, r Resume) {
	c.stock.courier.halt()
	c.stock.held.share()
	c.stock.state, c.stock.resume, c.stock.accepted, c.stock.stale, c.stock.markers, c.up = claiming, r, false, false,
		nil, false
	c.epoch = max(c.epoch, r.Epoch)
	c.stock.clean = c.stock.clean && r.Epoch == 0 // else it may have come before this controller saw the log
	c.stock.roleXID = c.stock.courier.xid()
	c.put(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: term}, c.stock.roleXID)
	// the marker is read after it
	c.out = handshake.Bare(c.out, c.hs.Version, of13.TypeBarrierRequest, c.stock.courier.xid())
	c.stock.markersXID = c.stock.courier.xid()
	c.put(askMarkers(c.stock.courier.table), c.stock.markersXID)
}

// decide is for when the switch has taken us for its master and told its markers.
func (c *Core) decide(now uint64) {
	r := c.stock.resume
	for _, m := range c.stock.markers {
		if r.Live && m.epoch == r.Epoch && m.seq <= r.Commands && c.stock.held.inStep {
			c.stock.state, c.up, c.epoch = leading, true, m.epoch
			c.stock.first, c.stock.told, c.stock.paused, c.stock.marks, c.stock.doneSaid = r.Events+1, r.Events, false,
				0, 0
			c.stock.answers, c.stock.answer, c.stock.refusal = nil, 0, 0
			c.stock.held.ahead = nil // what has not come before the role was dropped by the switch
			c.stock.courier.start(marker{m.epoch, c.term, m.seq}, renew)
			return
		}
	}
	c.anew(now)
}

// anew begins an epoch.
func (c *Core) anew(now uint64) {
	c.stock.courier.halt()
	c.up = false
	if c.stock.clean {
		c.found(now)
		return
	}
	c.stock.state = asking
	c.out = c.hs.Restart(c.out)
}

// found sets the marker of a new epoch: without it nobody would know the switch again.
func (c *Core) found(now uint64) {
	newest := max(c.epoch, c.stock.resume.Epoch, c.floor)
	for _, m := range c.stock.markers {
		newest = max(newest, m.epoch)
	}
	c.stock.state, c.stock.clean = founding, false
	c.epoch = max(now, newest+1)
	c.stock.courier.start(marker{c.epoch, c.term, 0}, found)
}

// lead begins the epoch that was founded, by its first event.
func (c *Core) lead() {
	up := c.upToV13(c.hs.Features, c.hs.Ports)
	events := c.stock.held
	c.stock.held = held{inStep: true}
	c.stock.held.push(up, 0)
	c.stock.held.join(&events)
	c.stock.state, c.up = leading, true
	c.stock.first, c.stock.told, c.stock.paused, c.stock.marks, c.stock.doneSaid, c.stock.unseen = 1, 0, false, 0, 0, 0
	c.stock.answers, c.stock.answer, c.stock.refusal = nil, 0, 0
}

// Tick is to be called ten times a second; now is in nanoseconds. It puts a mark into what the switch tells to
// all, if it is time for one. An error says that the switch does not answer, and ends the session.
func (c *Core) Tick(now uint64) error {
	s := &c.stock
	if c.mode != Stock || c.refused {
		return nil
	}
	if s.asks() == nil || s.asks() != s.asked {
		s.asked, s.unanswered = s.asks(), 0
	} else if s.unanswered++; s.unanswered >= patience {
		return errNoAnswer
	}
	if s.state != leading {
		return nil
	}
	s.marks++
	if s.marks <= frequentMarks || s.marks%seldom == 0 {
		c.mark(now)
	}
	return nil
}

// asks identifies what the switch has to answer now; nil is nothing.
func (s *stock) asks() any {
	switch {
	case s.courier.step != nil:
		return s.courier.step
	case s.state == leading && s.courier.lost: // if it is not us who lead, we hear of it before long
		return s.state
	case s.state == claiming && !s.stale || s.state == asking:
		return s.state
	}
	return nil
}

func (c *Core) mark(now uint64) {
	s := &c.stock
	s.lastMark = max(s.lastMark+1, now)
	s.unseen++
	c.put(markOut(experimenter.SyncMarker{Generation: c.term, Number: s.lastMark}), s.courier.xid())
}

// Outdone reports that the agent refuses this controller as master, since it had one with a later term. A stock switch
// may too, but cannot be told to forget that.
func (c *Core) Outdone() bool { return c.outdone }

// Guarantee says what a switch gets, and why not more. It is "" for one without an agent that another controller leads.
func (c *Core) Guarantee() (guarantee, why string) {
	switch {
	case c.mode == Agent && c.outdone:
		return "none", "its agent has had a master with a later term: these controllers have lost their logs, or " +
			"it has controllers of another site; " +
			"the switch begins anew when nobody else has led it for some seconds; if it does not, restart the " +
			"agent, which also forgets the events that it holds, or remove the other controllers"
	case c.mode == Agent:
		return "exactly-once", "its agent keeps events and filters commands"
	case c.mode == Direct:
		return "at-most-once", "OpenFlow 1.0 without an agent: run one beside it"
	case c.stock.state == claiming && c.stock.stale:
		return "none", "it has had a master with a later term: these controllers have lost their logs, or it has " +
			"controllers of another site; restart the switch, or remove those"
	case c.stock.courier.marker.epoch == 0:
		return "", ""
	case c.stock.unseen > lacksMarks*seldom:
		return "at-most-once", "it does not send packets of its controller back to all: events on their way when a " +
			"leader dies are lost; run an agent beside it"
	case c.stock.roleless:
		return "at-least-once", "it knows no roles, so a leader that was deposed is not held off; run an agent " +
			"beside it"
	case c.stock.courier.unmarked:
		return "at-least-once", "it takes neither bundles nor the marker: commands on their way when a leader dies " +
			"may be repeated; run an agent beside it"
	case c.stock.courier.serial:
		return "at-least-once", "it has no bundles: one command may be repeated when a leader dies; run an agent " +
			"beside it"
	}
	return "exactly-once", fmt.Sprintf("commands go in bundles with a marker in table %d", c.stock.courier.table)
}
