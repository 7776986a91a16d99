package southbound

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// steady returns a plant whose first controller leads, with the others in sync.
func steady(t *testing.T, controllers int) (*plant, *member) {
	t.Helper()
	p := newPlant(t, controllers, 0)
	for _, m := range p.members {
		m.connect()
	}
	p.rest()
	p.members[0].elected()
	p.settle()
	for _, m := range p.members {
		if !m.core.State().InSync {
			t.Fatalf("controller %d is not in sync", m.n)
		}
	}
	if p.members[0].core.peer.(*bundles).state != leading {
		t.Fatalf("state %d", p.members[0].core.peer.(*bundles).state)
	}
	return p, p.members[0]
}

// oneFlow makes every event cause one command.
func oneFlow(epoch, next uint64) [][]byte { return [][]byte{makeCommand(addFlow, epoch, next, false)} }

// A refusal of a message of an earlier term may arrive after the switch was claimed again. It does not concern the
// commands that wait for the claim.
func TestOldRefusalDoesNotStopTheSender(t *testing.T) {
	p, c1 := steady(t, 2)
	c2 := p.members[1]
	p.makes = oneFlow
	p.raise(1)
	p.fromSwitch(c1.wire, 1)
	c1.hears(1)
	c1.commits()
	c1.applies(1)
	c1.sends(1)
	c1.mark() // now the sync marker and the commands are in flight
	c2.elected()
	p.toSwitch(c2.wire, 9)
	p.toSwitch(c1.wire, 9) // the switch refuses them
	c1.applies(9)
	c1.elected() // claims the switch again, with the command that is not done
	p.rest()
	if s := p.state(); p.executed != 1 || s.done != 1 || c1.core.peer.(*bundles).state != leading {
		t.Fatalf("%d commands are executed, %d done, state %d", p.executed, s.done, c1.core.peer.(*bundles).state)
	}
}

// An event that another leader logged before this connection was attached is not logged again in a new epoch.
func TestEventsOfAHandshakeMayBeInTheLog(t *testing.T) {
	p, _ := steady(t, 1)
	c2 := &member{plant: p, n: 2}
	p.members = append(p.members, c2)
	c2.connect()
	p.fromSwitch(c2.wire, 9)
	c2.hears(9)
	p.toSwitch(c2.wire, 9) // HELLO
	p.raise(1)
	for range 20 { // the first controller logs the event, and the second applies it before it is attached
		m := p.members[0]
		p.fromSwitch(m.wire, 9)
		m.hears(9)
		m.commits()
		c2.applies(9)
	}
	c2.elected()
	epoch := p.state().epoch
	p.rest() // fails if an event is logged twice
	if s := p.state(); s.epoch <= epoch || s.events != 2 {
		t.Fatalf("%d events in epoch %d after %d: SWITCH_UP and the mark are due", s.events, s.epoch, epoch)
	}
}

// All logged events arrive before the answer to the claim. If one does not, the switch has dropped it, and an equal
// event that arrives later is another one.
func TestDroppedEventIsNotTakenForALaterOne(t *testing.T) {
	p, c1 := steady(t, 2)
	c2 := p.members[1]
	p.raise(1)
	out, _ := p.sw.Pending(c2.wire.id)
	p.sw.Sent(c2.wire.id, len(out)) // loses the event on its way to the second controller
	p.rest()
	epoch, events := p.state().epoch, p.state().events
	if !c2.core.State().InSync {
		t.Fatal("nothing has come that does not fit")
	}
	c1.dies()
	c2.elected()
	p.fromSwitch(c2.wire, 0)
	p.rest()
	p.lossy = true // otherwise the check of what is in sync fails
	p.raise(1)
	p.rest()
	if s := p.state(); s.epoch != epoch || s.events != events+1 {
		t.Fatalf("%d events in epoch %d, before the second packet %d in epoch %d", s.events, s.epoch, events, epoch)
	}
	if !c2.core.peer.(*bundles).held.inSync {
		t.Fatal("a master is out of sync")
	}
}

// If a switch refuses to report its flow entries, no marker can be read.
func TestSwitchWithoutFlowStatistics(t *testing.T) {
	c := stockCore(t)
	c.Claim(3, 1000, Resume{Epoch: 500, Live: true, Events: 9, Commands: 9})
	if out := c.types(t); out != "4:ROLE_REQUEST 4:BARRIER_REQUEST 4:MULTIPART_REQUEST" {
		t.Fatal(out)
	}
	role := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
	refusal := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadMultipart, Data: make([]byte, 16)}
	mustFeed(t, c, role.Append(nil, c.peer.(*bundles).roleXID), refusal.Append(nil, c.peer.(*bundles).markersXID))
	c.Acknowledge(500, 10) // the end of the epoch
	if out := c.types(t); out != "4:FEATURES_REQUEST" {
		t.Fatalf("it does not go on: %q, state %d", out, c.peer.(*bundles).state)
	}
}

// stockCore is attached to a switch that sends nothing.
func stockCore(t *testing.T) *Core {
	t.Helper()
	c := &Core{}
	if got := mustFeed(t, c, hello13, features13(7), opened(opening), ports13()); len(got) != 1 ||
		got[0].Kind != Attached ||
		c.State().Peer != Bundles {
		t.Fatalf("after the handshake: %+v, mode %s", got, c.State().Peer)
	}
	if out := c.types(t); !strings.HasSuffix(out, "4:SET_ASYNC") {
		t.Fatal(out)
	}
	return c
}

// A switch without an agent says in its handshake with which version it was claimed last.
func TestClaimedBefore(t *testing.T) {
	for generation, want := range map[uint64]uint16{^uint64(0): 0, 0: 0, experimenter.Generation(9, 5, 3): 9} {
		c := &Core{}
		role := of13.RoleReply{Role: of13.RoleEqual, GenerationID: generation}
		mustFeed(t, c, hello13, features13(7), opened(opening), role.Append(nil, opening+2), ports13())
		if st := c.State(); st.Peer != Bundles || st.Claimed != want {
			t.Errorf("generation %x: %+v", generation, st)
		}
	}
}

// Answers to applications are sent to the leader only, so a standby does not wait for them.
func TestStandbyIgnoresAnswersToOthers(t *testing.T) {
	p, _ := steady(t, 2)
	c := p.members[1].core
	vendor := raw(4, openflow.TypeExperimenter, 9, 0, 0, 0, 1, 0, 0, 0, 1)
	c.Logged(0, 0, vendor)
	c.Logged(0, 0, (&of13.Error{}).Append(nil, 5))
	p.raise(1)
	p.rest()
	if !c.State().InSync || c.Held() != 0 {
		t.Fatalf("in sync: %v, %d held", c.State().InSync, c.Held())
	}
}

// No message of an application can change the role of the switch's connection.
func TestNoRolesForApplications(t *testing.T) {
	role := of13.RoleRequest{Role: of13.RoleSlave, GenerationID: 1 << 40}
	async := of13.SetAsync{}
	for _, tc := range []struct {
		name string
		msg  []byte
	}{
		{"role", role.Append(nil, 1)},
		{"async", async.Append(nil, 1)},
		{"role cut short", raw(4, of13.TypeRoleRequest, 1)},
	} {
		for _, bestEffort := range []bool{false, true} {
			p, c1 := steady(t, 1)
			b := commandBlock(c1.term, c1.core.epoch, 1, 1)
			if bestEffort {
				b.First = 0
			}
			before := bytes.Clone(tc.msg)
			if err := c1.core.Send(b, tc.msg); err != nil {
				t.Fatal(err)
			}
			p.log[0].commands, p.states[len(p.log)].commands = [][]byte{tc.msg}, [][]byte{tc.msg}
			c1.take()
			p.rest()
			if !bytes.Equal(before, tc.msg) {
				t.Errorf("%s: the caller's message was changed", tc.name)
			}
			if got := p.sw.Role(c1.wire.id); got != of13.RoleMaster {
				t.Errorf("%s, best-effort %v: its role is %d", tc.name, bestEffort, got)
			}
			if p.told[told{b.Epoch, 1}] != 1 {
				t.Errorf("%s, best-effort %v: the application is not told", tc.name, bestEffort)
			}
			epoch := b.Epoch
			p.raise(1)
			p.rest()
			if p.state().epoch != epoch || p.at[0] != len(p.order)-1 {
				t.Errorf("%s, best-effort %v: events come no more", tc.name, bestEffort)
			}
		}
	}
}

// If the log refuses events because their epoch has ended, the session continues with a new epoch.
func TestStockTold(t *testing.T) {
	_, c1 := steady(t, 1)
	epoch := c1.core.epoch
	if c1.core.Told(epoch) {
		t.Fatal("nobody was told anything")
	}
	c1.core.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: epoch}, 1)
	if !c1.core.Told(epoch) {
		t.Fatal("it is to end though it begins a new epoch")
	}
}

// A switch that is not read, because too many of its events are held, is read again as soon as that helps.
func TestFull(t *testing.T) {
	p, c1 := steady(t, 2)
	c2 := p.members[1]
	fill := func(c *Core) {
		for i := 0; !c.peer.(*bundles).held.crowded(); i++ {
			mustFeed(t, c, packetIn13(byte(i), byte(i>>8), byte(i>>16)))
		}
	}
	fill(c2.core)
	if !c2.core.Full() {
		t.Fatal("a standby holds more and more")
	}
	c1.dies()
	c2.elected()
	if c2.core.Full() {
		t.Fatal("a new leader does not read what its claim is answered")
	}
	c2.core.Standby(p.term + 1)
	if !c2.core.Full() {
		t.Fatal("a standby holds more and more")
	}

	_, c1 = steady(t, 1)
	c1.core.Hold()
	fill(c1.core)
	if !c1.core.Full() || c1.core.More() {
		t.Fatal("a leader that is held up holds more and more")
	}
	c1.core.Resend()
	if c1.core.Full() || !c1.core.More() {
		t.Fatal("what is held would never be handed over")
	}
}

// If a switch sends nothing to slaves, a standby requests the role EQUAL, also after it was master in between.
func TestSwitchThatTellsSlavesNothing(t *testing.T) {
	c := stockCore(t)
	c.Standby(3)
	if out := c.types(t); out != "4:ROLE_REQUEST" {
		t.Fatal(out)
	}
	for n := range uint64(lacksMarkers) {
		if out := c.types(t); out != "" {
			t.Fatalf("after %d marks: %s", n, out)
		}
		c.Logged(0, 0, experimenter.SyncMarker{Generation: 3, Number: n}.Append(nil, 4))
	}
	equal := func() {
		t.Helper()
		var r of13.RoleRequest
		if err := r.Decode(c.TakeOut()); err != nil || r.Role != of13.RoleEqual {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	equal()
	c.Claim(4, 1000, Resume{})
	c.TakeOut()
	c.Standby(5)
	equal()
}

// The session of a switch that does not answer is closed. That of a switch that answers is not, however long the
// answers take.
func TestNoAnswer(t *testing.T) {
	c := stockCore(t)
	c.Claim(3, 1000, Resume{})
	for n := range patience {
		if err := c.Tick(uint64(n), true); err != nil {
			t.Fatalf("given up after %d ticks", n)
		}
	}
	if err := c.Tick(1, true); err != errNoAnswer {
		t.Fatalf("it waits for ever: %v", err)
	}
	d := newDock(t, 0)
	s := c.peer.(*bundles)
	s.sender, s.state, s.unanswered = d.bundleSender, leading, 0
	for range 3 {
		d.give(s.sender.box.Last()+1, "f")
		s.sender = d.bundleSender
		for range patience - 1 {
			if err := c.Tick(1, true); err != nil {
				t.Fatal("given up, though it answers all the time")
			}
		}
		d.execute()
		s.sender = d.bundleSender
	}
}

// A switch of a later version can also begin a new epoch on an old connection.
func TestNewEpochOfALaterVersion(t *testing.T) {
	for _, v := range []uint8{openflow.Version14, openflow.Version15} {
		says := func(msg []byte) []byte {
			msg[0] = v
			return msg
		}
		c := &Core{}
		hello, role := of13.NewHello(of13.VersionsOf(v)), of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
		refusal := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadMultipart,
			Data: make([]byte, 16)}
		noPorts := says(refusal.Append(nil, handshake.OwnXID+2))
		const bundleControl, openReply = 33, 1
		opens := raw(v, bundleControl, opening, 0, 0, 0, 0, 0, openReply, 0, 3)
		mustFeed(t, c, says(hello.Append(nil, 1)), says(features13(7)), opens, says(role.Append(nil, opening+2)),
			noPorts)
		b, ok := c.peer.(*bundles)
		if !ok {
			t.Fatalf("version %d: it is %s", v, c.State().Peer)
		}
		c.Claim(3, 1000, Resume{Epoch: 500, Live: true})
		mustFeed(t, c, says(role.Append(nil, b.roleXID)), says(refusal.Append(nil, b.markersXID)))
		c.Acknowledge(500, 1)
		if b.state != asking {
			t.Fatalf("version %d: state %d", v, b.state)
		}
		mustFeed(t, c, says(raw(v, of13.TypeFeaturesReply, handshake.OwnXID+1,
			features13(7)[openflow.HeaderLen:]...)), noPorts)
		if b.state != founding {
			t.Errorf("version %d: it has said what was asked, and the state is %d", v, b.state)
		}
	}
}

// The queues of a port come from a switch of a later version in parts, which 1.3 does not know. The last one is the
// answer.
func TestQueuesInParts(t *testing.T) {
	c := stockCore(t)
	c.hs.Version = openflow.Version14
	b := c.peer.(*bundles)
	b.state, b.begun, b.epoch = leading, true, 9
	b.sender.start(marker{epoch: 9}, current, 0)
	if err := b.sender.send(1, (&of13.QueueGetConfigRequest{Port: 2}).Append(nil, 1<<24|1)); err != nil {
		t.Fatal(err)
	}
	const queueDesc = 15
	part := func(flags uint16) []Action {
		return mustFeed(t, c, raw(openflow.Version14, of13.TypeMultipartReply, 1<<24|1, 0, queueDesc, 0, byte(flags), 0,
			0, 0, 0))
	}
	if got := part(of13.FlagMore); len(got) != 1 || got[0].Batch.Done != 0 {
		t.Fatalf("the first part: %+v", got)
	}
	if got := part(0); len(got) != 1 || got[0].Batch.Done != 1 {
		t.Fatalf("the last part: %+v", got)
	}
}

// While events are held up, requests are still answered. After the hold, each answer is the last event of a batch,
// which reports that this request is done. If a leader dies between two of these batches, the next leader repeats
// only the requests that are not answered.
func TestAnswersOfASwitchThatIsHeldUp(t *testing.T) {
	_, c1 := steady(t, 1)
	c := c1.core
	var requests []byte
	for seq := range uint32(3) {
		requests = append(requests, raw(4, of13.TypeBarrierRequest, 1<<24|seq+1)...)
	}
	c.Hold()
	if err := c.Send(experimenter.Block{Generation: c1.term, Epoch: c.epoch, First: 1, Count: 3},
		requests); err != nil {
		t.Fatal(err)
	}
	for seq := range uint32(3) {
		answer, barrier := raw(4, of13.TypeBarrierReply, 1<<24|seq+1),
			raw(4, of13.TypeBarrierReply, c.peer.(*bundles).sender.step.barrier)
		if got := mustFeed(t, c, packetIn13(byte(seq)), answer, barrier, packetIn13(byte(seq))); len(got) > 0 {
			t.Fatalf("%+v between Hold and Resend", got)
		}
	}
	logged := c.peer.(*bundles).held.Acked()
	for range 2 { // nothing is logged between the two rounds
		c.Resend()
		var done []uint64
		for _, a := range mustFeed(t, c) {
			if a.Kind != Events {
				t.Fatalf("%+v", a)
			}
			for rest, answers := a.Batch.Messages, uint64(0); len(rest) > 0; {
				var msg []byte
				msg, rest, _ = openflow.Next(rest)
				if msg[1] == of13.TypeBarrierReply {
					answers = uint64(openflow.XID(msg) & 0xff)
				}
				if len(rest) == 0 && a.Batch.Done != answers {
					t.Fatalf("%d are done with a batch that ends with the answer to %d", a.Batch.Done, answers)
				}
			}
			done = append(done, a.Batch.Done)
		}
		if want := []uint64{1, 2, 3, 0}; !slices.Equal(done, want) {
			t.Fatalf("done with each batch: %d, want %d", done, want)
		}
		c.Hold()
	}
	c.Acknowledge(c.epoch, logged+2)
	if len(c.peer.(*bundles).answers) != 2 {
		t.Errorf("%d answers wait to be logged, of 3 one is", len(c.peer.(*bundles).answers))
	}
}

// While a switch owes an answer, it is read even if it sends many events. This has a bound as well, in case the
// answer never arrives.
func TestEventsWithoutAnswer(t *testing.T) {
	flood := func(c *Core) (n int, err error) {
		run := concat(slices.Repeat([][]byte{packetIn13(1)}, 1024)...)
		for ; n < 3*maxHeld && err == nil; n += 1024 {
			_, err = feed(c, run)
		}
		return n, err
	}
	p, _ := steady(t, 2)
	c := p.members[1].core
	p.members[1].elected()
	refusal := of13.Error{ErrType: of13.ErrTypeRoleRequestFailed, Code: of13.RoleRequestFailedStale,
		Data: make([]byte, 16)}
	mustFeed(t, c, refusal.Append(nil, c.peer.(*bundles).roleXID))
	if n, err := flood(c); err != errFlooded || n <= maxHeld {
		t.Errorf("it holds %d events, %v", c.Held(), err)
	}

	// A new epoch contains all events from its beginning. Otherwise it does not begin.
	c = stockCore(t)
	c.Claim(3, 1000, Resume{Epoch: 500, Live: true})
	role := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
	refusal = of13.Error{ErrType: of13.ErrTypeBadRequest, Data: make([]byte, 16)}
	features := raw(4, of13.TypeFeaturesReply, handshake.OwnXID+1, features13(7)[openflow.HeaderLen:]...)
	mustFeed(t, c, role.Append(nil, c.peer.(*bundles).roleXID), refusal.Append(nil, c.peer.(*bundles).markersXID))
	c.Acknowledge(500, 1)
	mustFeed(t, c, packetIn13(0), features, refusal.Append(nil, handshake.OwnXID+2))
	if c.peer.(*bundles).state != founding || c.Held() != 0 {
		t.Fatalf("state %d, %d events held", c.peer.(*bundles).state, c.Held())
	}
	if n, err := flood(c); err != errFlooded || n <= maxHeld {
		t.Errorf("of %d events that came after its features %d are held: %v", n, c.Held(), err)
	}
}

// If a switch refuses commands because another controller is its master, no later answer makes them done.
func TestNothingIsDoneBehindAFence(t *testing.T) {
	_, c1 := steady(t, 1)
	flow := func(xid uint32) []byte { return cookieMod(uint64(xid)).Append(nil, xid) }
	epoch := c1.core.epoch
	if err := c1.core.Send(commandBlock(c1.term, epoch, 1, 1), flow(1)); err != nil {
		t.Fatal(err)
	}
	slave := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestIsSlave, Data: make([]byte, 16)}
	mustFeed(t, c1.core, slave.Append(nil, c1.core.peer.(*bundles).sender.step.barrier))
	if err := c1.core.Send(commandBlock(c1.term, epoch, 2, 1), flow(2)); err != nil {
		t.Fatal(err)
	}
	for _, a := range mustFeed(t, c1.core) {
		if a.Kind == CommandsDone {
			t.Errorf("commands up to %d are done", a.Done)
		}
	}
}

// A leader that cannot continue an epoch logs its end, and the switch keeps the marker of that epoch until this is
// committed: the leader may be cut off, and the next one may be in sync.
func TestEpochEndsInTheLogFirst(t *testing.T) {
	p, c1 := steady(t, 2)
	c2 := p.members[1]
	epoch := p.state().epoch
	c1.breaks(false)
	c1.pending = nil // it cannot commit, from now on
	c1.connect()
	for range 20 {
		p.toSwitch(c1.wire, 9)
		p.fromSwitch(c1.wire, 9)
		c1.hears(9)
	}
	if b := c1.core.peer.(*bundles); b.state != ending || p.epoch != epoch {
		t.Fatalf("state %d, the marker of the switch is of epoch %d after %d", b.state, p.epoch, epoch)
	}
	p.raise(1)
	p.fromSwitch(c2.wire, 9)
	c2.hears(9)
	c2.elected()
	p.settle()
	if got := p.state(); got.epoch != epoch || len(p.at) != 1 || p.at[0] != len(p.order)-1 {
		t.Fatalf("epoch %d after %d; the log is at %d of %d events", got.epoch, epoch, p.at, len(p.order))
	}
}

// While a leader logs the end of an epoch, it sends none of its commands, and delivers the end again after a hold. If
// the ledger has closed the epoch, or the connection ends, no further event is needed.
func TestEndingEpoch(t *testing.T) {
	claimed := func() (*Core, []Action) {
		c := stockCore(t)
		c.Claim(3, 1000, Resume{Epoch: 500, Live: true, Events: 9, Commands: 9, Done: 8})
		c.Send(experimenter.Block{Generation: 3, Epoch: 500, First: 9, Count: 1}, makeCommand(addFlow, 500, 9, false))
		c.TakeOut()
		role, refusal := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}, of13.Error{Data: make([]byte, 16)}
		list := mustFeed(t, c, role.Append(nil, c.peer.(*bundles).roleXID),
			refusal.Append(nil, c.peer.(*bundles).markersXID))
		return c, list
	}
	end := func(list []Action) {
		t.Helper()
		if len(list) != 1 || list[0].Kind != Events || list[0].Batch.Epoch != 500 || list[0].Batch.First != 10 ||
			list[0].Batch.Count != 1 || !isDown(list[0].Batch.Messages) {
			t.Fatalf("%+v", list)
		}
	}
	c, list := claimed()
	end(list)
	c.Acknowledge(500, 9)
	c.Send(experimenter.Block{Generation: 3, Epoch: 500, First: 9, Count: 1}, makeCommand(addFlow, 500, 9, false))
	c.Tick(1, true)
	if out := c.types(t); out != "" || c.Told(500) || !c.State().InSync {
		t.Fatalf("sends %q; told %v, in sync %v", out, c.Told(500), c.State().InSync)
	}
	c.Hold()
	c.Resend()
	end(mustFeed(t, c))
	end([]Action{c.End(experimenter.ReasonSilent)})

	c, list = claimed()
	end(list)
	c.Refuse(experimenter.Refuse{Reason: experimenter.ReasonStaleEpoch, Epoch: 500}, 1)
	if out := c.types(t); out != "4:FEATURES_REQUEST" || !c.Told(500) {
		t.Fatalf("after the ledger has closed the epoch: %q, told %v", out, c.Told(500))
	}
}

// An epoch that is closed while the switch is being claimed does not continue.
func TestEpochClosedDuringTheClaim(t *testing.T) {
	p, c1 := steady(t, 1)
	epoch := c1.core.epoch
	c1.core.Claim(c1.term+1, 2000, Resume{Epoch: epoch, Live: true, Events: p.state().events})
	b := c1.core.peer.(*bundles)
	b.floor = epoch
	b.markers, b.held.inSync = []marker{{epoch, 0}}, true
	b.decide(2000)
	if b.state == leading {
		t.Fatal("it goes on in the closed epoch")
	}
}

// A marker of an epoch after which the ledger takes none is of nobody, and the next epoch is not above it.
func TestMarkerAhead(t *testing.T) {
	for _, tc := range []struct{ marker, known, want uint64 }{
		{math.MaxUint64, 0, 1000},
		{math.MaxUint64 - 1, 500, 1000},
		{1 << 63, 500, 1000},
		{1<<63 - 1, 500, 1 << 63},
		{1<<63 + 7, 1 << 63, 1<<63 + 8},
	} {
		c := stockCore(t)
		c.Claim(3, 1000, Resume{Epoch: tc.known})
		c.types(t)
		b := c.peer.(*bundles)
		role := of13.RoleReply{Role: of13.RoleMaster, GenerationID: 3}
		flow := of13.FlowStats{Cookie: marker{tc.marker, 3}.cookie(), Match: marker{tc.marker, 3}.match()}
		reply := of13.MultipartReply{Part: of13.PartFlow, Body: flow.AppendTo(nil)}
		mustFeed(t, c, role.Append(nil, b.roleXID), reply.Append(nil, b.markersXID))
		b.found(1000)
		if c.epoch != tc.want {
			t.Errorf("marker of epoch %d after %d: the next epoch is %d, want %d", tc.marker, tc.known, c.epoch, tc.want)
		}
	}
}
