package controller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// maxMoves bounds the moves that wait for room in the ledger. Further ones are dropped: whoever asks for a move looks
// for its effect in the directory.
const maxMoves = 4096

// move is an actor that is to move to a group.
type move struct {
	actor      ledger.Actor
	to         uint64
	controller uint64 // that is told if it cannot; 0: none
	id         uint64 // of its call
}

// toMove takes a request to move an actor. One that is damaged, or arrives at a controller that does not lead, is
// dropped.
func (c *Core) toMove(payload []byte) {
	if !c.role.Leading || len(c.moves) >= maxMoves {
		return
	}
	var m move
	for _, v := range []*uint64{&m.controller, &m.id, &m.to} {
		n := 0
		if *v, n = binary.Uvarint(payload); n <= 0 {
			return
		}
		payload = payload[n:]
	}
	var rest []byte
	var err error
	if m.actor, rest, err = ledger.ParseActor(payload); err == nil && len(rest) == 0 {
		c.moves = append(c.moves, m)
	}
}

// journey is an actor that moves, and to which group.
type journey struct {
	actor ledger.Actor
	to    uint64
}

// asker is the last one who has asked for a journey and waits for its end.
type asker struct {
	controller, id uint64
	ended          error // why it has ended without the actor; nil if it has not
}

// executeMoves moves actors while the ledger has room.
func (c *Core) executeMoves() {
	for len(c.moves) > 0 && !c.draining && c.room() {
		m := c.moves[0]
		c.moves = c.moves[1:]
		c.beginMove(m)
	}
	if c.draining {
		return
	}
	c.ledger.Moves()
	for _, e := range c.ledger.EndedMoves() {
		c.moveEnded(journey{e.Actor, e.To}, e.Err)
	}
	for _, h := range c.ledger.Handovers() {
		c.handedOver(journey{h.Actor, h.To}, h.Took)
	}
}

func (c *Core) beginMove(m move) {
	j := journey{m.actor, m.to}
	by := c.askers[j]
	if by.ended != nil && by.controller == m.controller && by.id == m.id {
		c.moveEnded(j, by.ended) // it was asked for again before the answer had arrived
		return
	}
	if m.controller != 0 && m.to != c.cfg.Group {
		if len(c.askers) >= maxMoves { // who is not told waits until its time is over
			clear(c.askers)
		}
		c.askers[j] = asker{controller: m.controller, id: m.id}
	}
	switch err := c.ledger.Move(m.actor, m.to); {
	case err == nil && m.to == c.cfg.Group:
		if m.controller != 0 {
			c.outside.Answer(m.controller, Outcome{id: m.id}.append(nil))
		}
	case err == nil:
		c.log.Info("an actor moves", "actor", m.actor.String(), "to", m.to)
	case errors.Is(err, ledger.ErrElsewhere): // the directory says where it lives
		c.log.Warn("an actor does not move", "actor", m.actor.String(), "to", m.to, "err", err)
	default:
		c.moveEnded(j, err)
	}
}

// moveEnded tells who waits for a move that it has ended without the actor.
func (c *Core) moveEnded(j journey, err error) {
	c.failedMoves++
	c.log.Warn("an actor does not move", "actor", j.actor.String(), "to", j.to, "err", err)
	by := c.askers[j]
	if by.controller == 0 {
		return
	}
	by.ended = err
	c.askers[j] = by
	c.outside.Answer(by.controller, Outcome{by.id, failed, []byte(err.Error())}.append(nil))
}

// handedOver tells who waits for a move how long the actor paused. Of a switch only its session knows that: it works
// when the other group is its master.
func (c *Core) handedOver(j journey, pause time.Duration) {
	c.log.Info("an actor has moved", "actor", j.actor.String(), "to", j.to, "handover", pause)
	if by := c.askers[j]; by.controller != 0 && by.ended == nil && j.actor.App != "" {
		c.outside.Answer(by.controller, Outcome{by.id, replied, binary.AppendUvarint(nil, uint64(pause))}.append(nil))
	}
	delete(c.askers, j)
}

// Move is the request to move an actor of an application, or a switch with all actors at it. It changes nothing if the
// actor lives there.
type Move struct {
	App    string     `json:"app,omitempty"`
	Key    ledger.Key `json:"key,omitzero"`     // of the shard; none: what belongs to no switch and no key
	Switch string     `json:"switch,omitempty"` // instead of App: its datapath id, as in the status
	Group  uint64     `json:"group"`            // to which it moves
	Pin    bool       `json:"pin,omitzero"`     // the actor of an application is pinned to that group; see Pin
	// yields: it does not move if it is pinned, since the optimizer asks, and no operator.
	yields bool
}

// actor returns the actor that is to move.
func (m Move) actor() (ledger.Actor, error) {
	switch {
	case m.Switch == "":
		return ledger.Actor{App: m.App, Shard: ledger.Shard{Key: m.Key}}, nil
	case m.App != "" || m.Key != ledger.Key{}:
		return ledger.Actor{}, errBoth
	}
	id, err := strconv.ParseUint(m.Switch, 16, 64)
	if err != nil || id == 0 {
		return ledger.Actor{}, fmt.Errorf("datapath id %q is not one that holdfast status shows", m.Switch)
	}
	return theSwitch(openflow.DatapathID(id)), nil
}

// Moved is the answer.
type Moved struct {
	Actor   string `json:"actor"`
	Group   uint64 `json:"group"`
	Version uint64 `json:"version"` // of the assignment: it grows with each move
	// from the request until the directory said so; 0: it lived there before
	TookMs float64 `json:"took_ms"`
	// of TookMs, how long the actor worked nowhere, at most; 0: it is not known, as for a switch
	PausedMs float64 `json:"paused_ms"`
}

var (
	errOneGroup = errors.New("the cluster has one group: with `groups: per-controller` actors can move")
	errBoth     = errors.New("name a switch, or an application and a key: what an application has at a switch " +
		"moves with " +
		"the switch")
	errNoActor = errors.New("there is no such actor: see the tables of the application for the keys that it has")
)

// moveEvery is how long after a request to move the next one follows: requests may be lost.
const moveEvery = 500 * time.Millisecond

// pauseIn is how long Move waits, when the directory has a move, until the group that the actor has left says how long
// the actor paused. That message may be lost.
const pauseIn = 100 * time.Millisecond

// pause returns how long an actor paused, as the outcome of its move says; 0: that is not known.
func (o Outcome) pause() time.Duration {
	if v, n := binary.Uvarint(o.message); n > 0 && o.kind == replied {
		return time.Duration(v)
	}
	return 0
}

// awaitPause returns the pause of the outcome that comes soon.
func awaitPause(ctx context.Context, outcome <-chan Outcome) time.Duration {
	late := time.NewTimer(pauseIn)
	defer late.Stop()
	select {
	case o := <-outcome:
		return o.pause()
	case <-late.C:
	case <-ctx.Done():
	}
	return 0
}

// Move moves an actor, and returns when the directory says so.
func (c *Controller) Move(ctx context.Context, m Move) (Moved, error) {
	a, err := c.movable(m)
	if err != nil {
		return Moved{}, err
	}
	if m.Pin { // before the move, so that nothing else moves it in between
		if _, err := c.pin(ctx, Pin{App: m.App, Key: m.Key, Pinned: true}); err != nil {
			return Moved{}, err
		}
	}
	again := time.NewTimer(0)
	defer again.Stop()
	if at, known := c.lives(a); known && at.Group == m.Group {
		c.callOff(ctx, a, m.Group)
	}
	began := time.Now()
	var id, asked uint64 // of the call, and the group to which it was sent
	var outcome <-chan Outcome
	var paused time.Duration
	defer func() { c.calls.End(id) }()
	for first := true; ; first = false {
		_, news := c.assigned.watch() // before lives, so that nothing is missed
		at, known := c.lives(a)
		switch {
		case !known:
			return Moved{}, errNoActor
		case m.yields && c.assigned.pinned(a):
			return Moved{}, errPinned
		case at.Group == m.Group:
			if first {
				return Moved{Actor: a.String(), Group: at.Group, Version: at.Version}, nil
			}
			took := time.Since(began)
			if paused == 0 && outcome != nil && m.Switch == "" {
				paused = awaitPause(ctx, outcome)
			}
			// The acknowledgement with which the pause ends may come later than the news of the directory.
			return Moved{a.String(), at.Group, at.Version, inMs(took), inMs(min(paused, took))}, nil
		}
		select {
		case <-news:
		case o := <-outcome:
			if outcome = nil; o.kind == failed {
				return Moved{}, errors.New(string(o.message))
			}
			paused = max(paused, o.pause()) // a request that is repeated after the departure has no answer, or another
		case <-again.C:
			if outcome == nil || asked != at.Group { // else the same call, so that an answer that is on its way counts
				c.calls.End(id)
				id, outcome = c.calls.begin(at.Group)
				asked = at.Group
			}
			c.router.sendPayload(at.Group, MovePayload(a, m.Group, c.cfg.Consensus.ID, id))
			again.Reset(moveEvery)
		case <-ctx.Done():
			return Moved{}, fmt.Errorf("%v has not moved in time, and may move later: %s: %w", a,
				c.holdsUp(at.Group, m.Group), ctx.Err())
		}
	}
}

// movable returns the actor that is to move, or why it cannot: as the one that asks has named it, in the layout that
// this controller knows.
func (c *Controller) movable(m Move) (a ledger.Actor, err error) {
	if !c.several() {
		return a, errOneGroup
	}
	if a, err = m.actor(); err != nil {
		return a, err
	}
	layout := c.assigned.layout()
	if layout.Adopts { // what leaves group 1 before it has a row would be adopted again
		return a, errBeginning
	}
	if g, _ := layout.Of(m.Group); len(g.Have) == 0 {
		return a, fmt.Errorf("there is no group %d to move to, or it has not begun: groups 1 to %d have actors",
			m.Group, len(layout.Groups))
	}
	if m.Switch == "" {
		_, err = c.running(m.App)
	}
	return a, err
}

func inMs(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// callOff calls off a move that has begun of an actor that lives in a group. It waits for the answer for a while, so
// that the next request of the same client comes after it.
func (c *Controller) callOff(ctx context.Context, a ledger.Actor, group uint64) {
	id, done := c.calls.begin(group)
	defer c.calls.End(id)
	c.router.sendPayload(group, MovePayload(a, group, c.cfg.Consensus.ID, id))
	late := time.NewTimer(moveEvery)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// holdsUp says why a move between two groups takes long, as far as this controller knows.
func (c *Controller) holdsUp(from, to uint64) string {
	live := c.liveGroups()
	var without []string
	for _, g := range []uint64{from, to} {
		if !slices.Contains(live, g) {
			without = append(without, fmt.Sprintf("group %d", g))
		}
	}
	if leader, _ := c.assigned.watch(); leader == 0 {
		without = append(without, "the system group")
	}
	if len(without) == 0 {
		return "its groups have leaders, so they have much to do, or their controllers do not reach each other"
	}
	return "no leader is known of " + strings.Join(without, " and ") + ": a majority of its controllers must run and " +
		"reach each other"
}

// passMoves passes the crash points of moves in a committed entry of a home group.
func passMoves(entry []byte) error {
	if !crash.Compiled {
		return nil
	}
	_, err := ledger.Walk(entry, func(r *ledger.Record) error {
		switch {
		case r.Op == ledger.OpLeave && r.Assignment.Group != 0:
			crash.At(crash.MoveGranted)
		case r.Op == ledger.OpDepart:
			crash.At(crash.MoveDeparted)
		case r.Op == ledger.OpReceive && r.Link.Moves():
			if _, _, last := ledger.Arrival(r.Bytes); last {
				crash.At(crash.MoveArrived)
			} else {
				crash.At(crash.MoveCopying)
			}
		}
		return nil
	})
	return err
}

// relocated takes the news that the directory has changed.
func (c *Core) relocated(payload []byte) {
	if len(payload) == 0 {
		c.ledger.RelocatedAll()
	}
	for len(payload) > 0 {
		a, rest, err := ledger.ParseActor(payload)
		if err != nil {
			return
		}
		c.ledger.Relocated(a)
		payload = rest
	}
}

// maxAssign and maxAssignBytes bound the actors of one request to the directory: an entry has the request and the rows
// that follow from it. Keys may be long.
const (
	maxAssign      = 4096
	maxAssignBytes = 256 << 10
)

// inParts yields the actors in lists for one request each, of at most so many.
func inParts(list []ledger.Actor, most int) iter.Seq[[]ledger.Actor] {
	return func(yield func([]ledger.Actor) bool) {
		for len(list) > 0 {
			n := 0
			for size := 0; n < min(len(list), most) && size < maxAssignBytes; n++ {
				size += len(list[n].Append(nil))
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// tellDirectory asks the directory to assign the actors for which something waits, and tells it which have arrived.
func (c *Core) tellDirectory() {
	wanted := map[uint64][]ledger.Actor{} // by the group that they are to get
	for _, a := range c.ledger.Unassigned() {
		group := firstGroup(c.cfg.Applications, a, c.cfg.Group, c.cfg.Live)
		wanted[group] = append(wanted[group], a)
	}
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		for part := range inParts(wanted[group], maxAssign) {
			c.outside.AskDirectory(directory.Assign{Actors: part, Groups: []uint64{group}}.Append(nil))
		}
	}
	for _, a := range c.ledger.Unpublished() {
		at, _ := c.ledger.Assignment(a)
		c.outside.AskDirectory(directory.Moved{Actor: a, Assignment: at}.Append(nil))
	}
}
