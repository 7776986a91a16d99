package ledger_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestSite runs three groups, each as TestCluster does, whose applications have actors in all of them. Frames between
// groups are lost, repeated and reordered.
func TestSite(t *testing.T) {
	first, n := uint64(1), uint64(60)
	if testing.Short() {
		n = 20
	}
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	var sum siteCounts
	var calls callCounts
	var bank bankCounts
	for seed := first; seed < first+n; seed++ {
		s := newSite(t, seed)
		for range 3000 {
			s.act()
		}
		s.drain()
		s.callRoll()
		s.check()
		sum.add(s.siteCounts)
		calls.add(s.calls)
		bank.add(s.checkBank())
	}
	t.Logf("bank: %+v", bank)
	t.Logf("calls: %+v", calls)
	t.Logf("%d seeds: %+v", n, sum)
	if *seedFlag == 0 && !testing.Short() && slices.Contains([]int{sum.Inputs, sum.Commands, sum.Void, sum.Answers,
		sum.Repeated, sum.Lost, sum.Full, sum.Moves, sum.Arrivals, sum.Members, sum.Heard, sum.Switches, sum.Suspended, sum.Relayed,
		calls.Answered, calls.Failed, calls.Late, bank.Done, bank.Overdrawn, bank.Waited}, 0) {
		t.Error("the simulation does not reach what it is to test")
	}
}

// siteGroups is the number of groups, which are numbered from 1.
const siteGroups = 3

func siteGroup(id openflow.DatapathID) uint64 { return uint64(id-1)%siteGroups + 1 }

// site is three groups and the network between them.
type site struct {
	rng    *rand.Rand
	outbox int // Limits.OutboxItems
	groups []*cluster
	way    []parcel

	// What is committed.
	sent, received map[Link][][]byte
	lives          map[Actor]Assignment                // of actors that have moved, or were assigned; group 0: on the way
	rows           map[Actor]Assignment                // of the directory
	views          [siteGroups][3]map[Actor]Assignment // what each replica of each group knows of it
	moves          bool
	suspended      map[Actor]string         // why
	values         [siteGroups + 1]contents // by group
	arriving       map[copying]contents     // copied ahead
	departed       map[Actor]contents       // what those had that are on the way
	calls          callCounts
	departing      Actor              // in the present transaction
	bodies         map[command]string // of commands
	siteCounts
}

// command names a command that was sent to another group.
type command struct {
	Link
	token uint32
}

// parcel is a frame on its way to a group.
type parcel struct {
	to    uint64
	frame []byte
}

// siteCounts says what the simulation reached.
type siteCounts struct {
	Inputs, Commands, Void, Answers, Repeated, Lost, Full, Moves, Arrivals, Members, Heard, Switches, Suspended, Relayed int
}

func (s *siteCounts) add(o siteCounts) {
	*s = siteCounts{s.Inputs + o.Inputs, s.Commands + o.Commands, s.Void + o.Void, s.Answers + o.Answers,
		s.Repeated + o.Repeated, s.Lost + o.Lost, s.Full + o.Full, s.Moves + o.Moves, s.Arrivals + o.Arrivals,
		s.Members + o.Members, s.Heard + o.Heard, s.Switches + o.Switches, s.Suspended + o.Suspended,
		s.Relayed + o.Relayed}
}

func newSite(t testing.TB, seed uint64) *site {
	s := &site{rng: rand.New(rand.NewPCG(seed, 7)), sent: map[Link][][]byte{}, received: map[Link][][]byte{},
		bodies: map[command]string{}, lives: map[Actor]Assignment{}, rows: map[Actor]Assignment{}, moves: seed%3 > 0,
		departed: map[Actor]contents{}, arriving: map[copying]contents{}, suspended: map[Actor]string{}}
	for g := range siteGroups + 1 {
		s.values[g] = contents{}
	}
	if seed%4 == 0 {
		s.outbox = 2 + s.rng.IntN(8)
	}
	for g := range uint64(siteGroups) {
		for i := range s.views[g] {
			s.views[g][i] = map[Actor]Assignment{}
		}
		c := &cluster{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, g)), now: 1_000_000,
			bestEffort: map[string]bool{},
			group:      g + 1, site: s, uniques: g << 40}
		s.groups = append(s.groups, c)
		c.begin()
		if g > 0 { // a switch moves, and what is committed of it remains
			c.oracle.switchLog, c.oracle.feed.switches = s.groups[0].oracle.switchLog, s.groups[0].oracle.feed.switches
		}
	}
	return s
}

func (s *site) act() {
	s.groups[s.rng.IntN(siteGroups)].act()
	if s.rng.IntN(4) == 0 {
		s.carry(true)
	}
	if s.rng.IntN(1000) == 0 {
		s.wait()
	}
	if s.rng.IntN(5) == 0 {
		s.direct()
	}
	if s.rng.IntN(200) == 0 {
		c := s.groups[s.rng.IntN(siteGroups)]
		c.nodes[c.leader].core.Resend(uint64(1 + s.rng.IntN(siteGroups)))
	}
}

// wait lets so much time pass that what waits for actors asks them again.
func (s *site) wait() {
	for _, c := range s.groups {
		c.now += int64(time.Second)
	}
}

// relay makes replicas pass on what is for a group whose leader has the same number: they are at one controller.
func (s *site) relay(core *Core, node int) {
	leads := func(group uint64) bool { return s.groups[group-1].leader == node }
	core.Relay(leads, func(group uint64) bool { return !leads(group) && s.rng.IntN(10) > 0 })
}

// passOn does what a follower passes on.
func (n *simNode) passOn() {
	if s := n.c.site; s != nil {
		n.core.RelayIn(n.c.term)
		n.core.Frames(func(group uint64, frame []byte) {
			s.Relayed++
			s.send(group, frame)
		})
	}
}

// send takes a frame of a leader, or one that a follower passes on.
func (s *site) send(group uint64, frame []byte) { s.way = append(s.way, parcel{group, frame}) }

// carry delivers a frame to the leader of its group, if there is one.
func (s *site) carry(faults bool) {
	if len(s.way) == 0 {
		return
	}
	i := 0
	if faults && s.rng.IntN(10) == 0 {
		i = s.rng.IntN(len(s.way))
	}
	p := s.way[i]
	s.way = slices.Delete(s.way, i, i+1)
	if faults {
		switch s.rng.IntN(20) {
		case 0:
			s.Lost++
			return
		case 1:
			s.Repeated++
			s.way = append(s.way, p)
		}
	}
	c := s.groups[p.to-1]
	n := c.nodes[c.leader]
	if _, leading := n.core.Leading(); leading {
		n.frames = append(n.frames, NewFrame(p.frame))
	}
}

// executeFrames executes frames of other groups while there is room.
func (n *simNode) executeFrames() {
	for len(n.frames) > 0 {
		finished, err := n.core.Execute(n.frames[0])
		n.must(err)
		if !finished {
			return
		}
		n.frames = n.frames[1:]
	}
}

// drain runs the site until nothing is in flight.
func (s *site) drain() {
	for _, c := range s.groups {
		c.calm()
	}
	for round := 0; ; round++ {
		if round > 4000 {
			s.groups[0].fatalf("no rest after %d rounds; %d frames are on their way", round, len(s.way))
		}
		for _, c := range s.groups {
			c.settle()
			s.publish(c.nodes[c.leader].core)
			for _, n := range c.nodes {
				s.learn(n)
			}
			if round%50 == 49 {
				for g := range uint64(siteGroups) {
					c.nodes[c.leader].core.Resend(g + 1)
				}
			}
		}
		if round%100 == 99 {
			s.wait()
		}
		for range len(s.way) {
			s.carry(false)
		}
		if s.resting() {
			return
		}
	}
}

func (s *site) resting() bool {
	for _, c := range s.groups {
		if !c.resting() || len(c.nodes[c.leader].frames) > 0 {
			return false
		}
		for _, p := range c.nodes[c.leader].core.Streams() {
			if p.Items != 0 || p.Bytes != 0 {
				return false
			}
		}
	}
	for a, at := range s.lives {
		if at.Group == 0 || s.rows[a] != at {
			return false
		}
	}
	return len(s.way) == 0
}

// check runs at the end, when nothing is in flight: everything that was sent is received.
func (s *site) check() {
	for _, c := range s.groups {
		c.check()
	}
	s.checkOwners()
	s.checkSuspended()
	s.calls = checkCalls(s.groups...)
	for k, items := range s.sent {
		if !slices.EqualFunc(items, s.received[k], bytes.Equal) {
			s.groups[0].fatalf("stream %v: %d items were sent, %d are received", k, len(items), len(s.received[k]))
		}
	}
}

// record checks an operation of a committed entry of a group.
func (s *site) record(o *oracle, r *Record) error {
	switch r.Op {
	case OpSend:
		return s.recordSend(o, r)
	case OpDepart:
		if g, _ := s.home(r.Actor); g != o.cluster.group || r.Assignment.Version <= s.lives[r.Actor].Version {
			return fmt.Errorf("%v, which lives in group %d, departs from %d", r.Actor, g, o.cluster.group)
		}
		s.lives[r.Actor] = Assignment{0, r.Assignment.Version}
		s.departing, s.departed[r.Actor] = r.Actor, contents{}
	case OpSuspend:
		return s.suspend(o, r)
	case OpPut:
		if a := actorOf(fieldOf(r)); s.suspended[a] != "" {
			return fmt.Errorf("%v, which is suspended, writes", a)
		}
		s.values[o.cluster.group][fieldOf(r)] = string(r.Bytes)
	case OpDelete:
		delete(s.values[o.cluster.group], fieldOf(r))
	case OpDrop, OpClear:
		for f, value := range s.values[o.cluster.group] {
			if f.table == r.Table && (f.cell == r.Cell || r.Op == OpClear) {
				s.departed[s.departing][f] = value
				delete(s.values[o.cluster.group], f)
			}
		}
	case OpReceive:
		items := s.received[r.Link]
		group, known := s.home(r.Link.To)
		if group != o.cluster.group && known && r.Link.To.App != "" {
			return fmt.Errorf("stream %v: item %d is received by group %d, the receiver lives in %d", r.Link, r.Seq,
				o.cluster.group, group)
		}
		switch {
		case r.Seq != uint64(len(items))+1:
			return fmt.Errorf("stream %v: received item %d after %d", r.Link, r.Seq, len(items))
		case r.Seq > uint64(len(s.sent[r.Link])):
			return fmt.Errorf("stream %v: received item %d, %d are committed as sent", r.Link, r.Seq,
				len(s.sent[r.Link]))
		case !bytes.Equal(r.Bytes, s.sent[r.Link][r.Seq-1]):
			return fmt.Errorf("stream %v: item %d is not what was sent", r.Link, r.Seq)
		}
		s.received[r.Link] = append(items, bytes.Clone(r.Bytes))
		if p, moves := DecodePiece(r.Bytes, func(*Record) {}); moves {
			return s.arrive(o, r.Link, p, r.Bytes)
		}
		_, commands, count, epoch, _, err := DecodeItem(r.Bytes)
		if err != nil {
			return err
		}
		if commands != nil {
			k := epochKey{r.Link.To.Switch, o.newest[r.Link.To.Switch]}
			o.arrived = &arrival{Link: r.Link, commands: bytes.Clone(commands), count: count,
				void: epoch != 0 && epoch != k.epoch}
		}
	case OpTaken:
		if r.Seq > uint64(len(s.received[r.Link])) {
			return fmt.Errorf("stream %v: %d items are taken, %d are received", r.Link, r.Seq, len(s.received[r.Link]))
		}
	case OpCommand:
		return o.arrived.executed(r)
	}
	return nil
}

// sw returns a switch, wherever it lives.
func (s *site) sw(id openflow.DatapathID) *simSwitch {
	for _, c := range s.groups {
		if sw := c.sw(id); sw != nil {
			return sw
		}
	}
	return nil
}

// recordSend checks what a group sends to another.
func (s *site) recordSend(o *oracle, r *Record) error {
	from, known := s.home(r.Link.From)
	if _, is := DecodePiece(r.Bytes, func(*Record) {}); is {
		s.sent[r.Link] = append(s.sent[r.Link], bytes.Clone(r.Bytes))
		return nil
	}
	if !known || from != o.cluster.group {
		return fmt.Errorf("group %d sends on stream %v, whose sender lives in %d", o.cluster.group, r.Link, from)
	}
	s.sent[r.Link] = append(s.sent[r.Link], bytes.Clone(r.Bytes))
	in, commands, _, _, token, err := DecodeItem(r.Bytes)
	switch {
	case err != nil:
		return err
	case commands != nil:
		for ; len(commands) > 0; token++ {
			msg, rest, _ := openflow.Next(commands)
			k := command{r.Link, openflow.XID(msg)}
			if s.bodies[k] != "" || uint64(k.token&message.SequenceMask) != token {
				return fmt.Errorf("stream %v: token %x for command %d", r.Link, k.token, token)
			}
			s.bodies[k] = string(msg[openflow.HeaderLen:])
			commands = rest
			s.Commands++
		}
	case in.Kind == Discarded && r.Link.From.App == "":
		s.Void++
		return o.arrived.discarded(r.Link, int(in.Epoch))
	default:
		s.Inputs++
	}
	if in.Kind == Message && !IsExact(&in) && in.Message[1] == of13.TypeBarrierReply {
		if e := &o.input; in.Switch == e.Switch && in.Epoch == e.Epoch && in.Seq < e.Seq {
			return fmt.Errorf("stream %v: answer %d is sent by the transaction of event %d", r.Link, in.Seq, e.Seq)
		}
		n := binary.BigEndian.Uint64(in.Message[openflow.HeaderLen:])
		body, known := s.sw(in.Switch).answers[n]
		asked := command{Link{r.Link.To, r.Link.From}, openflow.XID(in.Message)}
		if known && s.bodies[asked] != "" && s.bodies[asked] != body {
			return fmt.Errorf("stream %v: the answer to %q is passed on as that to %q", r.Link, body, s.bodies[asked])
		}
		if known && s.bodies[asked] == body {
			s.Answers++
		}
	}
	return nil
}

// arrival is an item with commands that a transaction has received.
type arrival struct {
	Link
	commands   []byte
	count      int
	void       bool // it is for another epoch
	ran, voids int
}

// executed is called for each command in the transaction.
func (a *arrival) executed(r *Record) error {
	if a == nil {
		return nil
	}
	msg, rest, _ := openflow.Next(a.commands)
	if a.void || r.Switch != a.To.Switch || msg == nil ||
		!bytes.Equal(msg[openflow.HeaderLen:], r.Bytes[openflow.HeaderLen:]) {
		return fmt.Errorf("stream %v: command %q, received %q (void: %v)", a.Link, r.Bytes, msg, a.void)
	}
	a.commands = rest
	a.ran++
	return nil
}

func (a *arrival) discarded(k Link, count int) error {
	if a == nil || k != (Link{a.To, a.From}) {
		return fmt.Errorf("stream %v: a command is void that was not received", k)
	}
	a.voids += count
	return nil
}

// complete is called at the end of the transaction.
func (a *arrival) complete() error {
	if a != nil && !(a.ran == a.count && a.voids == 0 || a.ran == 0 && a.voids == a.count) {
		return fmt.Errorf("stream %v: of %d commands %d are queued and %d void", a.Link, a.count, a.ran, a.voids)
	}
	return nil
}
