package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

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
	stop := streamEach(t, time.Millisecond, func() error {
		for n := range byte(2) { // of two types, which are two flows
			frame := make([]byte, 1500)
			copy(frame, bob.MAC[:])
			copy(frame[6:], alice.MAC[:])
			frame[12], frame[13] = 0x88, 0xb5+n
			for range 3 {
				alice.Send(frame)
			}
		}
		return nil
	})
	await.Until(t, "a frame at bob", func() bool {
		alice.Resolve(bob.IPv4) // so that topology learns of both
		bob.Resolve(alice.IPv4)
		select {
		case f := <-bob.Received():
			return len(f) == 1500
		default:
			return false
		}
	})
	shown("at first", true)
	s.check(s.leader().Kill())
	shown("without the leader", true)
	stop()
	shown("at last", false)
}
