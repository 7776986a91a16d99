package e2e

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestLevelsSurviveFailover kills the leader in the middle of a stream of packets that are handled at a weaker level
// than exactly once. Commands may be lost then, but the application's state counts each packet once: every later count
// includes all packets.
func TestLevelsSurviveFailover(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"unordered", "reliable", "ordered"} {
		t.Run(level, func(t *testing.T) {
			s := startCluster(t, cluster.Config{Agents: 1,
				Levels: map[string]map[string]string{"counter": {"packet_in": level}}})
			s.connect()
			sw := s.switches[0]
			const n = 3000
			for i := range n {
				sw.packetIn(fmt.Sprint("packet ", i))
				if i == n/2 {
					s.check(s.leader().Kill())
				}
			}
			s.await("all packets to be processed", func(st cluster.Status) bool {
				return len(st.Switches) == 1 && st.Switches[0].EventsLogged == n+1 && st.Switches[0].Role == "master"
			})
			sw.packetIn("last")
			if got := countOf(t, sw, "last"); got != n+1 {
				t.Errorf("the application has counted %d packets of %d", got, n+1)
			}
		})
	}
}

// countOf waits for the counter's command for a packet.
func countOf(t *testing.T, sw player, text string) uint64 {
	t.Helper()
	for have := 0; ; {
		if err := sw.wait(have + 1); err != nil {
			t.Fatal(err)
		}
		list := sw.executed()
		for _, out := range packetsOf(list[have:]) {
			if count, ok := strings.CutPrefix(out, text); ok {
				return binary.BigEndian.Uint64([]byte(count))
			}
		}
		have = len(list)
	}
}
