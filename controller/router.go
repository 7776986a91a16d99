package controller

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// What groups send to each other are payloads too:
//
//	framePayload u8  | a frame of streams (ledger.Core.Frames)
//	resendPayload u8 | group uvarint: this group has a new leader
//	relocatedPayload u8 | actors: the directory has new assignments of these; of all, if there is none
//	movePayload u8 | controller uvarint | id uvarint | group uvarint | actor: the actor is to move to this group. If
//	  it cannot, the controller is told by an answer to a call with that id
//	tracedPayload u8 | items that are followed, see traced_items.go
//	callPayload u8, answerPayload u8, resumePayload u8, forgetPayload u8: see call.go
//
// A frame may be lost: what it has is sent again after a time, or when the receiving group has a new leader, which the
// replica of that group at the sender's controller tells. If there is no such replica, it is not known here who leads
// the group. Then each of its controllers gets the frame, and only the leader takes it.
const (
	framePayload     = 0x81
	resendPayload    = 0x82
	relocatedPayload = 0x83
	movePayload      = 0x84
	callPayload      = 0x85
	answerPayload    = 0x86
	resumePayload    = 0x87
	forgetPayload    = 0x88
	tracedPayload    = 0x8a
	digestPayload    = 0x8b // see compare.go; 0x89 had another digest
)

// maxFrames bounds the frames of other groups that wait for room in the ledger. A further one is dropped. The windows
// of package ledger keep the queue short.
const maxFrames = 1024

// router passes payloads between the groups of a controller, and to their leaders at other controllers.
type router struct {
	elsewhere func(group uint64, payload []byte) // sends to all controllers of a group without a replica here
	lost      func(group uint64)                 // called when the role of a replica here in a group changes

	mu     sync.RWMutex // guards groups
	groups map[uint64]*group
}

// leadership is who leads a group, for other groups. The loop of the group writes it.
type leadership struct {
	leader atomic.Uint64 // member; 0: unknown
	here   atomic.Bool   // this controller leads
}

func (r *router) add(g *group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups == nil {
		r.groups = map[uint64]*group{}
	}
	r.groups[g.cfg.Consensus.Group] = g
}

func (r *router) remove(g *group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, g.number())
}

func (r *router) group(number uint64) *group {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.groups[number]
}

// send passes a frame to the leader of a group. It is lost if there is none.
func (r *router) send(to uint64, frame []byte) {
	r.sendPayload(to, FramePayload(frame))
}

func (r *router) sendPayload(to uint64, payload []byte) {
	g := r.group(to)
	switch {
	case g == nil:
		r.elsewhere(to, payload)
	case g.led.here.Load():
		g.payloads.put(0, payload)
	case g.led.leader.Load() != 0:
		g.node.SendPayload(g.led.leader.Load(), payload)
	}
}

// leads reports whether this controller leads a group.
func (r *router) leads(group uint64) bool {
	g := r.group(group)
	return g != nil && g.led.here.Load()
}

// relays reports whether the controller that leads another group has a replica of this one that knows, without being
// told, what this leader commits.
func (g *group) relays(group uint64) bool {
	to := g.router.group(group)
	return to != nil && !to.led.here.Load() && g.node.Vouches(to.led.leader.Load())
}

func (c *Controller) sendElsewhere(group uint64, payload []byte) {
	for _, id := range c.membersOf(group) {
		c.host.SendPayload(group, id, payload)
	}
}

// heard takes a new role of this controller in a group.
func (r *router) heard(g *group, role consensus.Role) {
	r.lost(g.cfg.Consensus.Group)
	g.led.here.Store(role.Leading)
	if g.led.leader.Swap(role.Leader) == role.Leader || role.Leader == 0 {
		return
	}
	r.tell(ResendPayload(g.cfg.Consensus.Group))
}

// tell passes a payload to all groups of this controller.
func (r *router) tell(payload []byte) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, g := range r.groups {
		g.payloads.put(0, payload)
	}
}

// FramePayload is the payload that brings a frame to the leader of another group.
func FramePayload(frame []byte) []byte { return append([]byte{framePayload}, frame...) }

// ResendPayload is the payload that tells another group of the same controller that a group has a new leader.
func ResendPayload(group uint64) []byte { return binary.AppendUvarint([]byte{resendPayload}, group) }

// RelocatedPayload is the payload that tells another group of the same controller that the directory has changed.
func RelocatedPayload(moved []ledger.Actor, all bool) []byte {
	b := []byte{relocatedPayload}
	if all {
		return b
	}
	for _, a := range moved {
		b = a.Append(b)
	}
	return b
}

// MovePayload is the payload that asks the leader of an actor's group to move it. If the move ends without the actor,
// the leader answers to the call with this id of a controller; without a controller (0) it does not.
func MovePayload(a ledger.Actor, to, controller, id uint64) []byte {
	b := []byte{movePayload}
	for _, n := range []uint64{controller, id, to} {
		b = binary.AppendUvarint(b, n)
	}
	return a.Append(b)
}

// lives is the ledger.Directory.
func (c *Controller) lives(a ledger.Actor) (ledger.Assignment, bool) {
	actors := int(c.assigned.layout().Actors)
	if actors == 0 {
		return ledger.Assignment{}, false // not known here yet
	}
	return Lives(a, actors, c.assigned.of)
}

// Lives is a ledger.Directory of a cluster in which actors of no switch live in so many home groups (Layout.Actors) by
// their names. A switch, and what belongs to it, lives in the group that it is assigned to, and so does a shard with a
// key. What an application has besides lives in a group that its name determines, until it moves.
func Lives(a ledger.Actor, homes int, assigned func(ledger.Actor) (ledger.Assignment, bool)) (ledger.Assignment, bool) {
	at, known := assigned(a)
	if !known && a.Shard == (ledger.Shard{}) {
		return ledger.Assignment{Group: HomeOf(a.App, homes), Version: directory.FirstVersion}, true
	}
	return at, known
}

// HomeOf returns the group, of those from 1 to homes, in which an application has what belongs to no switch.
func HomeOf(app string, homes int) uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(app)) // never fails
	return 1 + uint64(h.Sum32())%uint64(homes)
}

// fromGroup takes a payload of another group, and reports whether it is one.
func (c *Core) fromGroup(payload []byte) bool {
	if len(payload) == 0 {
		return false
	}
	switch kind, rest := payload[0], payload[1:]; kind {
	case framePayload:
		if !c.role.Leading {
			break
		}
		c.takeFrame(ledger.NewFrame(rest))
	case resendPayload:
		if group, n := binary.Uvarint(rest); n > 0 {
			c.ledger.Resend(group)
			if group == 0 {
				c.ledger.Republish()
			}
		}
	case relocatedPayload:
		c.relocated(rest)
	case movePayload:
		c.toMove(rest)
	case tracedPayload:
		c.traces.expect(rest)
	case callPayload, resumePayload, forgetPayload:
		c.called(payload)
	default:
		return false
	}
	return true
}

// takeFrame takes the acknowledgements of a frame, and keeps the rest until the ledger has room.
func (c *Core) takeFrame(f *ledger.Frame) {
	acknowledges := f.Acknowledges()
	if err := c.ledger.Acknowledge(f); err != nil {
		c.refused(err)
	} else if len(c.frames) < maxFrames {
		c.frames = append(c.frames, f)
	}
	if acknowledges {
		crash.At(crash.AfterAck)
	}
}

func (c *Core) refused(err error) {
	c.log.Error("what another group has sent is dropped; run the same release at all controllers", "err", err)
}

// executeFrames executes what other groups have sent, while the ledger has room.
func (c *Core) executeFrames() {
	n := 0
	for _, f := range c.frames {
		if c.draining || !c.room() {
			break
		}
		finished, err := c.ledger.Execute(f)
		if err != nil {
			c.refused(err)
		}
		if !finished {
			break
		}
		n++
	}
	if n > 0 {
		c.frames = slices.Delete(c.frames, 0, n)
		crash.At(crash.AfterReceive)
	}
}

// relayIn lets a follower pass on what the leader of a term commits, as long as it knows it.
func (c *Core) relayIn(r consensus.Role) {
	term := r.Term
	if r.Leader == 0 {
		term = 0
	}
	c.ledger.RelayIn(term)
}

// sendFrames sends committed items and acknowledgements to other groups, at a follower those that it passes on.
func (c *Core) sendFrames() {
	sent := false
	c.ledger.Frames(func(group uint64, frame []byte) {
		if crash.Compiled && ledger.NewFrame(frame).Acknowledges() {
			crash.At(crash.BeforeAck)
		}
		if !sent {
			crash.At(crash.BeforeFrames)
		}
		sent = true
		c.outside.SendFrame(group, frame)
	})
	if sent {
		crash.At(crash.AfterFrames)
	}
}
