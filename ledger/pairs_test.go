package ledger

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// pairs is two groups, 1 and 2, each with a leader and a follower. A switch lives in the group that is its number, and
// the application "a" in group 1 until it moves.
type pairs struct {
	t      *testing.T
	groups [3]*pair // by number
	app    [3]*script
	rows   map[Actor]Assignment
	behind uint64                     // the group whose directory knows nothing
	lost   func(from, to uint64) bool // whether a frame is lost; nil: none is
}

func newPairs(t *testing.T) *pairs {
	return newPairsOf(t, func(s *script) Application { return s })
}

// newPairsOf is newPairs with applications that are made of the scripts.
func newPairsOf(t *testing.T, of func(*script) Application) *pairs {
	s := &pairs{t: t, rows: map[Actor]Assignment{}}
	for g := uint64(1); g <= 2; g++ {
		s.app[g] = &script{name: "a"}
		p := &pair{t: t, leader: mustNew(t, Limits{}, of(s.app[g])),
			follower: mustNew(t, Limits{}, of(s.app[g])), now: 1000}
		directory := func(a Actor) (Assignment, bool) {
			if s.behind == g {
				return Assignment{}, false
			}
			return s.directory(a)
		}
		for _, c := range []*Core{p.leader, p.follower} {
			c.Join(g, directory)
		}
		p.must(p.leader.Lead(1, p.now))
		s.groups[g] = p
	}
	return s
}

func (s *pairs) directory(a Actor) (Assignment, bool) {
	if at, known := s.rows[a.mover()]; known || a.Key != (Key{}) {
		return at, known
	}
	return Assignment{max(uint64(a.Switch), 1), 1}, true
}

// run commits and carries everything until nothing is left to do. Nothing waits for time to pass.
func (s *pairs) run() {
	s.t.Helper()
	for s.step() {
	}
}

// step lets each group have a turn. It reports whether anything was done.
func (s *pairs) step() (more bool) {
	s.t.Helper()
	for g := uint64(1); g <= 2; g++ {
		p := s.groups[g]
		p.leader.Moves()
		before := len(p.entries)
		p.commit()
		more = more || len(p.entries) > before
		p.leader.Frames(func(to uint64, frame []byte) {
			if s.lost == nil || !s.lost(g, to) {
				s.carry(to, frame)
				more = true
			}
		})
		for _, a := range p.leader.Unpublished() {
			s.rows[a], _ = p.leader.Assignment(a)
			for _, other := range s.groups[1:] {
				other.leader.Relocated(a)
			}
			more = true
		}
	}
	return more
}

func (s *pairs) carry(to uint64, frame []byte) {
	for f := NewFrame(bytes.Clone(frame)); ; s.groups[to].commit() {
		finished, err := s.groups[to].leader.Execute(f)
		s.groups[to].must(err)
		if finished {
			return
		}
	}
}

func (s *pairs) move(a Actor, from, to uint64) {
	s.t.Helper()
	s.groups[from].must(s.groups[from].leader.Move(a, to))
}

// queued returns the texts of the commands of a switch that are not complete.
func (s *pairs) queued(id openflow.DatapathID) (list []string) {
	at, _ := s.directory(theSwitch(id))
	for rest := s.groups[at.Group].leader.state.switches[id].queue.All(); len(rest) > 0; {
		msg, after, _ := openflow.Next(rest)
		list, rest = append(list, string(msg[openflow.HeaderLen:])), after
	}
	return list
}

var ofApp = Actor{App: "a"}

// handlers makes the application enter its own shard, and then do something.
func (s *pairs) handlers(do func(tx *Tx, in *Input)) {
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if tx.Enter(Shard{}) {
				do(tx, in)
			}
			return nil
		}
	}
}
