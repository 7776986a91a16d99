package consensus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// ledBy1 is the status at member 1, which leads. Members up to voters vote; the others are learners.
func ledBy1(voters, members uint64) Status {
	s := Status{Role: Role{Term: 2, Leader: 1, Leading: true}, ID: 1, Last: 5000, Members: map[uint64]string{}}
	for id := uint64(1); id <= members; id++ {
		s.Members[id] = fmt.Sprint("m", id)
		if id <= voters {
			s.Voters = append(s.Voters, id)
		}
		if id > 1 {
			s.Peers = append(s.Peers, Peer{ID: id, Match: s.Last, Votes: id <= voters, State: "replicate",
				Active: true})
		}
	}
	return s
}

// with returns a status in which one member is changed.
func (s Status) with(id uint64, change func(*Peer)) Status {
	s.Peers = slices.Clone(s.Peers)
	for i := range s.Peers {
		if s.Peers[i].ID == id {
			change(&s.Peers[i])
		}
	}
	return s
}

func down(p *Peer)     { p.Active = false }
func behind(p *Peer)   { p.Match = 100 }
func declined(p *Peer) { p.Declined = true }
func last(p *Peer)     { p.Rank = 2 }

func TestPlan(t *testing.T) {
	busy, follower := ledBy1(3, 3), ledBy1(3, 3)
	busy.Changing, follower.Leading = true, false
	for _, c := range []struct {
		name   string
		status Status
		wish   Goal
		want   Step
		err    error
	}{
		{"a new member is a learner first", ledBy1(3, 3), Goal{Add: 9, Address: "m9"},
			Step{Change: MemberChange{Add: map[uint64]string{9: "m9"}}}, nil},
		{"and goes on to, as a fourth", ledBy1(3, 4), Goal{Add: 4}, Step{Done: true}, nil},
		{"with a fifth, both vote", ledBy1(3, 5), Goal{Add: 5}, Step{Change: MemberChange{Promote: []uint64{5, 4}}},
			nil},
		{"but not beyond the bound", ledBy1(5, 7), Goal{Add: 7, Most: 5}, Step{Done: true}, nil},
		{"where one takes the place of another", ledBy1(5, 7), Goal{Remove: 5, Most: 5},
			Step{Change: MemberChange{Promote: []uint64{6}, Remove: []uint64{5}}}, nil},
		{"not before it has the log", ledBy1(3, 5).with(5, behind), Goal{Add: 5},
			Step{Wait: &Peer{ID: 5, Match: 100, State: "replicate", Active: true}}, nil},
		{"the fourth is down: the fifth waits for it", ledBy1(3, 5).with(4, down), Goal{Add: 5}, Step{Done: true}, nil},
		{"replace: the new one is a learner first", ledBy1(3, 3), Goal{Add: 9, Address: "m9", Remove: 3},
			Step{Change: MemberChange{Add: map[uint64]string{9: "m9"}}}, nil},
		{"then takes the other's place at once", ledBy1(3, 4), Goal{Add: 4, Remove: 3},
			Step{Change: MemberChange{Promote: []uint64{4}, Remove: []uint64{3}}}, nil},
		{"done", ledBy1(3, 3), Goal{Add: 3, Remove: 9}, Step{Done: true}, nil},
		{"a member that is not there is removed", ledBy1(3, 3), Goal{Remove: 9}, Step{Done: true}, nil},
		{"one of five: another becomes a learner", ledBy1(5, 5), Goal{Remove: 3},
			Step{Change: MemberChange{Demote: []uint64{5}, Remove: []uint64{3}}}, nil},
		{"rather one that is down", ledBy1(5, 5).with(2, down), Goal{Remove: 3},
			Step{Change: MemberChange{Demote: []uint64{2}, Remove: []uint64{3}}}, nil},
		{"a learner", ledBy1(3, 4), Goal{Remove: 4}, Step{Change: MemberChange{Remove: []uint64{4}}}, nil},
		{"one of three, and there is a learner", ledBy1(3, 4), Goal{Remove: 2},
			Step{Change: MemberChange{Promote: []uint64{4}, Remove: []uint64{2}}}, nil},
		{"one of three", ledBy1(3, 3), Goal{Remove: 2}, Step{}, ErrTooFew},
		{"one of three, and the learner is down", ledBy1(3, 4).with(4, down), Goal{Remove: 2},
			Step{Wait: &Peer{ID: 4, Match: 5000, State: "replicate"}}, nil},
		{"a second beside a single one", ledBy1(1, 2), Goal{Add: 2}, Step{Done: true}, nil},
		{"a third", ledBy1(1, 3), Goal{Add: 3}, Step{Change: MemberChange{Promote: []uint64{3, 2}}}, nil},
		{"the leader: it gives the leadership away", ledBy1(3, 4), Goal{Add: 4, Remove: 1}, Step{Transfer: true}, nil},
		{"the leader, of three", ledBy1(3, 3), Goal{Remove: 1}, Step{}, ErrTooFew},
		{"another change is under way", busy, Goal{Remove: 2}, Step{Busy: true}, nil},
		{"a follower", follower, Goal{Remove: 2}, Step{}, ErrNotLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Plan(c.status, c.wish)
			if fmt.Sprintf("%+v", got.Change) != fmt.Sprintf("%+v", c.want.Change) || got.Busy != c.want.Busy ||
				got.Done != c.want.Done || got.Transfer != c.want.Transfer || !errors.Is(err, c.err) {
				t.Errorf("%+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
			if (got.Wait == nil) != (c.want.Wait == nil) || got.Wait != nil && *got.Wait != *c.want.Wait {
				t.Errorf("waits for %+v, not for %+v", got.Wait, c.want.Wait)
			}
		})
	}
}

// TestPlanKeepsOdd: for any goal, the number of voters is odd after each step, no step affects the leader or
// removes more than one voter, and the goal is reached in a few steps or refused.
func TestPlanKeepsOdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := ledBy1(3, 3)
		for wishes := range uint64(8) {
			w := Goal{}
			if rapid.Bool().Draw(t, "add") {
				w.Add, w.Address = 10+wishes, "new"
			}
			if others := slices.Sorted(maps.Keys(s.Members)); rapid.Bool().Draw(t, "remove") {
				w.Remove = rapid.SampledFrom(others[1:]).Draw(t, "who")
			}
			for steps := 0; ; steps++ {
				step, err := Plan(s, w)
				if errors.Is(err, ErrTooFew) && w.Remove != 0 && len(s.Voters) <= 3 {
					break
				}
				if err != nil || steps > 3 {
					t.Fatalf("wish %+v of %+v: %v after %d steps", w, s, err, steps)
				}
				if step.Done {
					break
				}
				s = s.after(t, step.Change)
			}
		}
	})
}

// after returns the status when a change is made and all members have the log.
func (s Status) after(t *rapid.T, c MemberChange) Status {
	voters := c.voters(s.Voters)
	if len(voters)%2 == 0 || !slices.Contains(voters, s.ID) || len(voters) < len(s.Voters)-2 {
		t.Fatalf("%v vote after %+v, before %v", voters, c, s.Voters)
	}
	next := ledBy1(0, 0)
	next.Voters = voters
	maps.Copy(next.Members, s.Members)
	maps.Copy(next.Members, c.Add)
	maps.DeleteFunc(next.Members, func(id uint64, _ string) bool { return slices.Contains(c.Remove, id) })
	for _, id := range slices.Sorted(maps.Keys(next.Members)) {
		if id != s.ID {
			next.Peers = append(next.Peers, Peer{ID: id, Match: next.Last, Votes: slices.Contains(voters, id),
				State: "replicate", Active: true})
		}
	}
	if n := len(next.Members); len(c.Add) == 0 && len(voters) < n-1 {
		t.Fatalf("only %v of %d members vote", voters, n)
	}
	return next
}

// TestSuccessor: the successor votes, answers, and has most of the log. Of several it is the last in rank.
func TestSuccessor(t *testing.T) {
	for _, c := range []struct {
		status Status
		want   uint64
	}{
		{ledBy1(3, 4).with(3, behind), 2},
		{ledBy1(3, 4).with(3, behind).with(2, down), 3},
		{ledBy1(3, 4).with(3, down).with(2, down), 0},
		{ledBy1(1, 3), 0},
		{ledBy1(3, 3).with(3, declined), 2},
		{ledBy1(3, 3).with(3, declined).with(2, declined).with(3, last), 3},
		{ledBy1(3, 3).with(2, last), 2},
		{ledBy1(3, 3).with(3, last), 3},
		{ledBy1(3, 4).with(3, last).with(3, behind), 2},
	} {
		if got, ok := c.status.Successor(); got != c.want || ok != (c.want != 0) {
			t.Errorf("%d, %v instead of %d: %+v", got, ok, c.want, c.status.Peers)
		}
	}
}
