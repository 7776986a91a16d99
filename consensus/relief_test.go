package consensus

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// clocked is a group of cores whose network takes no time and whose disks take whole ticks.
type clocked struct {
	t       *testing.T
	members []*clockedMember
	ticks   int
	leaders []uint64 // members that became leader, in order
	serial  bool     // one entry at a time
	dead    uint64   // a member that neither sends nor receives; 0: none
}

type clockedMember struct {
	id      uint64
	core    *Core
	takes   int // ticks per save
	saving  int // batches that are being saved
	until   int
	waiting int // batches that are saved next
	count   int // entries that the owner has
	asked   int // count when the last proposal is committed
	role    Role
	hangs   bool // the owner takes no updates
}

const clockedElection = 5 // ticks

func newClocked(t *testing.T, takes ...int) *clocked {
	c := &clocked{t: t}
	members := map[uint64]string{}
	for i := range takes {
		members[uint64(i+1)] = "member"
	}
	for i, n := range takes {
		boot := Bootstrap(0, members)
		core, err := NewCore(CoreConfig{ID: uint64(i + 1), HeartbeatTicks: 1, ElectionTicks: clockedElection,
			Stagger: Stagger, Seed: 1,
			Saved: storage.Saved{Hard: boot.Hard, Snapshot: *boot.Snapshot}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		c.members = append(c.members, &clockedMember{id: uint64(i + 1), core: core, takes: n})
	}
	if len(takes) > 1 {
		c.members[0].core.campaign() // a single member leads already
	}
	return c
}

// tick makes one tick pass, in which the leader proposes an entry if it may.
func (c *clocked) tick(propose bool) {
	c.t.Helper()
	c.ticks++
	for _, m := range c.members {
		m.core.Tick(0)
		if m.saving > 0 && c.ticks >= m.until {
			m.core.Stored(m.saving)
			m.saving = 0
		}
		if propose && m.role.Leading && m.core.Accepts() && (!c.serial || m.count >= m.asked) {
			m.asked = m.count + 1
			_ = m.core.Propose(m.role.Term, []byte("entry")) // fails if it does not lead any more
		}
	}
	for busy := true; busy; {
		busy = false
		for _, m := range c.members {
			for m.core.HasReady() {
				busy = true
				c.ready(m, m.core.Ready())
			}
			if m.saving == 0 && m.waiting > 0 {
				busy = true
				m.saving, m.waiting, m.until = m.waiting, 0, c.ticks+m.takes
				if m.takes == 0 {
					m.core.Stored(m.saving)
					m.saving = 0
				}
			}
		}
	}
}

func (c *clocked) ready(m *clockedMember, rd Ready) {
	m.waiting += len(rd.Append)
	for _, u := range rd.Updates {
		if m.hangs {
			break
		}
		m.core.Taken()
		if u.Role != nil {
			m.role, m.asked = *u.Role, 0
			if m.role.Leading {
				c.leaders = append(c.leaders, m.id)
			}
		}
		if n := len(u.Entries); n > 0 {
			m.count += n
			m.core.Delivered(u.Entries[n-1].Index)
		}
	}
	for _, w := range rd.Messages {
		if m.id == c.dead || w.Raft.GetTo() == c.dead {
			continue
		}
		c.deliver(w)
	}
}

func (c *clocked) deliver(w wire.Message) {
	c.t.Helper()
	if err := c.members[w.Raft.GetTo()-1].core.Step(w); err != nil {
		c.t.Fatal(err)
	}
}

// A slow disk of a follower delays nothing. A slow disk of the leader delays entries until another member leads.
func TestSlowDisk(t *testing.T) {
	const slow, much = 20, 100 * clockedElection // ticks
	serial := false
	run := func(takes ...int) *clocked {
		c := newClocked(t, takes...)
		c.serial = serial
		for range much {
			c.tick(true)
		}
		return c
	}
	t.Run("follower", func(t *testing.T) {
		c := run(0, slow, 0)
		if fmt.Sprint(c.leaders) != "[1]" {
			t.Errorf("%v have led", c.leaders)
		}
		if n := c.members[0].count; n < much-2 {
			t.Errorf("%d entries in %d ticks", n, much)
		}
	})
	for _, serial = range []bool{false, true} {
		t.Run(fmt.Sprintf("leader, one at a time: %v", serial), func(t *testing.T) {
			c := run(slow, 0, 0)
			if len(c.leaders) != 2 || c.leaders[0] != 1 {
				t.Fatalf("%v have led; want the one with the slow disk, and then one of the others for good", c.leaders)
			}
			before := c.members[1].count
			for range slow {
				c.tick(true)
			}
			if n := c.members[1].count - before; n < slow-1 {
				t.Errorf("%d entries in %d ticks, when another leads", n, slow)
			}
		})
	}
	serial = false
	t.Run("all", func(t *testing.T) {
		c := run(slow, slow+3, slow-3)
		for range much {
			c.tick(true)
		}
		if most := 2*much/(reliefPause*clockedElection) + 1; len(c.leaders) == 0 || len(c.leaders) > most {
			t.Errorf("%v have led: want at least one, and at most %d", c.leaders, most)
		}
	})
	t.Run("two of three", func(t *testing.T) {
		c := run(slow, slow, 0)
		for range 2 * much {
			c.tick(true)
		}
		if len(c.leaders) == 0 || len(c.leaders) > 3 || c.members[2].count < much {
			t.Errorf("%v have led, %d entries", c.leaders, c.members[2].count)
		}
	})
	t.Run("nobody else", func(t *testing.T) {
		if c := run(slow); fmt.Sprint(c.leaders) != "[1]" || c.members[0].count == 0 {
			t.Errorf("alone with a slow disk: %v have led, %d entries", c.leaders, c.members[0].count)
		}
	})
}
