package controller

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// join starts a controller that is to be added to the running cluster.
func (s *testCluster) join(id uint64) {
	s.t.Helper()
	peer, of := s.listen("127.0.0.1:0"), s.listen(s.addrs[id])
	s.joins = append(s.joins, id)
	s.members[id] = peer.Addr().String()
	s.start(id, peer, of, nil)
}

// change asks the leader for a change until it is done.
func (s *testCluster) change(m MemberChange) {
	s.t.Helper()
	await.Until(s.t, fmt.Sprintf("change %+v", m), func() bool {
		for _, c := range s.controllers {
			ctx, cancel := context.WithTimeout(s.t.Context(), changeTimeout)
			got, err := c.changeMembers(ctx, m)
			cancel()
			if err == nil && got.Done {
				return true
			}
			if _, at := errors.AsType[*notLeading](err); err != nil && !at && !errors.Is(err, consensus.ErrNotLeader) {
				s.t.Fatal(err)
			}
		}
		return false
	})
}

func (s *testCluster) newMember(id uint64) *NewMember {
	return &NewMember{Name: fmt.Sprint("c", id), ID: id, Address: s.members[id]}
}

// placed checks that all controllers agree where the groups are, and that they are there.
func (s *testCluster) placed(replication int, controllers ...uint64) {
	s.t.Helper()
	for id, c := range s.controllers {
		await.Until(s.t, fmt.Sprintf("controller %d to have its replicas", id), func() bool {
			l := c.assigned.layout()
			if !slices.Equal(l.Controllers, controllers) || !l.Settled() {
				return false
			}
			for i, g := range l.Groups {
				r := c.replica(uint64(i) + 1)
				if len(g.Want) != replication || !slices.Contains(controllers, g.Home) ||
					(r != nil) != (g.At(id) != 0) || r != nil && r.cfg.Consensus.ID != g.At(id) {
					return false
				}
			}
			return true
		})
	}
}

// While packets are answered, a controller joins, another one takes the place of one that is dead, and one leaves. Each
// gets and gives up replicas, and nothing is lost or repeated.
func TestMembersOfSeveralGroups(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: hubs, several: true, replicas: 3, every: 50, later: 2,
		timeout: 3 * time.Second})
	const switches = 6
	ended := make(chan load.Result, 1)
	go func() { // until the second change is about done
		r, err := load.Run(t.Context(), load.Config{Switches: switches, Window: 1, MACsPerSwitch: 3,
			Duration: 6 * time.Second, Drain: 20 * time.Second, Dial: load.At(s.agent.String())})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	s.placed(3, 1, 2, 3)
	s.join(4)
	s.change(MemberChange{Add: s.newMember(4)})
	s.placed(3, 1, 2, 3, 4)
	s.join(5)
	s.stop(2)
	s.change(MemberChange{Add: s.newMember(5), Remove: 2})
	s.placed(3, 1, 3, 4, 5)
	s.change(MemberChange{Replication: 5})
	s.placed(4, 1, 3, 4, 5)
	s.change(MemberChange{Replication: 3})
	s.change(MemberChange{Remove: 3})
	gone := s.controllers[3]
	delete(s.controllers, 3)
	await.End(t, "controller 3, which has left,", gone.Done())
	if !errors.Is(gone.Err(), consensus.ErrRemoved) {
		t.Errorf("controller 3, which has left: %v", gone.Err())
	}
	s.placed(3, 1, 4, 5)
	before := s.controllers[1].assigned.layout()
	s.stop(1)
	s.restart(1)
	s.placed(3, 1, 4, 5)
	if now := s.controllers[1].assigned.layout(); !reflect.DeepEqual(now, before) {
		t.Errorf("after a restart the layout is %+v, before %+v", now, before)
	}
	r := await.End(t, "the load", ended)
	// Each switch also receives the table-miss entry, and the flood of its announcement.
	if r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent || r.Total.Unexpected != 2*switches {
		t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, %d expected", r.Total.Sent,
			r.Total.Answered, r.Unanswered, r.Total.Unexpected, 2*switches)
	}
}

// While packets are answered, the controllers of a cluster with one group are changed to several groups, one after the
// other. Nothing is lost or repeated. The switches stay in the group that was the only one, and new ones get others.
func TestRegroup(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: hubs, every: 50, timeout: 3 * time.Second})
	const switches = 4
	ended := make(chan load.Result, 1)
	go func() {
		r, err := load.Run(t.Context(), load.Config{Switches: switches, Window: 1, MACsPerSwitch: 3,
			Duration: 5 * time.Second, Drain: 20 * time.Second, Dial: load.At(s.agent.String())})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	await.Until(t, "the switches to be up", func() bool {
		_, st := s.leader()
		return len(st.Switches) == switches
	})
	before := s.members
	state, err := directory.Regrouped([]uint64{1, 2, 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id <= 3; id++ {
		time.Sleep(500 * time.Millisecond) // it gets traffic
		s.stop(id)
		cfg := consensus.HostConfig{ID: id, Dir: filepath.Join(s.dir, fmt.Sprint(id))}
		if err := consensus.Regroup(cfg, consensus.GroupConfig{Members: before, State: state}); err != nil {
			t.Fatal(err)
		}
		s.several = true
		s.restart(id)
		s.several = false
	}
	s.several = true
	s.placed(3, 1, 2, 3)
	for id, c := range s.controllers {
		for sw := openflow.DatapathID(1); sw <= switches; sw++ {
			await.Until(t, "a switch to be known", func() bool { _, known := c.assigned.ofSwitch(sw); return known })
			if row, _ := c.assigned.ofSwitch(sw); row.Group != 1 {
				t.Errorf("controller %d: switch %s has %+v", id, sw, row)
			}
		}
	}
	c := s.controllers[2]
	if err := c.assign(switches+1, 0); err != nil {
		t.Fatal(err)
	}
	if row, _ := c.assigned.ofSwitch(switches + 1); row.Group != 2 {
		t.Errorf("a new switch has %+v", row)
	}
	r := await.End(t, "the load", ended)
	if r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent || r.Total.Unexpected != 2*switches {
		t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, %d expected", r.Total.Sent,
			r.Total.Answered, r.Unanswered, r.Total.Unexpected, 2*switches)
	}
}
