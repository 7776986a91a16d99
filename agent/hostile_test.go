package agent_test

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/hostile"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// claim lets one host claim datapath ids, all at once, until stop. up reports whether as many as possible are served.
func claim(t *testing.T, addr string, first, n int) (up func() bool, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var attackers sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for i := range n {
		attackers.Go(func() {
			_ = hostile.Switch{Datapath: uint64(first + i), From: "127.0.0.66", Packets: 1, Size: 100, Up: func() {
				mu.Lock()
				defer mu.Unlock()
				count++
			}}.Attack(ctx, addr)
		})
	}
	stop = func() { cancel(); attackers.Wait() }
	t.Cleanup(stop)
	return func() bool { mu.Lock(); defer mu.Unlock(); return count >= 4 }, stop
}

// TestManyDatapaths: a host that claims more datapath ids than the agent takes, connected or one after the other, keeps
// no other switch out, and the switch that was there before stays.
func TestManyDatapaths(t *testing.T) {
	b := startAgent(t, agent.Config{Controllers: []string{"127.0.0.1:1"}, MaxSwitches: 8})
	events := func(id openflow.DatapathID) int {
		for _, s := range b.agent.Status() {
			if s.Switch == id && s.Connected {
				return s.Held
			}
		}
		return 0
	}
	connected := func() (n int) {
		for _, s := range b.agent.Status() {
			if s.Connected {
				n++
			}
		}
		return n
	}
	early := dialSwitch(t, b.addr, 7)
	await.Until(t, "the first switch to be up", func() bool { return events(7) == 1 })
	for round := range 3 { // 60 datapath ids, of which 8 can be connected, and 16 remembered
		up, stop := claim(t, b.addr, 100*(round+1), 20)
		await.Until(t, "the attackers to be there", up)
		late := dialSwitch(t, b.addr, uint64(10+round))
		late.say(1, 1)
		await.Until(t, "a late switch to be served", func() bool { return events(openflow.DatapathID(10+round)) == 2 })
		stop()
		// Whoever comes while the agent still takes them for connected is refused, and does not try again.
		await.Until(t, "the attackers to be gone", func() bool { return connected() == 2+round })
	}
	early.say(1, 1)
	await.Until(t, "the first switch to be served", func() bool { return events(7) == 2 })
	await.Until(t, "the others to be forgotten", func() bool { return len(b.agent.Status()) <= 16 })
}
