package consensus

import (
	"errors"
	"slices"
)

// Wish is how the group is to differ: who is to be a member and who is not. To name both replaces one
// by the other. A wish that has come true asks for nothing.
type Wish struct {
	Add     uint64 // 0: nobody
	Address string // of Add
	Remove  uint64 // 0: nobody
}

// Step is the next thing to do for a Wish.
type Step struct {
	Change MemberChange // to be made now, unless one of the others is set
	Wait   *Peer        // this new member does not have the log yet
	// Transfer says that this leader is to be removed, and gives the leadership away first.
	Transfer bool
	Busy     bool // another change is under way
	Done     bool // the wish has come true
}

// ErrTooFew refuses to make a group that survives a failure into one that does not.
var ErrTooFew = errors.New("3 members that vote survive the loss of one, and fewer survive none: replace the " +
	"member by another instead of removing it")

// nearEnough is by how many entries a new member may be behind when it begins to vote: what is on its way
// under load. It must be less than tailEntries.
const nearEnough = 1024

// ready says whether p has the log of a leader whose log ends at last.
func (p Peer) ready(last uint64) bool {
	return p.Active && p.State == "replicate" && p.Match+nearEnough >= last
}

// Plan says what a leader does next for a wish, knowing where it stands. New members first stand by until
// they have the log, so they cost nobody his quorum. An odd number votes: of the others each stands by
// until there is a second one. Plan is called again after each step, until it is done.
func Plan(s Status, w Wish) (Step, error) {
	if !s.Leading {
		return Step{}, ErrNotLeader
	}
	if s.Changing {
		return Step{Busy: true}, nil
	}
	if _, member := s.Members[w.Add]; w.Add != 0 && !member {
		return Step{Change: MemberChange{Add: map[uint64]string{w.Add: w.Address}}}, nil
	}
	if i := slices.IndexFunc(s.Peers, func(p Peer) bool { return p.ID == w.Add && !p.Votes }); i >= 0 &&
		!s.Peers[i].ready(s.Last) {
		return Step{Wait: &s.Peers[i]}, nil
	}
	var c MemberChange
	if _, member := s.Members[w.Remove]; w.Remove != 0 && member {
		c.Remove = []uint64{w.Remove}
	}
	s.balance(&c, w.Add)
	after := c.voters(s.Voters)
	if len(after) < min(3, len(s.Voters)) {
		return Step{}, ErrTooFew
	}
	if slices.Contains(c.Remove, s.ID) {
		return Step{Transfer: true}, nil
	}
	return Step{Change: c, Done: len(c.singles()) == 0}, nil
}

// balance adds to c who begins and who ceases to vote, so that an odd number does, as large as can be. first
// is preferred.
func (s Status) balance(c *MemberChange, first uint64) {
	var spare []uint64
	for _, p := range s.Peers {
		if !p.Votes && p.ready(s.Last) && !slices.Contains(c.Remove, p.ID) {
			spare = append(spare, p.ID)
		}
	}
	slices.Sort(spare)
	if i := slices.Index(spare, first); i > 0 {
		spare = slices.Insert(slices.Delete(spare, i, i+1), 0, first)
	}
	n := len(spare)
	if (len(c.voters(s.Voters))+n)%2 == 0 {
		n--
	}
	if n < 0 {
		c.Demote = s.last(c.Remove)
		return
	}
	c.Promote = spare[:n]
}

// last is the voter that is missed least: one that does not answer, or else the last by id, and never the leader.
func (s Status) last(except []uint64) []uint64 {
	var worst *Peer
	for i, p := range s.Peers {
		if !p.Votes || slices.Contains(except, p.ID) {
			continue
		}
		if worst == nil || worst.Active && !p.Active || worst.Active == p.Active && p.ID > worst.ID {
			worst = &s.Peers[i]
		}
	}
	if worst == nil {
		return nil
	}
	return []uint64{worst.ID}
}
