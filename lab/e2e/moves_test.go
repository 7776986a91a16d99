package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
)

// Those who die at a crash point of a move: the controllers that lead these groups.
const (
	oldGroup    victims = "old group"
	newGroup    victims = "new group"
	bothGroups  victims = "both groups"
	systemGroup victims = "system group"
)

// moveCrash is one case of TestCrashPointOfMoves.
type moveCrash struct {
	point crash.Point
	who   victims
	what  string // moves
}

const (
	anActor = "actor" // of the application, which has all packets pass through it
	aSwitch = "switch"
)

// TestCrashPointOfMoves kills controllers at each point of a move, while packets pass the actor that moves, or come
// from the switch that does: the leader of the group that it leaves, that of the group to which it moves, both, or that
// of the system group. The move is finished, by the others if one has died. The actor has lived in one group at a
// time, and nothing is lost, repeated or reordered.
func TestCrashPointOfMoves(t *testing.T) {
	notInShort(t)
	inGate := moveCrash{crash.MoveDeparted, oldGroup, anActor}
	inModes(t, []mode{withAgents, stock}, func(t *testing.T, m mode) {
		for _, p := range crash.MovePoints {
			for _, who := range []victims{oldGroup, newGroup, bothGroups, systemGroup} {
				for _, what := range []string{anActor, aSwitch} {
					c := moveCrash{p, who, what}
					if !everything && (m.stock || c != inGate) {
						continue
					}
					t.Run(fmt.Sprintf("%s of %s, %s", p, what, who), func(t *testing.T) { crashInMove(t, m, c) })
				}
			}
		}
	})
}

func crashInMove(t *testing.T, m mode, c moveCrash) {
	dir := t.TempDir()
	after := filepath.Join(dir, "after")
	traps := make([]*trap, 3) // of each controller
	for i := range traps {
		traps[i] = &trap{file: filepath.Join(dir, fmt.Sprintf("mark%d", i)), spec: fmt.Sprintf("%s:1", c.point),
			after: after}
	}
	s := m.startStreams(t, cluster.Config{Env: func(i int) []string { return traps[i].env(i) }})
	system := s.leaderOf(0)
	old, next := (system+1)%3, (system+2)%3
	from, to := s.ledBy(old), s.ledBy(next)
	what, actor := []string{exchange.Name}, "application "+exchange.Name
	if c.what == aSwitch {
		id := s.switches[slices.Index(s.groups, from)].name()
		what, actor = []string{"--switch", id.String()}, "switch "+id.String()
	} else {
		s.move(s.ctx, what, from)
	}
	dying := map[victims][]int{oldGroup: {old}, newGroup: {next}, bothGroups: {old, next}, systemGroup: {system}}[c.who]
	for i, tr := range traps {
		if !slices.Contains(dying, i) {
			writeFile(t, tr.file, "") // not this one
		}
	}
	sprung := func() bool {
		return !slices.ContainsFunc(dying, func(i int) bool { return !traps[i].sprung() })
	}
	s.ready()
	ctx, stop := context.WithCancel(s.ctx)
	var moving sync.WaitGroup
	defer moving.Wait()
	defer stop()
	writeFile(t, after, "")
	moving.Go(func() { s.move(ctx, what, to) })
	for n, began := 0, time.Now(); !sprung(); n++ {
		if time.Since(began) > patience {
			t.Fatalf("not all of %v came to %s\n%s", dying, c.point, s.Logs())
		}
		s.round(fmt.Sprintf("packet %d", n), sprung)
	}
	for _, i := range dying {
		s.Controllers()[i].WaitEnd()
	}
	if len(dying) == 1 {
		moving.Wait() // two of three controllers are enough
		s.round("without the dead", nil)
	}
	for _, i := range dying {
		s.check(s.Controllers()[i].Restart("HOLDFAST_CRASH="))
	}
	moving.Wait()
	for n := range 5 {
		s.round(fmt.Sprintf("later packet %d", n), nil)
	}
	s.renews = m.stock && c.what == aSwitch // if no survivor holds all its events
	r := s.exactStreams()
	if at := s.residence(actor); at != to {
		t.Errorf("%s lives in group %d, not in %d", actor, at, to)
	}
	t.Logf("%+v", r)
}

// round sends a packet from each host to the next, and waits until all are there, or for something else if it is not
// nil.
func (s *streamCluster) round(text string, otherwise func() bool) {
	s.t.Helper()
	for i := range s.switches {
		s.packet(i, (i+1)%len(s.switches), text)
	}
	await.Until(s.t, "the packets", func() bool {
		return s.haveAll() || otherwise != nil && otherwise()
	})
}

// ledBy returns the home group that a controller leads.
func (s *streamCluster) ledBy(controller int) uint64 {
	s.t.Helper()
	for _, g := range s.groups {
		if s.leaderOf(g) == controller {
			return g
		}
	}
	s.t.Fatalf("controller %d leads no group with a switch", controller+1)
	return 0
}

// move moves an actor to a group, and asks again if the controller that was asked dies.
func (s *testCluster) move(ctx context.Context, what []string, group uint64) {
	args := append(append([]string{"move"}, what...), strconv.FormatUint(group, 10))
	for began := time.Now(); ; {
		_, err := s.Command(ctx, args...)
		if err == nil {
			return
		}
		if ctx.Err() != nil || time.Since(began) > 2*patience {
			s.t.Errorf("no move for %v: %v\n%v", time.Since(began), err, ctx.Err())
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// residence checks that an actor has lived in one group after the other, and returns the last.
func (s *streamCluster) residence(actor string) (group uint64) {
	s.t.Helper()
	records, err := oracle.Read(s.AuditFiles())
	s.check(err)
	departed, arrived := map[uint64]audit.Record{}, map[uint64]audit.Record{} // by version
	for _, r := range records {
		of := map[audit.Kind]map[uint64]audit.Record{audit.Departed: departed, audit.Arrived: arrived}[r.Kind]
		if of == nil || r.Actor != actor {
			continue
		}
		if before, again := of[r.Seq]; again {
			s.t.Errorf("%s %s as version %d twice: %+v, %+v", actor, r.Kind, r.Seq, before, r)
		}
		of[r.Seq] = r
	}
	for v := uint64(2); len(departed) > 0; v++ {
		left, leaves := departed[v]
		came, comes := arrived[v]
		if !leaves || !comes || v > 2 && left.Group != group {
			s.t.Errorf("%s is in group %d, and %d moves are left; version %d: %+v, %+v", actor, group, len(departed), v,
				left, came)
			return group
		}
		group = came.Group
		delete(departed, v)
		delete(arrived, v)
	}
	if len(arrived) > 0 {
		s.t.Errorf("%s has arrived and not departed: %+v", actor, arrived)
	}
	return group
}
