package consensus

import (
	"errors"
	"slices"
)

// Goal is a change of the members: add one, remove one, or replace one by another if both are set. Nothing is left to
// do for a goal that is reached.
type Goal struct {
	Add     uint64 // 0: none
	Address string // of Add
	Remove  uint64 // 0: none
	Most    int    // voters, at most; 0: any number
}

// Step is the next step toward a Goal.
type Step struct {
	Change MemberChange // to be made now, unless one of the others is set
	Wait   *Peer        // this learner does not have the log yet, or is not connected
	// Transfer says that this leader is to be removed, and must transfer the leadership first.
	Transfer bool
	Busy     bool // another change is in progress
	Done     bool // the goal is reached
}

// ErrTooFew says that a change would make a group that tolerates a failure into one that does not.
var ErrTooFew = errors.New("3 voters survive the loss of one, and fewer survive none: replace the member by another " +
	"instead of removing it")

// nearEnough is by how many entries a learner may be behind when it is promoted: what is in flight under load. It must
// be less than tailEntries.
const nearEnough = 1024

// Ready says whether p has the log of a leader whose log ends at last.
func (p Peer) Ready(last uint64) bool {
	return p.Active && p.State == "replicate" && p.Match+nearEnough >= last
}

// Plan computes the configuration changes: the next step of a leader with this status toward a goal. New members join
// as learners until they have the log, so they do not endanger the quorum. The number of voters is odd: a learner
// without a second one to be promoted with stays a learner. Plan is called again after each step, until it is done.
func Plan(s Status, w Goal) (Step, error) {
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
		!s.Peers[i].Ready(s.Last) {
		return Step{Wait: &s.Peers[i]}, nil
	}
	var c MemberChange
	if _, member := s.Members[w.Remove]; w.Remove != 0 && member {
		c.Remove = []uint64{w.Remove}
	}
	s.balance(&c, w)
	after := c.voters(s.Voters)
	if len(after) < min(3, len(s.Voters)) {
		if i := slices.IndexFunc(s.Peers, func(p Peer) bool {
			return !p.Votes && !p.Ready(s.Last) && !slices.Contains(c.Remove, p.ID)
		}); i >= 0 {
			return Step{Wait: &s.Peers[i]}, nil // then it takes the other's place
		}
		return Step{}, ErrTooFew
	}
	if slices.Contains(c.Remove, s.ID) {
		return Step{Transfer: true}, nil
	}
	return Step{Change: c, Done: len(c.singles()) == 0}, nil
}

// balance adds promotions and demotions to c, so that the number of voters is odd and as large as the goal allows. The
// learner that was added is preferred.
func (s Status) balance(c *MemberChange, w Goal) {
	var spare []uint64
	for _, p := range s.Peers {
		if !p.Votes && p.Ready(s.Last) && !slices.Contains(c.Remove, p.ID) {
			spare = append(spare, p.ID)
		}
	}
	slices.Sort(spare)
	if i := slices.Index(spare, w.Add); i > 0 {
		spare = slices.Insert(slices.Delete(spare, i, i+1), 0, w.Add)
	}
	n, voters := len(spare), len(c.voters(s.Voters))
	if w.Most > 0 {
		n = max(0, min(n, w.Most-voters))
	}
	if (voters+n)%2 == 0 {
		n--
	}
	if n < 0 {
		c.Demote = s.last(c.Remove)
		return
	}
	c.Promote = spare[:n]
}

// last is the voter to demote: one that does not answer, or else the one with the highest id, and never the leader.
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
