package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestOneStatus: of a cluster of several groups, each of which another controller leads, every controller gives the
// same status. After a controller was killed, the others name it. All connections use TLS, also those by which
// controllers ask each other.
func TestOneStatus(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2, TLS: true, Apps: []string{"hub"},
		Sections: "groups: per-controller\n"})
	s.connectTLS(credentials(t, s.Authority(), pki.Switch, "s1"))
	s.check(s.WaitHome(s.ctx))
	operator := credentials(t, s.Authority(), pki.Operator, "root")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return operator.Dial(ctx, address, anybody)
	}}
	defer transport.CloseIdleConnections()
	// view is what a controller answers: the leader of each group, the master of each switch, and the controllers that
	// did not answer it
	view := func(c *cluster.Controller) (v struct{ leaders, masters, silent []string }) {
		answer, err := api.NewClusterClient(&http.Client{Transport: transport}, "http://"+c.API).GetStatus(s.ctx,
			&emptypb.Empty{})
		s.check(err)
		var st controller.ClusterStatus
		mirror.Copy(&st, answer)
		for _, g := range st.Groups {
			if g.By != g.Leader || g.Outdated != "" {
				v.leaders = append(v.leaders, g.Outdated)
			} else {
				v.leaders = append(v.leaders, g.Leader)
			}
		}
		for _, sw := range st.Switches {
			v.masters = append(v.masters, sw.Master)
		}
		for _, a := range st.Controllers {
			if a.Error != "" {
				v.silent = append(v.silent, a.Name)
			}
		}
		return v
	}
	c := s.Controllers()
	s.check(c[1].Signal(syscall.SIGHUP)) // has no effect, as there are no files of Ryu
	want := fmt.Sprint(view(c[0]))
	for _, n := range c {
		if v := view(n); fmt.Sprint(v) != want || len(v.leaders) != 4 || len(v.masters) != 2 || len(v.silent) > 0 ||
			slices.Contains(v.masters, "") {
			t.Errorf("%s says %+v, and %s %s", n.Name, v, c[0].Name, want)
		}
	}
	s.check(c[1].Kill())
	for _, n := range []*cluster.Controller{c[0], c[2]} {
		await.Until(t, n.Name+" to know the new leaders and masters", func() bool {
			v := view(n)
			return slices.Equal(v.silent, []string{"c2"}) && len(v.leaders) == 4 && len(v.masters) == 2 &&
				!slices.ContainsFunc(append(v.leaders, v.masters...),
					func(by string) bool { return by != "c1" && by != "c3" })
		})
	}
}
