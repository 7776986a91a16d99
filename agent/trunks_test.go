package agent_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
)

// A switch that is forgotten while its agent dials a controller for it does not end that for the others.
func TestForgottenWhileDialling(t *testing.T) {
	g := &group{t: t}
	m := g.start(t)
	g.lead(m)
	dials, release := make(chan struct{}, 1), make(chan struct{})
	var cancelled atomic.Bool
	b := startAgent(t, agent.Config{Controllers: []string{m.addr}, MaxSwitches: 1,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			select {
			case dials <- struct{}{}:
			default:
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			if errors.Is(ctx.Err(), context.Canceled) {
				cancelled.Store(true)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}})
	knows := func(id uint64) bool {
		return slices.ContainsFunc(b.agent.Status(), func(s agent.Status) bool { return uint64(s.Switch) == id })
	}
	connected := func() bool {
		return slices.ContainsFunc(b.agent.Status(), func(s agent.Status) bool { return s.Connected })
	}
	for id := uint64(7); id <= 9; id++ { // the third takes the place of the first
		var sw *fakeSwitch
		await.Until(t, "a place", func() bool { // the last one has it for a moment after it is away
			sw = tryDial(t, b.addr, id)
			await.Until(t, "it is up, or refused", func() bool { return connected() || sw.ended() })
			return connected()
		})
		if id == 7 {
			await.End(t, "dialling", dials) // the others wait for the same connection
		}
		if id < 9 {
			sw.conn.Close()
			await.Until(t, "it is away", func() bool { return !connected() })
		}
	}
	await.Until(t, "the first one is forgotten", func() bool { return !knows(7) && knows(8) && knows(9) })
	close(release)
	await.Until(t, "one that is left is served", func() bool { return len(g.events()) > 0 })
	if cancelled.Load() {
		t.Error("the switches that are left had to dial again")
	}
}
