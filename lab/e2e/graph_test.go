package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/holdfast-sdn/holdfast/apps/graph"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// TestGraph: the shortest paths of a ring of switches follow a link that is cut and plugged, while leaders die.
func TestGraph(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"1", "per-controller"} {
		t.Run("groups "+groups, func(t *testing.T) {
			s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{graph.Name},
				Sections: "groups: " + groups + "\n"})
			_, links := s.ring(5, 2)
			w := newWeb(t)
			// hops waits until those from the first switch to the others are as given.
			hops := func(when string, want ...int) {
				t.Helper()
				await.Until(t, fmt.Sprintf("hops %v %s", want, when), func() bool {
					for _, c := range s.Controllers() {
						got, all := map[string]int{}, map[string]int{}
						status, text := w.ask(c, "GET", "/apps/graph/1", "")
						if status != http.StatusOK || json.Unmarshal([]byte(text), &got) != nil {
							continue
						}
						for i, n := range want {
							all[openflow.DatapathID(i+2).String()] = n
						}
						return maps.Equal(got, all)
					}
					return false
				})
			}
			hops("at first", 1, 2, 2, 1)
			links[0].SetUp(false)
			hops("without a link", 4, 3, 2, 1)
			leader := s.leader()
			s.check(leader.Kill())
			links[0].SetUp(true)
			hops("when the leader has died and the link is back", 1, 2, 2, 1)
			s.check(leader.Restart())
			links[4].SetUp(false)
			s.check(s.leader().Kill())
			hops("when another leader has died, without another link", 1, 2, 3, 4)
		})
	}
}
