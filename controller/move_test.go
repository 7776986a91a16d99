package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// large is applications of which one has a value that is too large to move. Another answers packets.
func large() []ledger.Application {
	a := app.New("large")
	values := app.NewMap[uint64, uint64, []byte](a, "values")
	app.Handle(a, func(app.SwitchUp) app.Cells { return app.Need(values.Cell(0)) },
		func(tx *app.Tx, _ app.SwitchUp) error {
			values.Put(tx, 0, 1, make([]byte, 1<<20+1))
			return nil
		})
	return append(hubs(), a)
}

// Who asks for a move that is not possible is told why, at whichever controller.
func TestImmovable(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: large, several: true})
	s.run(1, 100*time.Millisecond)
	home := HomeOf("large", 3)
	for id, c := range s.controllers {
		ctx, cancel := context.WithTimeout(t.Context(), changeTimeout)
		_, err := c.Move(ctx, Move{App: "large", Group: home%3 + 1})
		cancel()
		if err == nil || !strings.Contains(err.Error(), ledger.ErrImmovable.Error()) {
			t.Errorf("controller %d: %v", id, err)
		}
	}
}

// Over the API only the leader of the system group moves and pins, others name it: what they know may be old.
func TestLeaderMovesAndPins(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: counter, several: true})
	s.waitGroups()
	lead, _ := s.leader()
	for id, c := range s.controllers {
		_, moved := operations{c}.Move(t.Context(), &api.Move{App: "counter", Group: uint32(HomeOf("counter", 3))})
		_, pinned := operations{c}.Pin(t.Context(), &api.Pin{App: "counter", Pinned: true})
		for what, err := range map[string]error{"move": moved, "pin": pinned} {
			if id == lead {
				if err != nil {
					t.Errorf("the leader: %s: %v", what, err)
				}
			} else if want := fmt.Sprintf("controller %s leads", s.controllers[lead].cfg.Name); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("controller %d: %s: %v, not %q", id, what, err, want)
			}
		}
	}
}

// While the only group of a cluster becomes one of several, nothing moves.
func TestMoveWhileAdopting(t *testing.T) {
	state, err := directory.Regrouped([]uint64{1, 2, 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	core, err := ledger.New([]ledger.Application{new(directory.Application)}, ledger.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Restore(state); err != nil {
		t.Fatal(err)
	}
	rows, err := core.Rows(directory.Name, maxDirectory)
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{assigned: newAssignments(), cfg: Config{Groups: make([]GroupConfig, 4)}}
	if err := c.assigned.view.Restore(rows); err != nil {
		t.Fatal(err)
	}
	for number := range uint64(4) {
		if _, err := c.Move(t.Context(), Move{Switch: "1", Group: number}); !errors.Is(err, errBeginning) {
			t.Errorf("to group %d: %v", number, err)
		}
		g := new(group)
		g.cfg.Consensus.Group = number
		g.led.leader.Store(number)
		c.groups.add(g)
	}
	if list := c.destinations(c.replica(1)); len(list) > 0 {
		t.Errorf("a switch behind a proxy moves to one of %v", list)
	}
}

// A leader answers a request that it refuses, if somebody waits for that.
func TestRefusedMoveIsAnswered(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(1)
	actor := ledger.Actor{App: "echoer"}
	for _, payload := range [][]byte{MovePayload(actor, 2, 0, 0), MovePayload(actor, 2, 7, 5),
		MovePayload(actor, 2, 7, 6)[:5]} {
		s.core.Payload(s.now, 0, payload)
	}
	s.turn()
	s.said("answer 5 to 7: 1 move application echoer: the actor cannot move: only switches and shards of " +
		"applications move, and those of a switch with it")
}

// Who waits for a move is told that somebody else has called it off, also if the request is repeated before the answer
// arrives. Only a new request begins the move anew.
func TestCalledOffMoveIsAnswered(t *testing.T) {
	s := newStand(t, CoreConfig{Group: 1, Directory: func(ledger.Actor) (ledger.Assignment, bool) {
		return ledger.Assignment{Group: 1, Version: 1}, true
	}})
	s.lead(1)
	actor := ledger.Actor{App: "echoer"}
	ask := func(to, controller, id uint64, want ...string) {
		t.Helper()
		s.core.Payload(s.now, 0, MovePayload(actor, to, controller, id))
		s.turn()
		s.commit()
		s.said(want...)
	}
	const told = "answer 5 to 7: 1 the move was called off: somebody has asked for a move to group 1 since"
	ask(2, 7, 5)
	ask(2, 7, 5)
	ask(1, 0, 0, told)
	ask(2, 7, 5, told)
	ask(1, 0, 0)
	ask(2, 7, 6)
	if at, _ := s.core.ledger.Assignment(actor); at.Group != 2 { // it has nothing to copy
		t.Errorf("it lives in group %d", at.Group)
	}
	if n := s.core.Status().failedMoves; n != 2 {
		t.Errorf("%d moves have failed", n)
	}
}

// Who waits for a move is told how long the actor paused.
func TestPauseIsAnswered(t *testing.T) {
	one, two := inGroups(t, CoreConfig{}, nil)
	one.core.Payload(one.now, 0, MovePayload(ledger.Actor{App: "echoer"}, 2, 7, 5))
	for n := 0; len(one.trace) == 0; n++ {
		if n > 100 {
			t.Fatal("nobody is told")
		}
		passFrames(one, two)
	}
	message, told := strings.CutPrefix(one.trace[0], fmt.Sprintf("answer 5 to 7: %d ", replied))
	pause := Outcome{kind: replied, message: []byte(message)}.pause()
	if !told || len(one.trace) > 1 || pause < TickInterval || pause > 100*TickInterval {
		t.Errorf("%q, a pause of %v", one.trace, pause)
	}
}

// Who waits for a move knows how long the actor paused also if the directory has the move much later. A pause is never
// longer than the move.
func TestPauseIsKnownBeforeTheMove(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: counter, several: true})
	s.run(1, 100*time.Millisecond)
	c := s.controllers[1]
	at, known := c.lives(ledger.Actor{App: "counter"})
	if !known {
		t.Fatal("there is no actor")
	}
	late, release := make(chan struct{}), make(chan struct{})
	for _, one := range s.controllers {
		go func() { // ends with release
			_ = one.system().inLoop(t.Context(), func() { late <- struct{}{}; <-release })
		}()
		<-late
	}
	time.AfterFunc(moveEvery*3/2, func() { close(release) })
	moved, err := c.Move(t.Context(), Move{App: "counter", Group: at.Group%3 + 1})
	if err != nil || moved.PausedMs == 0 || moved.PausedMs > moved.TookMs || moved.TookMs < inMs(moveEvery) {
		t.Errorf("%+v, %v", moved, err)
	}
}

// A request to the directory has a bound of actors and of their bytes, since its transaction is to fit into an entry.
func TestInParts(t *testing.T) {
	actors := make([]ledger.Actor, 100)
	for i := range actors {
		actors[i] = ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{A: uint64(i)}}}
	}
	for i := range 20 {
		actors[i].Key.S = strings.Repeat("k", maxAssignBytes/4)
	}
	actors[20].Key.S = strings.Repeat("k", 2*maxAssignBytes)
	var sizes []int
	var all []ledger.Actor
	for part := range inParts(actors, 50) {
		sizes, all = append(sizes, len(part)), append(all, part...)
	}
	if want := []int{4, 4, 4, 4, 4, 1, 50, 29}; !slices.Equal(sizes, want) || !slices.Equal(all, actors) {
		t.Errorf("parts of %d actors, want %d", sizes, want)
	}
}
