package ledger

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// TestCrowd: peers that claim one datapath id after the other, and execute nothing, lose their epochs, first those that
// are gone, and of those that are connected the ones that hold most. A switch that holds little is not affected.
func TestCrowd(t *testing.T) {
	const bound = 200_000
	a := &script{name: "a"}
	a.do = func(tx *Tx, in *Input) error { // each packet comes back
		if in.Kind == Message {
			_, err := tx.SendBytes(in.Switch, in.Message)
			return err
		}
		return nil
	}
	p := newPair(t, Limits{SwitchesBytes: bound}, a)
	held := func() (bytes int) {
		for _, sw := range p.follower.state.switches {
			bytes += sw.weight()
		}
		return bytes
	}
	live := func(id openflow.DatapathID) bool { return p.follower.state.switches[id].live }
	large := string(make([]byte, 190))
	const honest = 7
	p.up(honest)
	p.event(honest, 1, 2, packetIn(large))
	closed := map[openflow.DatapathID]bool{}
	for id := openflow.DatapathID(100); id < 160; id++ { // 60 times 10 kB
		up := experimenter.SwitchUp{Features: make([]byte, 4_000)}.Append(nil, openflow.Version13)
		p.event(id, 1, 1, up)
		for seq := uint64(2); seq < 32; seq++ {
			p.event(id, 1, seq, packetIn(large))
		}
		if id%2 == 0 {
			p.leader.Unreachable(id)
		}
		for _, r := range p.commit() {
			if r.Closed {
				closed[r.Switch] = true
			}
		}
		if n := held(); n > bound+bound/crowdPart+10_000 {
			t.Fatalf("the switches hold %d bytes, at most %d are possible", n, bound)
		}
	}
	if len(closed) < 30 || closed[honest] || !live(honest) || p.follower.state.switches[honest].queue.Len() != 1 {
		t.Errorf("%d epochs were closed; the honest switch is up: %t", len(closed), live(honest))
	}
	for id := openflow.DatapathID(100); id < 130; id += 2 {
		if live(id) {
			t.Errorf("switch %s is gone and still holds something", id)
		}
	}
	if !live(159) {
		t.Error("the newest was closed, though older ones hold as much and are gone")
	}
	// What was closed returns with another epoch.
	p.event(100, 2, 1, switchUp())
	p.event(honest, 1, 3, packetIn("x"))
	p.commit()
	if !live(100) || p.follower.state.switches[honest].queue.Len() != 2 {
		t.Error("a switch that returns is not served")
	}
}

// Another leader goes on with the count.
func TestCrowdAfterFailover(t *testing.T) {
	a := &script{name: "a"}
	p := newPair(t, Limits{SwitchesBytes: 100_000}, a)
	for id := openflow.DatapathID(1); id <= 9; id++ {
		p.event(id, 1, 1, experimenter.SwitchUp{Features: make([]byte, 10_000)}.Append(nil, openflow.Version13))
	}
	p.commit()
	p.leader, p.follower = p.follower, p.leader
	p.must(p.follower.Follow())
	p.must(p.leader.Lead(2, p.now))
	for id := openflow.DatapathID(10); id <= 30; id++ {
		p.event(id, 1, 1, experimenter.SwitchUp{Features: make([]byte, 10_000)}.Append(nil, openflow.Version13))
		p.commit()
		bytes := 0
		for _, sw := range p.leader.state.switches {
			bytes += sw.weight()
		}
		if bytes > 112_000 {
			t.Fatalf("after switch %s they hold %d bytes", id, bytes)
		}
	}
}
