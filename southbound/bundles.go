package southbound

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// bundles is a switch without an agent that supports bundles: docs/design/stock.md. A controller that does not lead is
// a standby of the switch: the switch sends it the same events, and it holds them.
type bundles struct {
	*channel
	state  bundlesState
	resume Resume
	held   held
	sender bundleSender
	told   uint64 // number of the newest event that was delivered to the Handler
	// number of the newest event that is in the log, as a leader elsewhere has logged it: see confirms
	confirmed uint64
	paused    bool // nothing is delivered: see hold

	roleXID, markersXID uint32
	accepted            bool // the switch has accepted the role
	stale               bool // the switch has a master with a later generation
	markers             []marker

	clean bool // no event that this connection may have received is in the log
	equal bool // the switch sends slaves no events: this controller uses EQUAL

	awaited    any // the request that is not answered, see awaits
	unanswered int // ticks since then in which the switch was read

	lastSync uint64 // number of the last sync marker
	unseen   int    // sync markers sent since one was received
	ticks    int    // since the epoch, or the mastership, began

	// Commands up to doneSaid were reported as done. If the answer to a command is an event, the command is reported
	// with that event.
	doneSaid uint64
	answers  []answer // that are not logged, oldest first; at most as many as events held
	answer   uint64   // event number of the newest one; 0 if there is none
	refusal  uint64   // number of the last event that is a refusal of commands
}

// answer is an event that answers commands: when event is logged, all commands up to done are done.
type answer struct{ event, done uint64 }

type bundlesState uint8

const (
	following bundlesState = iota // another controller leads
	claiming                      // has requested the role, and the marker
	ending                        // cannot continue the epoch, and is logging its end
	asking                        // has requested features and ports for a new epoch
	founding                      // is setting the marker of a new epoch
	leading                       // is the master
)

// allAsync requests every asynchronous message, in every role.
var allAsync = of13.SetAsync{
	PacketIn:    [2]uint32{7, 7},
	PortStatus:  [2]uint32{7, 7},
	FlowRemoved: [2]uint32{15, 15},
}

// Times in ticks. Sync markers are frequent at first, when other controllers may be restarting. Some switches answer
// slowly, for example while they list a table full of flow entries.
const (
	frequentTicks = 100
	seldom        = 10
	patience      = 150
)

var errNoAnswer = errors.New("it has not answered for 15 s, or another controller has made itself its master: it " +
	"does not read, is overloaded, or has controllers of another cluster")

var errFlooded = fmt.Errorf("it has sent %d events, or %d MB of them, and no answer to what it was asked before: "+
	"it is overloaded, or another controller has made itself its master", 2*maxHeld, 2*maxHeldBytes>>20)

// lacksMarkers is how many sync markers a slave may miss before the switch is assumed to send slaves nothing.
const lacksMarkers = 5

// noRoles is the reason why a switch that refuses the role is a legacy switch: it cannot fence a deposed leader.
const noRoles = "it does not support roles: run an agent beside it"

// newBundles is called at the end of the handshake.
func newBundles(c *channel) *bundles {
	var f of13.FeaturesReply
	_ = f.Decode(c.features) // it was decoded before
	b := &bundles{channel: c, clean: true, held: held{pool: c.pool},
		sender: bundleSender{channel: c, table: max(f.NTables, 1) - 1}}
	b.put(&allAsync, b.xid())
	return b
}

// whyStale is why a switch without an agent executes no command of this leader.
const whyStale = "it has had a master with a later term: it has controllers of another cluster, or the clock of " +
	"these is behind that of those before; restart the switch, or remove the others"

func (b *bundles) report(s *State) {
	s.Peer = Bundles
	s.InSync = b.state == leading || b.state == ending || b.state == following && b.held.inSync
	switch {
	case b.state == claiming && b.stale:
		s.Guarantee, s.Why = "none", whyStale
	case b.sender.marker.epoch == 0: // only the master knows the guarantee
	case b.unseen > lacksMarkers*seldom:
		s.Guarantee, s.Why = "at-most-once", "it does not send packets of its controller back to all: events on "+
			"their way when a leader dies are lost; run an agent beside it"
	default:
		s.Guarantee, s.Why = "exactly-once", "commands go in bundles with a marker in its last table"
	}
}

// standby holds events until they are seen in the log of the new leader.
func (b *bundles) standby(generation uint64) {
	if b.state != following {
		if b.state == leading && b.held.Acked() == 0 || b.state == founding || b.state == asking {
			b.held.lost() // they are of an epoch that is not in the log
		}
		b.held.restart(0, nil)
		b.sender.halt()
		b.state, b.begun, b.paused = following, false, false
	}
	switch {
	case b.equal: // if it was master, the switch makes it a slave by itself
		b.put(&of13.RoleRequest{Role: of13.RoleEqual}, b.xid())
	case generation > 0: // the switch refuses one that is below that of its master's claim, which has made this a slave
		if b.generation > 0 && experimenter.Later(b.generation, generation) {
			generation = b.generation
		}
		b.put(&of13.RoleRequest{Role: of13.RoleSlave, GenerationID: generation}, b.xid())
	}
}

func (b *bundles) logged(epoch, seq uint64, msg []byte) bool {
	if b.state != following {
		return b.confirms(epoch, seq, 1, msg)
	}
	if t, ours := experimenter.Is(msg); ours && t != experimenter.TypeSyncMarker {
		if t == experimenter.TypeSwitchUp {
			b.held.lost()
		}
		return true
	}
	if !shared(msg[1]) && !isSyncMarker(msg) {
		return true
	}
	b.clean = false
	b.held.logged(msg)
	if b.held.lacks >= lacksMarkers && !b.equal {
		b.equal = true
		b.put(&of13.RoleRequest{Role: of13.RoleEqual}, b.xid())
	}
	return true
}

func (b *bundles) skipped(epoch, seq uint64, n int) bool {
	switch {
	case b.state != following:
		return b.confirms(epoch, seq, n, nil)
	case n == Unknown:
		b.clean = false
		b.held.lost()
	case n > 0:
		b.clean = false
		b.held.skipped(n)
	}
	return true
}

// confirms reports whether the log has the events up to seq as this session has numbered them, which claims the switch.
// It has not if the leader has changed to another session, which numbers them in another way. msg is the only event, or
// nil if the log has no more than the number of those that are asynchronous.
func (b *bundles) confirms(epoch, seq uint64, asynchronous int, msg []byte) bool {
	switch {
	case b.state == claiming:
		return false // the leader has claimed when all earlier events were in the log
	case b.state == ending:
		t, ours := experimenter.Type(0), false
		if msg != nil {
			t, ours = experimenter.Is(msg)
		}
		return epoch == b.epoch && seq == b.resume.Events+1 && ours && t == experimenter.TypeSwitchDown
	case b.state != leading || epoch < b.epoch:
		return true // no event of an earlier epoch is held
	case epoch > b.epoch || seq <= b.confirmed || seq > b.held.Last():
		return false
	}
	first := b.confirmed + 1
	b.confirmed = seq
	if msg != nil {
		return first == seq && bytes.Equal(b.held.Item(seq), msg)
	}
	before := b.held.Acked() + 1
	for _, e := range b.held.about()[first-before : seq+1-before] {
		if e.sum != 0 {
			asynchronous--
		}
	}
	return asynchronous == 0
}

func (b *bundles) hold() { b.paused = true }

func (b *bundles) resend() {
	switch b.state {
	case leading:
		b.told = b.held.Acked()
	case ending:
		b.told = b.resume.Events
	default:
		return
	}
	b.paused = false
	b.ask(of13.TypeBarrierRequest, b.xid()) // its answer triggers the next request
}

// full stops reading until events are logged, but never while the switch owes an answer.
func (b *bundles) full() bool {
	return (b.state == following || b.state == ending || b.state == leading) && b.held.full() && !b.more()
}

// claim requests the role and the marker from the switch.
func (b *bundles) claim(_ uint64, r Resume) {
	b.sender.halt()
	b.held.restart(0, nil)
	b.state, b.resume, b.accepted, b.stale, b.markers, b.begun = claiming, r, false, false, nil, false
	b.epoch = max(b.epoch, r.Epoch)
	b.clean = b.clean && r.Epoch == 0 // otherwise events may have arrived before this controller saw the log
	b.roleXID = b.xid()
	b.put(&of13.RoleRequest{Role: of13.RoleMaster, GenerationID: b.generation}, b.roleXID)
	b.ask(of13.TypeBarrierRequest, b.xid()) // the marker is read after it
	b.markersXID = b.xid()
	b.put(askMarkers(b.sender.table), b.markersXID)
}

// decide is called when the switch has accepted this controller as its master and returned its markers.
func (b *bundles) decide(now uint64) {
	r := b.resume
	for _, m := range b.markers {
		if r.Live && m.epoch == r.Epoch && m.epoch > b.floor && m.seq <= r.Commands && b.held.inSync {
			b.epoch, b.begun = m.epoch, true
			b.held.restart(r.Events, nil)
			b.held.ahead = nil // events that did not arrive before the role reply were dropped by the switch
			b.lead()
			b.sender.start(m, current, r.Done)
			return
		}
	}
	b.anew(now)
}

// lead is called when the events held are those of the epoch that are not in the log.
func (b *bundles) lead() {
	b.state, b.told, b.paused, b.ticks, b.doneSaid = leading, b.held.Acked(), false, 0, 0
	b.confirmed = b.told
	b.answers, b.answer, b.refusal = nil, 0, 0
}

// anew begins a new epoch. If the log still continues the previous one, its end is logged first, and the switch keeps
// its marker until that is committed. Otherwise, if this leader cannot commit, the next one could not continue the
// epoch, and would lose the events that it holds.
func (b *bundles) anew(now uint64) {
	b.sender.halt()
	switch r := b.resume; {
	case b.clean: // the log has no epoch
		b.begun = false
		b.found(now)
	case r.Live && r.Epoch > b.floor && b.state == claiming:
		b.state, b.epoch, b.begun, b.paused, b.told = ending, r.Epoch, true, false, r.Events
	default:
		b.begun = false
		b.state = asking
		b.out = b.hs.Restart(b.out)
	}
}

// found sets the marker of a new epoch. Without it no later master could recognise the epoch.
func (b *bundles) found(now uint64) {
	known := []uint64{b.resume.Epoch}
	for _, m := range b.markers {
		known = append(known, m.epoch)
	}
	b.newEpoch(now, known...)
	b.state, b.clean = founding, false
	b.sender.start(marker{b.epoch, 0}, found, 0)
}

// founded begins the epoch whose marker the switch has, with its first event.
func (b *bundles) founded(now uint64) {
	b.held.restart(0, b.switchUp())
	b.held.inSync, b.held.ahead, b.unseen = true, nil, 0
	b.lead()
	b.sync(now)
}

// refuse begins a new epoch if this controller is master in one that has ended.
func (b *bundles) refuse(now uint64) {
	if (b.state == leading || b.state == ending) && b.epoch <= b.floor {
		b.anew(now)
	}
}

func (b *bundles) end() uint64 {
	if b.state == ending {
		return b.resume.Events + 1
	}
	return b.held.Last() + 1
}

// over reports whether commands of an epoch must be discarded. While the switch is being claimed commands wait.
func (b *bundles) over(epoch uint64) bool {
	if b.state == claiming {
		return epoch != b.resume.Epoch
	}
	return epoch != b.epoch || !b.begun || b.state == ending
}

func (b *bundles) send(block experimenter.Block, messages []byte) error {
	switch {
	case b.over(block.Epoch):
		return nil
	case b.sender.fenced: // the next master sends them: this one does not know whether those before are done
		return nil
	case block.First > 0:
		return b.sender.send(block.First, withoutRoles(messages))
	case b.begun:
		b.putAll(withoutRoles(messages))
		b.sender.renew() // these commands may have deleted the marker
	}
	return nil
}

// acknowledge removes the events that are logged.
func (b *bundles) acknowledge(a experimenter.Ack) {
	if b.state == ending && a.Epoch == b.epoch && a.Seq > b.resume.Events {
		b.anew(0) // asks the switch, and needs no time
		return
	}
	if b.state != leading || a.Epoch != b.epoch || a.Seq <= b.held.Acked() {
		return
	}
	b.held.pop(int(min(a.Seq, b.held.Last()) - b.held.Acked()))
	first := b.held.Acked() + 1
	b.told = max(b.told, first-1)
	for len(b.answers) > 0 && b.answers[0].event < first { // later ones may be held up, and are delivered again
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

// tick sends a sync marker, by way of the switch, to all controllers when one is due.
func (b *bundles) tick(now uint64, reading bool) error {
	switch w := b.awaits(); {
	case w == nil || w != b.awaited:
		b.awaited, b.unanswered = w, 0
	case reading:
		if b.unanswered++; b.unanswered >= patience {
			return errNoAnswer
		}
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

// awaits returns the request that the switch must answer now; nil if there is none.
func (b *bundles) awaits() any {
	switch {
	case b.sender.step != nil:
		return b.sender.step
	case b.state == leading && b.sender.fenced: // if another controller leads, this one learns that soon
		return b.state
	case b.state == claiming && !b.stale || b.state == asking:
		return b.state
	}
	return nil
}

func (b *bundles) sync(now uint64) {
	b.lastSync = max(b.lastSync+1, now)
	b.unseen++
	b.put(syncMarkerOut(experimenter.SyncMarker{Generation: b.generation, Number: b.lastSync}), b.xid())
}
