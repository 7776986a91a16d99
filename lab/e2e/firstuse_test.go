package e2e

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/hostile"
)

// TestFirstUse: the first certificate that speaks for a switch is remembered at all controllers and by the next leader,
// and others are refused until an operator forgets it. A certificate that has the datapath id is always taken.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"1", "per-controller"} {
		t.Run(groups, func(t *testing.T) {
			t.Parallel()
			s := startCluster(t, cluster.Config{TLS: true, Unlisted: "first-use", Apps: []string{"hub"},
				Sections: "groups: " + groups + "\n"})
			s.expectDeaths()
			epoch := uint64(1)
			claims := func(who *mtls.Credentials, at *cluster.Controller) error {
				epoch++
				_, err := hostile.Agent{Datapath: 9, Epoch: epoch, Dial: func(ctx context.Context,
					address string) (net.Conn, error) {
					return who.Dial(ctx, address, anybody)
				}}.Attack(s.ctx, at.OpenFlow)
				return err
			}
			first, second := credentials(t, s.Authority(), pki.Agent, "a1"), credentials(t, s.Authority(), pki.Agent, "a2")
			leader := s.leader()
			s.check(claims(first, leader))
			for _, n := range s.Controllers() {
				if err := claims(second, n); err == nil || errors.Is(err, hostile.ErrRefused) {
					t.Errorf("%s lets another agent speak for the switch: %v", n.Name, err)
				}
			}
			const why = "agent a2 may not speak for switch 0000000000000009, since agent a1 was the first that did"
			if s.countLines(leader.LogFile(), `msg="connection refused"`, why) == 0 {
				t.Errorf("the log of the leader does not say %q", why)
			}
			s.check(leader.Kill())
			leader = s.leader()
			if err := claims(second, leader); err == nil {
				t.Error("the next leader has forgotten who was first")
			}
			s.check(claims(first, leader))
			if out := s.command("switch", "certificates"); !strings.Contains(out, "0000000000000009  agent a1") {
				t.Errorf("remembered are\n%s", out)
			}
			if out := s.command("switch", "forget", "9", "--certificate"); !strings.HasPrefix(out, "agent a1 ") {
				t.Errorf("forgotten is %s", out)
			}
			s.check(claims(second, leader))
			if err := claims(first, leader); err == nil {
				t.Error("who is forgotten speaks beside who came next")
			}
			s.check(claims(s.bound(pki.Agent, "a9", 9), leader))
		})
	}
}
