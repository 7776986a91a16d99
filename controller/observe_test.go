package controller

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// standby is a session that records what it is told of the log.
type standby struct{ *fake }

func (b standby) Standby(generation uint64) { b.s.note("%d: standby in %s", b.id, inTerm(generation)) }
func (b standby) Logged(_, _ uint64, msg []byte) bool {
	b.s.note("%d: logged %s", b.id, audit.Digest(msg))
	return true
}

func (b standby) Skipped(_, _ uint64, n int) bool {
	if n == southbound.Unknown {
		b.s.note("%d: unknown", b.id)
	} else {
		b.s.note("%d: skipped %d", b.id, n)
	}
	return true
}

func (s *stand) standby(id openflow.DatapathID, peer southbound.Peer) {
	s.core.Attached(standby{s.fake(id, peer, 5)})
}

// A follower shows its sessions of stock switches what another leader logs of the switch: each event, the number of
// events that are not in the log, and that a snapshot has omitted some. A leader does not show its own entries.
func TestStandbysAreShownTheLog(t *testing.T) {
	leader, one := relaxedStand(t, ledger.Unordered, ledger.Limits{})
	one.events(5, 2, packetIn, packetIn)
	leader.turn()
	leader.settle()
	state, err := leader.core.ledger.Snapshot()
	leader.ok(err)

	up := "1: logged " + audit.Digest(switchUp)
	for peer, want := range map[southbound.Peer][]string{
		southbound.Bundles: {"1: standby in 3", up, "1: skipped 2", "1: unknown"},
		southbound.Agent:   {"1: standby in 3", "1: unknown"}, // an agent's session ignores it
	} {
		s := newStand(t, CoreConfig{})
		s.follow(3)
		s.standby(1, peer)
		s.ok(s.deliver(leader.entries...))
		s.ok(s.core.Update(s.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: 9, State: state}}))
		s.said(want...)
	}

	leader.core.Detached(leader.now, one)
	leader.standby(1, southbound.Bundles)
	leader.trace = nil
	leader.follow(4)
	leader.said("1: standby in 4")
}

// The log contains the messages of switches whose events standbys also receive, and only digests of events that an
// agent keeps.
func TestWhoseMessagesAreLogged(t *testing.T) {
	for peer, want := range map[southbound.Peer]ledger.Op{
		southbound.Agent:   ledger.OpSeen,
		southbound.Bundles: ledger.OpEvent,
		southbound.Legacy:  ledger.OpEvent,
	} {
		s := newStand(t, CoreConfig{})
		s.lead(3)
		one := s.up(1, 5)
		one.st.Peer = peer
		one.events(5, 2, packetIn)
		s.turn()
		s.settle()
		var got ledger.Record
		_, err := ledger.Walk(s.entries[len(s.entries)-1], func(r *ledger.Record) error {
			if r.Seq == 2 && (r.Op == ledger.OpEvent || r.Op == ledger.OpSeen) {
				got = *r
			}
			return nil
		})
		s.ok(err)
		if got.Op != want || want == ledger.OpEvent && !bytes.Equal(got.Bytes, packetIn) {
			t.Errorf("%s: the log has %+v, want operation %d", peer, got, want)
		}
	}
}

// A switch does not hear of a term that nobody has won.
func TestStandbyOfATermWithoutLeader(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.ok(s.core.Update(s.now, consensus.Update{Role: &consensus.Role{Term: 7}}))
	s.standby(1, southbound.Bundles)
	s.said("1: standby in 0")
	s.follow(7)
	s.said("1: standby in 7")
}
