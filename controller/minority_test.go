package controller

import (
	"bytes"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// marked is an application whose handler of packet-ins runs without a majority.
type marked struct{ *echoer }

func (marked) Degraded(typ uint8) bool { return typ == of13.TypePacketIn }

// markedStand returns a stand that leads in term 3. Switch 1 is up.
func markedStand(t *testing.T) (*stand, *fake) {
	s := newStand(t, CoreConfig{})
	cfg := s.core.cfg
	cfg.Applications = []ledger.Application{marked{s.app}}
	var err error
	if s.core, err = NewCore(cfg, s); err != nil {
		t.Fatal(err)
	}
	s.lead(3)
	return s, s.up(1, 5)
}

// alone ends the leadership because no majority answers.
func (s *stand) alone() {
	s.t.Helper()
	s.proposed = nil
	s.ok(s.core.Update(s.now, consensus.Update{Role: &consensus.Role{Term: s.term}}))
	s.turn()
}

var portStatus = (&of13.PortStatus{}).Append(nil, 0)

// A leader without a majority handles each event once, also those that it had executed and not committed, and
// acknowledges none. The next leader handles all of them.
func TestMinority(t *testing.T) {
	s, one := markedStand(t)
	one.events(5, 2, packetIn)
	s.turn()
	s.said("1: taken")
	s.alone()
	s.said("1: resend")
	one.events(5, 2, packetIn, packetIn)
	s.said("1: 1 best-effort commands of 5 in 3", "1: 1 best-effort commands of 5 in 3", "1: taken")
	one.events(5, 2, packetIn, packetIn, portStatus, packetIn)
	s.said("1: 1 best-effort commands of 5 in 3", "1: taken")
	s.pass(time.Minute)
	s.said()
	if st := s.core.Status(); st.Switches[0].Role != "degraded" || st.Stale == nil || !st.Stale.Serves ||
		st.Stale.Degraded != 3 {
		t.Errorf("its status in the minority: %+v, %+v", st.Stale, st.Switches[0])
	}
	s.lead(4)
	s.said("1: master in 4", "1: ack 5/1")
	one.events(5, 2, packetIn, packetIn, portStatus, packetIn)
	s.turn()
	s.commit()
	s.said("1: taken", "1: ack 5/5", "1: commands 5/1-4 in 4")
	if st := s.core.Status(); st.Switches[0].Role != "master" || st.Stale != nil {
		t.Errorf("its status as the leader: %+v, %+v", st.Stale, st.Switches[0])
	}
}

// An event that was delivered when the minority began, and comes before those that were undone, is handled in its turn.
func TestMinorityKeepsTheOrder(t *testing.T) {
	s, one := markedStand(t)
	one.events(5, 2, packetIn)
	s.turn()
	s.alone()
	s.trace = nil
	one.events(5, 3, packetIn)
	s.said("1: taken")
	one.events(5, 2, packetIn, packetIn)
	s.said("1: 1 best-effort commands of 5 in 3", "1: 1 best-effort commands of 5 in 3", "1: taken")
}

// Nothing of what a handler does in a minority stays, except for its commands to switches that are connected here.
func TestMinorityChangesNothing(t *testing.T) {
	s, one := markedStand(t)
	two := s.up(2, 7)
	three := s.up(3, 5)
	s.core.Detached(s.now, three)
	handled := 0
	s.app.each = func(tx *ledger.Tx, in *ledger.Input) {
		handled++
		table := tx.Table("counts")
		if v, ok := tx.Get(table, ledger.Key{A: 1}, ledger.Key{}); ok != (handled > 1) || ok && v[0] != 1 {
			t.Errorf("call %d reads %d, %t", handled, v, ok)
		}
		tx.Put(table, ledger.Key{A: 1}, ledger.Key{}, []byte{byte(handled)})
		tx.Put(table, ledger.Key{A: uint64(100 + handled)}, ledger.Key{}, []byte{0})
		if err := tx.SetTimer("late", time.Second, nil); err != nil {
			t.Error(err)
		}
		if err := tx.Emit("said", nil); err != nil {
			t.Error(err)
		}
		for id := range tx.Switches() {
			tx.Send(id, &of13.BarrierRequest{})
		}
		tx.Send(9, &of13.BarrierRequest{}) // nobody knows it
	}
	one.events(5, 2, packetIn)
	s.turn()
	s.commit()
	s.settle()
	s.follow(4)
	snapshot := func() []byte {
		b, err := s.core.Ledger().Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := snapshot()
	s.lead(5)
	s.alone()
	s.trace = nil
	one.events(5, 3, packetIn)
	two.events(7, 2, packetIn)
	s.said("1: 1 best-effort commands of 5 in 5", "2: 1 best-effort commands of 7 in 5", "1: taken",
		"1: 1 best-effort commands of 5 in 5", "2: 1 best-effort commands of 7 in 5", "2: taken")
	if after := snapshot(); handled != 3 || !bytes.Equal(after, before) {
		t.Errorf("after %d calls the state has changed:\n%x\n%x", handled, before, after)
	}
	one.events(4, 3, packetIn) // of an epoch that has ended
	one.events(6, 1, switchUp, packetIn)
	one.events(5, 2, packetIn) // it is in the log
	s.said("1: taken", "1: taken", "1: taken")
}

// A leader that is deposed is not in a minority, nor is a follower, nor a leader without such handlers.
func TestNoMinority(t *testing.T) {
	for name, end := range map[string]func(s *stand){
		"a candidate":         func(s *stand) { s.term = 4; s.alone() },
		"another leader":      func(s *stand) { s.follow(4) },
		"a leader that fails": func(s *stand) { s.follow(4); s.alone() },
	} {
		t.Run(name, func(t *testing.T) {
			s, one := markedStand(t)
			end(s)
			one.events(5, 2, packetIn)
			s.said("1: taken")
		})
	}
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	s.alone()
	one.events(5, 2, packetIn)
	s.said("1: taken")
	if st := s.core.Status(); st.Stale == nil || st.Switches[0].Role != "standby" {
		t.Errorf("its status: %+v, %+v", st.Stale, st.Switches[0])
	}
}

// In a minority, switches are claimed in the generation of the last term, if they have an agent and no later master. An
// election that nobody wins does not end it.
func TestMinorityClaims(t *testing.T) {
	s, one := markedStand(t)
	two := s.up(2, 5)
	s.alone()
	s.said("1: resend", "2: resend")
	s.core.Detached(s.now, one)
	one = s.attached(1, 5)
	s.core.Attached(s.fake(4, southbound.Legacy, 0))
	s.core.Attached(s.fake(5, southbound.Bundles, 0))
	s.said("1: master in 3")
	s.term = 4
	s.alone()
	s.said("1: resend", "2: resend")
	one.events(5, 2, packetIn)
	s.said("1: 1 best-effort commands of 5 in 3", "1: taken")
	two.st.Fenced = true
	s.pass(time.Second)
	two.events(5, 2, packetIn)
	s.said("2: taken")
	s.core.Detached(s.now, two)
	two = s.attached(2, 5)
	two.events(5, 2, packetIn)
	s.said("2: taken")
	s.follow(6)
	one.events(5, 3, packetIn)
	s.said("1: taken")
}
