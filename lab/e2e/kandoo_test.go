package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/apps/kandoo"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// TestKandoo: two large flows in a ring of switches get the two paths, also after the death of the leader, and have
// none of their own when they have ended.
func TestKandoo(t *testing.T) {
	t.Parallel()
	for _, groups := range []string{"1", "per-controller"} {
		t.Run("groups "+groups, func(t *testing.T) { twoElephants(t, groups) })
	}
}

func twoElephants(t *testing.T, groups string) {
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"valiant", kandoo.Name},
		Sections: "groups: " + groups + "\n"})
	ring, _ := s.ring(4, 3)
	// An elephant gets the best of the paths that are known, and keeps it when there are more.
	await.Until(t, "the links to be known", func() bool {
		m, err := s.leader().Client().GetTopology(s.ctx, &emptypb.Empty{})
		return err == nil && len(m.Links) == 2*len(ring)
	})
	alice := vswitch.NewHost(of13.MAC{2, 0, 0, 0, 0, 1}, [4]byte{10, 0, 0, 1})
	bob := vswitch.NewHost(of13.MAC{2, 0, 0, 0, 0, 2}, [4]byte{10, 0, 0, 2})
	vswitch.Connect(ring[0].Port(3), alice)
	vswitch.Connect(ring[2].Port(3), bob)
	w := newWeb(t)
	// shown waits until the elephants leave the first switch by ports 1 and 2, or there are none.
	shown := func(when string, two bool) {
		t.Helper()
		await.Until(t, "elephants "+when, func() bool {
			for _, c := range s.Controllers() {
				var list []kandoo.Elephant
				status, text := w.ask(c, "GET", "/apps/kandoo/elephants", "")
				if status != http.StatusOK || json.Unmarshal([]byte(text), &list) != nil {
					continue
				}
				both := strings.Contains(text, `"0000000000000001:1"`) && strings.Contains(text, `"0000000000000001:2"`)
				return two && both && len(list) == 2 || !two && len(list) == 0
			}
			return false
		})
	}
	frames := [2][]byte{} // of two types, which are two flows
	for i := range frames {
		frames[i] = make([]byte, 9000)
		copy(frames[i], bob.MAC[:])
		copy(frames[i][6:], alice.MAC[:])
		frames[i][12], frames[i][13] = 0x88, 0xb5+byte(i)
	}
	send := func() error {
		for _, f := range frames {
			alice.Send(f)
		}
		return nil
	}
	// They have their entries before they are large: thousands of packet-ins would hold up what the switches report.
	var arrived [2]int
	await.Until(t, "frames of both at bob", func() bool {
		alice.Resolve(bob.IPv4) // so that topology learns of both
		bob.Resolve(alice.IPv4)
		_ = send()
		for len(bob.Received()) > 0 {
			if f := <-bob.Received(); len(f) == len(frames[0]) {
				arrived[f[13]-0xb5]++
			}
		}
		return min(arrived[0], arrived[1]) >= 20
	})
	stop := streamEach(t, time.Millisecond, send)
	shown("at first", true)
	s.check(s.leader().Kill())
	shown("without the leader", true)
	stop()
	shown("at last", false)
}
