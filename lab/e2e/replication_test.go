package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// TestFewReplicas: five controllers, and groups that three of them have. Each controller is killed and restarted once,
// while the agent serves switches of all groups. Every packet-in is answered, once.
func TestFewReplicas(t *testing.T) {
	t.Parallel()
	const switches = 6
	s := startCluster(t, cluster.Config{Controllers: 5, Agents: 1, Apps: []string{"hub"},
		Sections: "groups: per-controller\nreplication: 3\n"})
	s.check(s.WaitHome(s.ctx))
	done := make(chan load.Result, 1)
	go func() {
		r, err := load.Run(s.ctx, load.Config{Switches: switches, Window: 1, MACsPerSwitch: 10,
			Duration: 8 * time.Second, Drain: patience / 2, Dial: load.At(s.Agents()[0].Listen)})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	s.waitUp(switches)
	for _, c := range s.Controllers() {
		s.check(c.Kill())
		time.Sleep(200 * time.Millisecond) // the others take over its group
		s.check(c.Restart())
		s.await(c.Name+" to have its groups", func(cluster.Status) bool {
			st, err := c.Status(s.ctx)
			return err == nil && len(st.Groups) < 6 && !slices.ContainsFunc(st.Groups,
				func(g cluster.GroupStatus) bool {
					return g.Leader == ""
				})
		})
	}
	r := <-done
	// Each switch also receives the table-miss entry, and the flood of its announcement.
	if r.Total.Sent == 0 || r.Unanswered != 0 || r.Total.Answered != r.Total.Sent || r.Total.Unexpected != 2*switches {
		t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, %d expected", r.Total.Sent,
			r.Total.Answered, r.Unanswered, r.Total.Unexpected, 2*switches)
	}
}
