package controller

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// cable dials for an agent, and can be cut.
type cable struct {
	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the cable is cut")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// A switch whose agent reaches no controller is reported down after the switch timeout. Its epoch stays open. When
// the agent is back, the switch is up again in the same epoch.
func TestUnreachableSwitch(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	const id openflow.DatapathID = 7
	wire, l := new(cable), s.listen("127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{Listen: l, Controllers: []string{s.addrs[1], s.addrs[2], s.addrs[3]},
			Dial: wire.dial, Logger: quiet})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	}()
	sw := vswitch.StartRunner(vswitch.RunnerConfig{Controllers: []string{l.Addr().String()},
		Switch: vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 1)}})
	defer sw.Close()

	// The application sends one command each time it receives SwitchUp.
	become := func(state string, done uint64) (now SwitchStatus) {
		t.Helper()
		await.Until(s.t, "the switch to be "+state, func() bool {
			_, st := s.leader()
			for _, now = range st.Switches {
				if now.Switch == id.String() && now.State == state && now.CommandsSent == done &&
					now.CommandsDone == done {
					return true
				}
			}
			return false
		})
		return now
	}
	first := become("up", 1)
	wire.setCut(true)
	if away := become("unreachable", 1); away.Role != "none" || away.Epoch != first.Epoch {
		t.Errorf("out of reach it is %+v", away)
	}
	wire.setCut(false)
	if back := become("up", 2); back.Epoch != first.Epoch || back.Role != "master" {
		t.Errorf("back in reach it is %+v, it was %+v", back, first)
	}
}
