package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// bundles is a switch without an agent that takes bundles: docs/design/stock.md. A controller that does not lead is a
// standby of the switch: it has the same events sent to it, and holds them.
type bundles struct {
	*channel
	state  bundlesState
	resume Resume
	held   held
	sender bundleSender
	told   uint64 // number of the newest event that was handed over
	paused bool   // nothing is handed over: see hold

	roleXID, markersXID uint32
	accepted            bool // the role
	stale               bool // the role is another's, in a later term
	markers             []marker

	clean bool // nothing that this connection may have brought is in the log
	equal bool // the switch tells slaves nothing: this controller is EQUAL

	awaited    any // what the switch has not answered for so many ticks
	unanswered int

	lastSync uint64 // number of the last sync marker
	unseen   int    // sync markers sent since one came back
	ticks    int    // since the epoch, or the mastership, began

	// Commands are done up to doneSaid. What is done together with an event, its answer, is said with it.
	doneSaid uint64
	answers  []answer // that are not logged, oldest first: no more than events are held
	answer   uint64   // number of the newest; 0: there is none
	refusal  uint64   // number of the last event that refuses commands
}

// answer is the number of an event, and up to where commands are done when that is logged.
type answer struct{ event, done uint64 }

type bundlesState uint8

const (
	following bundlesState = iota // another controller leads
	claiming                      // has asked for the role, and for the marker
	asking                        // for features and ports, since an epoch begins
	founding                      // sets the marker of a new epoch
	leading                       // is the master
)

// allAsync asks for every asynchronous message, in every role.
var allAsync = of13.SetAsync{
	PacketIn:    [2]uint32{7, 7},
	PortStatus:  [2]uint32{7, 7},
	FlowRemoved: [2]uint32{15, 15},
}

// Ticks. Sync markers are frequent at first, when other controllers may be coming back; and a switch may take its time
// to answer, as some do for a table full of flow entries.
const (
	frequentTicks = 100
	seldom        = 10
	patience      = 150
)

var errNoAnswer = errors.New("it has not answered for 15 s, or another controller has made itself its master: it " +
	"does not read, is overloaded, or has controllers of another cluster")

var errFlooded = fmt.Errorf("it has sent %d events, or %d MB of them, and no answer to what it was asked before: "+
	"it is overloaded, or another controller has made itself its master", 2*maxHeld, 2*maxHeldBytes>>20)

// lacksMarkers is how many sync markers a switch may keep from a slave until it is taken to tell slaves nothing.
const lacksMarkers = 5

// noRoles is why a switch that refuses the role is a legacy switch: a leader that was deposed is not fenced.
const noRoles = "it knows no roles: run an agent beside it"

// newBundles is for the end of the handshake.
func newBundles(c *channel) *bundles {
	var f of13.FeaturesReply
	_ = f.Decode(c.features) // else it was not accepted
	b := &bundles{channel: c, clean: true, sender: bundleSender{channel: c, table: max(f.NTables, 1) - 1}}
	b.put(&allAsync, b.xid())
	return b
}

func (b *bundles) report(s *State) {
	s.Peer = Bundles
	s.InSync = b.state == leading || b.state == following && b.held.inSync
	switch {
	case b.state == claiming && b.stale:
		s.Guarantee, s.Why = "none", "it has had a master with a later term: these controllers have lost their logs, "+
			"or it has controllers of another cluster; restart the switch, or remove those"
	case b.sender.marker.epoch == 0: // only the master knows
	case b.unseen > lacksMarkers*seldom:
		s.Guarantee, s.Why = "at-most-once", "it does not send packets of its controller back to all: events on "+
			"their way when a leader dies are lost; run an agent beside it"
	default:
		s.Guarantee, s.Why = "exactly-once", "commands go in bundles with a marker in its last table"
	}
}

// standby holds events until they are seen in the log of the new leader.
func (b *bundles) standby(term uint64) {
	if b.state != following {
		if b.state == leading && b.held.Acked() == 0 || b.state == founding || b.state == asking {
			b.held.lost() // of an epoch that is not in the log
		}
		b.held.restart(0, nil)
		b.sender.halt()
		b.state, b.begun, b.paused = following, false, false
	}
	switch {
	case b.equal: // if it was master, the switch makes it a slave
		b.put(&of13.RoleRequest{Role: of13.RoleEqual}, b.xid())
	case term > 0:
		b.put(&of13.RoleRequest{Role: of13.RoleSlave, GenerationID: term}, b.xid())
	}
}

func (b *bundles) logged(msg []byte) {
	if b.state != following {
		return
	}
	if t, ours := experimenter.Is(msg); ours && t != experimenter.TypeSyncMarker {
		if t == experimenter.TypeSwitchUp {
			b.held.lost()
		}
		return
	}
	if !shared(msg[1]) && !isSyncMarker(msg) {
		return
	}
	b.clean = false
	b.held.logged(msg)
	if b.held.lacks >= lacksMarkers && !b.equal {
		b.equal = true
		b.put(&of13.RoleRequest{Role: of13.RoleEqual}, b.xid())
	}
}

func (b *bundles) skipped(n int) {
	switch {
	case b.state != following:
	case n == Unknown:
		b.clean = false
		b.held.lost()
	case n > 0:
		b.clean = false
		b.held.skipped(n)
	}
}

func (b *bundles) hold() { b.paused = true }

func (b *bundles) resend() {
	if b.state == leading {
		b.paused, b.told = false, b.held.Acked()
		b.ask(of13.TypeBarrierRequest, b.xid()) // its answer makes more be asked
	}
}

// full waits for the log, and never while the switch owes an answer.
func (b *bundles) full() bool {
	return (b.state == following || b.state == leading) && b.held.full() && !b.more()
}

// claim asks the switch for the role and for the marker.
func (b *bundles) claim(_ uint64, r Resume) {
	b.sender.halt()
	b.held.restart(0, nil)
	b.state, b.resume, b.accepted, b.stale, b.markers, b.begun = claiming, r, false, false, nil, false
	b.epoch = max(b.epoch, r.Epoch)
	b.clean = b.clean && r.Epoch == 0 // else it may have come before this controller saw the log
	b.roleXID = b.xid()
	b.put(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: b.term}, b.roleXID)
	b.ask(of13.TypeBarrierRequest, b.xid()) // the marker is read after it
	b.markersXID = b.xid()
	b.put(askMarkers(b.sender.table), b.markersXID)
}

// decide is for when the switch has taken us for its master and told its markers.
func (b *bundles) decide(now uint64) {
	r := b.resume
	for _, m := range b.markers {
		if r.Live && m.epoch == r.Epoch && m.epoch > b.floor && m.seq <= r.Commands && b.held.inSync {
			b.epoch, b.begun = m.epoch, true
			b.held.restart(r.Events, nil)
			b.held.ahead = nil // what has not come before the role was dropped by the switch
			b.lead()
			b.sender.start(m, current)
			return
		}
	}
	b.anew(now)
}

// lead is for when the events held are those of the epoch that are not in the log.
func (b *bundles) lead() {
	b.state, b.told, b.paused, b.ticks, b.doneSaid = leading, b.held.Acked(), false, 0, 0
	b.answers, b.answer, b.refusal = nil, 0, 0
}

// anew begins an epoch.
func (b *bundles) anew(now uint64) {
	b.sender.halt()
	b.begun = false
	if b.clean {
		b.found(now)
		return
	}
	b.state = asking
	b.out = b.hs.Restart(b.out)
}

// found sets the marker of a new epoch: without it nobody would know the switch again.
func (b *bundles) found(now uint64) {
	known := []uint64{b.resume.Epoch}
	for _, m := range b.markers {
		known = append(known, m.epoch)
	}
	b.newEpoch(now, known...)
	b.state, b.clean = founding, false
	b.sender.start(marker{b.epoch, 0}, found)
}

// founded begins the epoch of which the switch has the marker, by its first event.
func (b *bundles) founded(now uint64) {
	b.held.restart(0, b.switchUp())
	b.held.inSync, b.held.ahead, b.unseen = true, nil, 0
	b.lead()
	b.sync(now)
}

// refuse has a new epoch begin if this controller is master in one that is over.
func (b *bundles) refuse(now uint64) {
	if b.state == leading && b.epoch <= b.floor {
		b.anew(now)
	}
}

func (b *bundles) end() uint64 { return b.held.Last() + 1 }

// over reports that commands of an epoch are void. While the switch is being claimed commands wait.
func (b *bundles) over(epoch uint64) bool {
	if b.state == claiming {
		return epoch != b.resume.Epoch
	}
	return epoch != b.epoch || !b.begun
}

func (b *bundles) send(block experimenter.Block, messages []byte) error {
	switch {
	case b.over(block.Epoch):
		return nil
	case b.sender.fenced: // the next master sends them: here nobody knows whether those before are done
		return nil
	case block.First > 0:
		return b.sender.send(block.First, withoutRoles(messages))
	case b.begun:
		b.putAll(withoutRoles(messages))
		b.sender.renew() // they may have deleted the marker
	}
	return nil
}

// acknowledge forgets the events that are logged.
func (b *bundles) acknowledge(a experimenter.Ack) {
	if b.state != leading || a.Epoch != b.epoch || a.Seq <= b.held.Acked() {
		return
	}
	b.held.pop(int(min(a.Seq, b.held.Last()) - b.held.Acked()))
	first := b.held.Acked() + 1
	b.told = max(b.told, first-1)
	for len(b.answers) > 0 && b.answers[0].event < first { // others may be held up, and are handed over again
		b.answers = b.answers[1:]
	}
	if b.answer < first {
		b.answer = 0
	}
	if b.refusal != 0 && b.refusal < first {
		b.refusal = 0
		b.sender.logged()
	}
}

// tick puts a sync marker into what the switch tells to all, if it is time for one.
func (b *bundles) tick(now uint64) error {
	if w := b.awaits(); w == nil || w != b.awaited {
		b.awaited, b.unanswered = w, 0
	} else if b.unanswered++; b.unanswered >= patience {
		return errNoAnswer
	}
	if b.state != leading {
		return nil
	}
	b.ticks++
	if b.ticks <= frequentTicks || b.ticks%seldom == 0 {
		b.sync(now)
	}
	return nil
}

// awaits identifies what the switch has to answer now; nil is nothing.
func (b *bundles) awaits() any {
	switch {
	case b.sender.step != nil:
		return b.sender.step
	case b.state == leading && b.sender.fenced: // if it is not us who lead, we hear of it before long
		return b.state
	case b.state == claiming && !b.stale || b.state == asking:
		return b.state
	}
	return nil
}

func (b *bundles) sync(now uint64) {
	b.lastSync = max(b.lastSync+1, now)
	b.unseen++
	b.put(syncMarkerOut(experimenter.SyncMarker{Generation: b.term, Number: b.lastSync}), b.xid())
}
