package consensus

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

const patienceTicks = 20

// patient is a group of three whose owners take updates while they do not hang.
func patient(t *testing.T) *clocked {
	c := &clocked{t: t}
	members := map[uint64]string{1: "a", 2: "b", 3: "c"}
	for id := range uint64(len(members)) {
		boot := Bootstrap(0, members)
		core, err := NewCore(CoreConfig{ID: id + 1, HeartbeatTicks: 1, ElectionTicks: clockedElection,
			Stagger: Stagger, Seed: 1, PatienceTicks: patienceTicks,
			Saved: storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		c.members = append(c.members, &clockedMember{id: id + 1, core: core})
	}
	c.members[0].core.campaign()
	return c
}

func (c *clocked) run(ticks int) {
	for range ticks {
		c.tick(false)
	}
}

// A leader whose owner takes no updates leads no longer than the owner's patience, although it sends heartbeats all the
// time, and does not lead again before the owner goes on. One whose owner has nothing to do goes on leading.
func TestOwnerHangs(t *testing.T) {
	c := patient(t)
	c.run(10 * patienceTicks)
	if fmt.Sprint(c.leaders) != "[1]" {
		t.Fatalf("%v have led while all owners are well", c.leaders)
	}
	c.members[0].hangs = true
	c.run(patienceTicks + 3)
	if len(c.leaders) != 2 || c.members[0].core.Role().Leading {
		t.Fatalf("%v have led: the leader's owner hangs", c.leaders)
	}
	next := c.members[c.leaders[1]-1]
	if err := next.core.TransferLeader(1); err != nil {
		t.Fatal(err)
	}
	c.run(3 * patienceTicks)
	if len(c.leaders) != 2 {
		t.Fatalf("%v have led: member 1 leads again, and its owner hangs", c.leaders)
	}
	c.members[0].hangs = false
	c.members[0].core.Taken()
	if err := next.core.TransferLeader(1); err != nil {
		t.Fatal(err)
	}
	c.run(3)
	if fmt.Sprint(c.leaders[2:]) != "[1]" {
		t.Errorf("%v have led: the owner of member 1 goes on", c.leaders)
	}
}

// When the leader dies, a member whose owner hangs leaves the election to the other.
func TestOwnerHangsAndElection(t *testing.T) {
	c := patient(t)
	c.run(2)
	c.members[0].hangs = true
	c.run(patienceTicks + 3)
	if len(c.leaders) != 2 {
		t.Fatalf("%v have led", c.leaders)
	}
	dead := c.leaders[1]
	for _, m := range c.members {
		if m.id != dead {
			m.core.Hint(dead)
		}
	}
	c.dead = dead
	c.run(20 * clockedElection)
	if len(c.leaders) < 3 || c.leaders[2] == 1 {
		t.Errorf("%v have led", c.leaders)
	}
}

// With nobody else to lead, the leader goes on.
func TestOwnerHangsAlone(t *testing.T) {
	c := patient(t)
	c.run(2)
	c.members[0].hangs = true
	c.members[1].core.Drain()
	c.members[2].core.Drain()
	c.run(5 * patienceTicks)
	if fmt.Sprint(c.leaders) != "[1]" {
		t.Errorf("%v have led: the others are drained", c.leaders)
	}
}
